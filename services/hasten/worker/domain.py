"""What a worker decides without waiting: whether a request fits its engine, and whether it can still be in time."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hasten.control import neutral_turn, neutraliser
from hasten.messages.chat import Turn
from hasten.messages.failure import Failed
from hasten.messages.generate import Generate
from hasten.messages.needs import FIELD_OF, needs_of
from hasten.models import Model
from hasten.settings import SettingsError

BYTES_PER_TOKEN = 3
"""English has four and more, Chinese three, code about three: an estimate on the long side."""
TOKENS_PER_TURN = 6
_NEUTRAL = neutraliser()


def find_model(wanted: str, models: Sequence[Model]) -> Model:
    """The row with this name, alias or slug, the first one for the empty string; raises SettingsError."""
    for model in models:
        if wanted in ("", model.name, model.slug, *model.aliases):
            return model
    raise SettingsError(f"the model table has no {wanted!r}; it has {', '.join(model.name for model in models)}")


def estimate_tokens(messages: Sequence[Turn], begun: str = "") -> int:
    """About how many tokens these turns and the beginning of an answer are, for the line only."""
    texts = (*(turn.text for turn in messages), begun)
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    return size // BYTES_PER_TOKEN + TOKENS_PER_TURN * len(messages)


def check(request: Generate, capabilities: Sequence[str], continues: bool) -> None:
    """Raises Failed(unsupported) naming the first option the engine cannot honour, or Failed(bad_request)."""
    if not request.messages:
        raise Failed("bad_request", "messages must hold at least one message", param="messages")
    if request.max_tokens < 1:
        raise Failed("bad_request", "max_tokens must be at least 1", param="max_tokens")
    needs = needs_of(
        request.messages,
        tools=request.tools,
        response_format=request.response_format,
        logprobs=request.logprobs,
        top_logprobs=request.top_logprobs,
    )
    for need in needs:
        if need not in capabilities:
            raise _unsupported(FIELD_OF[need])
    if request.continues and not continues:
        raise _unsupported("continues")
    if request.continues and ("json" in needs or "tools" in needs):
        raise Failed("unsupported", "an answer with a fixed form cannot be continued", param="continues")


def _unsupported(param: str) -> Failed:
    return Failed("unsupported", f"this model does not support {param}", param=param)


def with_defaults(request: Generate, defaults: Mapping[str, Any]) -> Generate:
    """The request with the model's defaults for what it leaves open; options we do not know go to `extra`."""
    known = {name: value for name, value in defaults.items() if getattr(request, name, 0) is None}
    fields = set(Generate.__struct_fields__)
    extra = {name: value for name, value in defaults.items() if name not in fields} | request.extra
    return msgspec.structs.replace(request, extra=extra, **known)


def made_safe(request: Generate) -> Generate:
    """The request without control tokens in the words of users, tools and assistants.

    The compressor has seen to that already, with those of the model's own tokenizer besides: this is for who asks the
    worker itself.
    """
    return msgspec.structs.replace(request, messages=[neutral_turn(turn, _NEUTRAL) for turn in request.messages])


def check_in_time(wait_ms: float, needed_ms: float, left_ms: float) -> None:
    """Raises Failed(overloaded) for a request whose deadline comes before its end: another worker may be quicker, and
    so is this one once the line has moved on.

    `needed_ms` of who gets a slot at once is the time to a first token: what is shown until the deadline is worth
    something, and nobody else waits for the slot. Of who waits, or has waited, it is the time for a whole answer: else
    all slots would go to requests that are about to expire.
    """
    late_ms = wait_ms + needed_ms - left_ms
    if late_ms > 0:
        what = "the line is longer" if wait_ms > 0 else "the answer takes longer"
        raise Failed("overloaded", f"{what} than the deadline allows", retry_after_ms=max(1, round(late_ms)))
