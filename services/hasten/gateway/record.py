"""What is written down of one answer, put together from the entries of all gateways that have streamed it; pure.

A reader that was lost may be taken over while its gateway still thinks that it is there. So only the writer that came
last counts, and what the one before it had passed on beyond the place where that one began is void.
"""

from collections.abc import Iterable
from typing import Any

from hasten.messages.chat import Chunk, Done, Note
from hasten.messages.failure import Failure
from hasten.messages.resume import Resume
from hasten.messages.streamed import Opened, Streamed


class Record:
    """One answer as far as it was passed on: `entries` with their events in order, each with the place after it."""

    def __init__(self, entries: Iterable[Streamed] = ()) -> None:
        self.opened: Opened | None = None
        self.entries: list[Streamed] = []
        self._writers: set[str] = set()
        self._writer = ""
        for entry in entries:
            self._take(entry)

    def _take(self, entry: Streamed) -> None:
        if entry.opened is not None and entry.writer not in self._writers:
            if entry.opened.again and self.opened is None:
                return
            self._writers.add(entry.writer)
            self._writer = entry.writer
            if entry.opened.again:
                self.entries = self.upto((entry.opened.chunks, entry.opened.notes))
            else:
                self.opened, self.entries = entry.opened, []
        if entry.event is not None and entry.writer == self._writer:
            self.entries.append(entry)

    @property
    def at(self) -> tuple[int, int]:
        """The place after everything that was passed on."""
        return _at(self.entries[-1]) if self.entries else (0, 0)

    @property
    def ended(self) -> bool:
        """Whether it is all there."""
        return bool(self.entries) and isinstance(self.entries[-1].event, Done | Failure)

    @property
    def replica(self) -> str:
        """The orchestrator that was heard last."""
        return self.entries[-1].replica if self.entries else ""

    def has(self, at: tuple[int, int]) -> bool:
        """Whether the answer has been at this place."""
        return at <= (0, 0) or any(_at(entry) == at for entry in self.entries)

    def upto(self, at: tuple[int, int]) -> list[Streamed]:
        """The entries up to a place, without the end of the answer."""
        return [entry for entry in self.entries if _at(entry) <= at and not isinstance(entry.event, Done | Failure)]

    def after(self, at: tuple[int, int]) -> list[Streamed]:
        """The entries that follow a place, with the end of the answer."""
        return [entry for entry in self.entries if _at(entry) > at or isinstance(entry.event, Done | Failure)]

    def resume(self, at: tuple[int, int]) -> Resume:
        """What to ask the orchestrators in order to go on from a place; the text only if all of it was written down."""
        assert self.opened is not None
        chunks, notes = max(at, (0, 0))
        known = self.upto(at)
        texts = [entry.event for entry in known if isinstance(entry.event, Chunk)]
        plain = len(texts) == chunks and not any(chunk.reasoning or chunk.tool_calls for chunk in texts)
        route: dict[str, Any] = {}
        for entry in known:
            if isinstance(entry.event, Note) and entry.event.kind == "route":
                route = entry.event.data
        return Resume(
            last=chunks - 1,
            notes=notes,
            replica=self.replica,
            request=self.opened.request,
            shown=[chunk.text for chunk in texts] if plain else [],
            model=str(route.get("model", "")),
            prompt=str(route.get("prompt", "")),
            asked_ms=self.opened.asked_ms,
        )

    def told(self, at: tuple[int, int]) -> list[Note]:
        """The notes up to a place."""
        return [entry.event for entry in self.upto(at) if isinstance(entry.event, Note)]


def _at(entry: Streamed) -> tuple[int, int]:
    return entry.chunks, entry.notes
