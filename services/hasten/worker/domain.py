"""What a worker decides without waiting: whether a request fits its engine, and whether it can still be in time."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hasten.messages.chat import Turn
from hasten.messages.failure import Code, Failed
from hasten.messages.generate import Generate
from hasten.models import Model
from hasten.settings import SettingsError

BYTES_PER_TOKEN = 3
"""English has four and more, Chinese three, code about three: an estimate on the long side."""
TOKENS_PER_TURN = 6
_SMOOTHING = 0.2
_IMAGES = frozenset({"image_url", "input_image", "input_audio", "file"})


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
    constrained = request.response_format is not None and request.response_format.get("type") != "text"
    needs = (
        ("tools", bool(request.tools), "tools" in capabilities),
        ("response_format", constrained, "json" in capabilities),
        ("logprobs", bool(request.logprobs), False),
        ("messages", _has_images(request.messages), "vision" in capabilities),
        ("continues", bool(request.continues), continues),
    )
    for param, asked, able in needs:
        if asked and not able:
            raise Failed("unsupported", f"this model does not support {param}", param=param)
    if request.continues and (constrained or request.tools):
        raise Failed("unsupported", "an answer with a fixed form cannot be continued", param="continues")


def _has_images(messages: Sequence[Turn]) -> bool:
    parts = (part for turn in messages if isinstance(turn.content, list) for part in turn.content)
    return any(part.get("type") in _IMAGES for part in parts)


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
