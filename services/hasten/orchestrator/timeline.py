"""What ran when in one request, and what did not and why: names, times and reasons, nothing of the content; pure."""

from collections.abc import Callable, Iterable
from typing import Any, Literal, Protocol, Self

import msgspec

from hasten.messages.cache import CacheHit, CacheMiss
from hasten.messages.compress import Compressed
from hasten.messages.failure import Failed, Failure
from hasten.messages.retrieve import Retrieved
from hasten.messages.route import Routed

Outcome = Literal["ran", "hit", "miss", "skipped", "cancelled", "failed"]
ALWAYS = ("exact", "embed", "semantic", "retrieve", "route", "lease", "compress", "generate", "first_token", "store")
"""Stages that are told of even when they did not run; the others (join, follow, hedge, cascade, checks) only then."""
NOT_SERVED = "found, and not served: it has expired, or something that it depends on has changed"
_MISSES = {
    "absent": "nothing is stored",
    "expired": "what is stored has expired",
    "stale": "something that it depends on has changed",
    "threshold": "the nearest question is not near enough",
    "guard": "a guard refused the nearest question",
    "rejected": "that answer was rejected for this question",
    "unavailable": "the cache did not answer",
}


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of a request, in milliseconds since it was admitted. `reason` says what came of it, or why it did not
    run."""

    name: str
    start_ms: float
    end_ms: float
    outcome: Outcome
    reason: str = ""


class Observer(Protocol):
    """Sees each stage begin and end, as it does."""

    def began(self, mark: "Mark") -> None:
        """`mark` has begun."""

    def ended(self, mark: "Mark") -> None:
        """`mark` has ended, and says how."""


class Mark:
    """A stage that has begun. As a context it ends with it: failed by an error, cancelled by anything else that leaves
    it early. The first `end` counts."""

    __slots__ = ("_timeline", "code", "end_ms", "headers", "name", "outcome", "reason", "span", "start_ms")

    def __init__(self, timeline: "Timeline", name: str, start_ms: float) -> None:
        self._timeline, self.name, self.start_ms = timeline, name, start_ms
        self.end_ms: float | None = None
        self.outcome: Outcome = "ran"
        self.reason = self.code = ""
        self.headers: dict[str, str] | None = None
        """What requests of this stage take along, from the observer."""
        self.span: Any = None
        """The observer's own."""

    def end(self, outcome: Outcome = "ran", reason: str = "", code: str = "") -> None:
        """Ends it now; `code` is that of a failure where the reason says more."""
        if self.end_ms is None:
            self.code = code or reason
            self.end_ms, self.outcome, self.reason = self._timeline.now_ms(), outcome, reason
            self._timeline.ended(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.end()
        elif isinstance(error, Failed):
            self.end("failed", error.failure.code)
        elif isinstance(error, Exception):
            self.end("failed", type(error).__name__)
        else:
            self.end("cancelled", "left")


class Timeline:
    """The stages of one flight by its clock, in milliseconds. `close` fixes what is told of them; what begins later, as
    the storing does, is only observed."""

    def __init__(self, now_ms: Callable[[], float], observer: Observer | None = None) -> None:
        self.now_ms, self.observer = now_ms, observer
        self._marks: list[Mark] = []
        self._why: dict[str, str] = {}
        self._told: list[Stage] | None = None

    def begin(self, name: str) -> Mark:
        """Begins a stage."""
        mark = Mark(self, name, self.now_ms())
        self._marks.append(mark)
        if self.observer is not None:
            self.observer.began(mark)
        return mark

    def ended(self, mark: Mark) -> None:
        """Called by a mark, once."""
        if self.observer is not None:
            self.observer.ended(mark)

    def skip(self, name: str, reason: str) -> None:
        """Says why a stage does not run, if it does not."""
        self._why[name] = reason

    def close(self, cache: str | None) -> None:
        """Fixes the account: the answer has ended with this `Done.cache`, None for a failure."""
        if self._told is None:
            self._told = told(self._marks, self._why, self.now_ms(), cache)

    @property
    def stages(self) -> list[Stage]:
        """The account: as `close` fixed it, or so far."""
        return told(self._marks, self._why, self.now_ms(), None) if self._told is None else self._told


def told(marks: Iterable[Mark], why: dict[str, str], now_ms: float, cache: str | None) -> list[Stage]:
    """The account of an answer that ends at `now_ms`, by the times of the stages and then their usual order."""
    found = [_stage(mark, now_ms) for mark in marks]
    found = _with_hit(found, cache)
    names = {stage.name for stage in found}
    last = now_ms if cache is not None else max((stage.end_ms for stage in found), default=0.0)
    for name in (*ALWAYS, *sorted(set(why) - set(ALWAYS))):
        if name not in names:
            found.append(_absent(name, why, last, cache, names))
    return sorted(found, key=lambda stage: stage.start_ms)


def _stage(mark: Mark, now_ms: float) -> Stage:
    if mark.end_ms is None and mark.name == "follow":
        return _new(mark.name, mark.start_ms, now_ms, "ran", "another replica said it all")
    if mark.end_ms is None:
        return _new(mark.name, mark.start_ms, now_ms, "cancelled", "not needed any more: the answer has ended")
    return _new(mark.name, mark.start_ms, mark.end_ms, mark.outcome, mark.reason)


def _with_hit(found: list[Stage], cache: str | None) -> list[Stage]:
    """Leaves the one hit that was served, which may have been remembered without a look-up."""
    hits = [stage for stage in found if stage.outcome == "hit"]
    if cache not in ("exact", "semantic"):
        served = None
    elif hits:
        served = max(hits, key=lambda stage: stage.end_ms)
    elif any(stage.name == "follow" for stage in found):
        served = None
    else:
        reason = "remembered: the cache confirmed it a moment ago"
        return [_new("exact", 0.0, 0.0, "hit", reason), *found]
    return [
        msgspec.structs.replace(stage, outcome="miss", reason=NOT_SERVED)
        if stage.outcome == "hit" and stage is not served
        else stage
        for stage in found
    ]


def _absent(name: str, why: dict[str, str], last_ms: float, cache: str | None, names: set[str]) -> Stage:
    if (reason := why.get(name)) is not None:
        return _new(name, 0.0, 0.0, "skipped", reason)
    if name == "store" and cache == "miss":
        return _new(name, last_ms, last_ms, "ran", "begins now: nobody waits for it")
    if cache in ("exact", "semantic"):
        return _new(name, last_ms, last_ms, "skipped", "the answer was there")
    if "follow" in names:
        return _new(name, last_ms, last_ms, "skipped", "another replica does it for this answer")
    return _new(name, last_ms, last_ms, "skipped", "not needed" if cache else "the request ended before")


def _new(name: str, start_ms: float, end_ms: float, outcome: Outcome, reason: str) -> Stage:
    return Stage(name=name, start_ms=round(start_ms, 3), end_ms=round(end_ms, 3), outcome=outcome, reason=reason)


def since(stages: Iterable[Stage], later_ms: float) -> list[Stage]:
    """The account for a request that was admitted so much later than the flight began: negative when it began the
    flight itself. What had ended by then it has skipped."""
    if later_ms <= 0:
        return [_moved(stage, -later_ms) for stage in stages]
    ago = f"the answer was begun {later_ms:.0f} ms before"
    moved = [_new("join", 0.0, 0.0, "ran", f"joined: {ago}")]
    for stage in stages:
        if stage.end_ms <= later_ms and stage.outcome != "skipped":
            moved.append(_new(stage.name, 0.0, 0.0, "skipped", f"done already: {ago}"))
        else:
            moved.append(_moved(stage, -later_ms))
    return moved


def _moved(stage: Stage, by_ms: float) -> Stage:
    start_ms, end_ms = max(0.0, stage.start_ms + by_ms), max(0.0, stage.end_ms + by_ms)
    return msgspec.structs.replace(stage, start_ms=round(start_ms, 3), end_ms=round(end_ms, 3))


def data_of(stages: Iterable[Stage]) -> dict[str, Any]:
    """The data of a note of kind `timeline`."""
    return {"stages": [msgspec.to_builtins(stage) for stage in stages]}


def came_of(reply: Any) -> tuple[Outcome, str]:
    """What a stage's reply says of it, in words."""
    match reply:
        case Failure():
            return "failed", reply.code
        case CacheHit():
            like = "" if reply.kind == "exact" else f"similarity {reply.similarity:.3f}, "
            return "hit", f"{like}stored {reply.age_s:.0f} s ago"
        case CacheMiss():
            guard = f" ({reply.guard})" if reply.guard else ""
            return "miss", _MISSES.get(reply.reason, reply.reason) + guard
        case Retrieved():
            return "ran", f"{len(reply.passages)} passages"
        case Routed():
            return "ran", f"{reply.model} on {reply.worker}: {reply.reason}"
        case Compressed():
            return "ran", f"{reply.tokens_before} tokens became {reply.tokens_after}"
        case _:
            return "ran", ""
