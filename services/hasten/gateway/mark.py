"""The id of an event: which answer, and how far it has come with it, so that any gateway can go on from it; pure.

An id stays meaningful elsewhere because it counts what came (chunks, and notes after the last chunk) and not what one
gateway has sent: neighbouring chunks may have been joined there and not be here.
"""

import re

import msgspec

from hasten.messages.failure import Failed

_MARK = re.compile(r"([a-z0-9_-]{1,64})\.([0-9]{1,9})\.([0-9]{1,9})(\.end)?", re.ASCII)


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """How far a reader has come with an answer: so many `chunks`, and so many `notes` after the last of them. After the
    `end` nothing comes; before the `start` nothing has come, not even that the request was accepted."""

    request_id: str
    chunks: int = 0
    notes: int = 0
    end: bool = False
    start: bool = False

    def __str__(self) -> str:
        return f"{self.request_id}.{self.chunks}.{self.notes}{'.end' if self.end else ''}"

    @property
    def at(self) -> tuple[int, int]:
        """The place in the answer, which grows from event to event."""
        return (-1, 0) if self.start else (self.chunks, self.notes)


def parsed(text: str) -> Mark:
    """The mark of an event id; raises Failed(bad_request) for what is none."""
    found = _MARK.fullmatch(text)
    if found is None:
        raise Failed("bad_request", "Last-Event-ID is not the id of an event of an answer", param="Last-Event-ID")
    request_id, chunks, notes, end = found.groups()
    return Mark(request_id=request_id, chunks=int(chunks), notes=int(notes), end=bool(end))
