"""What a worker decides without waiting: whether a request fits its engine, and whether it can still be in time."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hasten.messages.chat import Turn, needs_of
from hasten.messages.failure import Code, Failed
from hasten.messages.generate import Generate
from hasten.models import Model
from hasten.settings import SettingsError

BYTES_PER_TOKEN = 3
"""English has four and more, Chinese three, code about three: an estimate on the long side."""
TOKENS_PER_TURN = 6
_SMOOTHING = 0.2
_FIELDS = {"tools": "tools", "json": "response_format", "logprobs": "logprobs", "vision": "messages"}
"""Which field of a request a need comes from."""
_NEVER = ("logprobs",)
"""Whatever an engine says it can: the stream has no place for it."""


def find_model(wanted: str, models: Sequence[Model]) -> Model:
    """The row with this name, alias or slug, the first one for the empty string; raises SettingsError."""
    for model in models:
        if wanted in ("", model.name, model.slug, *model.aliases):
            return model
    raise SettingsError(f"the model table has no {wanted!r}; it has {', '.join(model.name for model in models)}")


def estimate_tokens(messages: Sequence[Turn]) -> int:
    """About how many tokens these turns are, for queue figures only."""
    size = sum(len(turn.text.encode("utf-8", "surrogatepass")) for turn in messages)
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
        if need not in capabilities or need in _NEVER:
            raise _unsupported(_FIELDS[need])
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


class Pace:
    """How long a generation takes here, smoothed; until one has ended nothing is claimed."""

    def __init__(self) -> None:
        self.mean_ms: float | None = None

    def finished(self, ms: float) -> None:
        """Counts a generation that held a slot for `ms`."""
        self.mean_ms = ms if self.mean_ms is None else self.mean_ms + _SMOOTHING * (ms - self.mean_ms)

    def wait_ms(self, ahead: int, free: int, slots: int) -> float:
        """How long the next request would wait with `ahead` before it in line and `free` slots (0 when unknown).

        One of `slots` slots comes free every mean / slots; with a free one nobody waits, so a pace that was once
        measured too slow is always measured again.
        """
        if ahead < free or self.mean_ms is None:
            return 0.0
        return self.mean_ms * (ahead - free + 1) / slots


def check_in_time(wait_ms: float, left_ms: float) -> None:
    """Raises Failed(overloaded) when the wait alone outlasts the deadline: another worker may be quicker."""
    if wait_ms > left_ms:
        code: Code = "overloaded"
        raise Failed(code, "the line is longer than the deadline allows", retry_after_ms=round(wait_ms))
