"""What an engine process answers, and when it flushes, with a shard that only takes notes."""

import socket
import threading
from typing import Any

import msgspec
import pytest

from hasten.vectors import engine, wire
from hasten.vectors.engine import Engine
from hasten.vectors.store import Point, StoreError, Where


class Notes:
    """A shard that counts what it is told."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self.flushes = 0

    def upsert(self, points: list[Point]) -> None:
        """Keeps the points; refuses those called `bad`."""
        if any(point.id == "bad" for point in points):
            raise StoreError("refused")
        self.points += points

    def count(self, _: Where | None) -> int:
        """How many points it has."""
        return len(self.points)

    def flush(self) -> None:
        """Fails, as on a full disk."""
        self.flushes += 1
        raise StoreError("no room")


def ask(shard: Notes, *requests: wire.AnyRequest) -> list[tuple[bytes, Any]]:
    """The replies to these requests: the first byte, and what follows."""
    served: Any = shard
    ours, theirs = socket.socketpair()
    with theirs, theirs.makefile("rb") as source, ours, ours.makefile("rb") as replies:
        serving = threading.Thread(target=Engine(served).serve, args=(source, theirs))
        serving.start()
        read = []
        for request in requests:
            ours.sendall(wire.frame(wire.encode(request)))
            body = replies.read(*wire.LENGTH.unpack(replies.read(wire.LENGTH.size)))
            text = body[1:].decode() if body[:1] == wire.REFUSED else msgspec.msgpack.decode(body[1:])
            read.append((body[:1], text))
        ours.shutdown(socket.SHUT_WR)
        serving.join()
        theirs.shutdown(socket.SHUT_WR)
        assert replies.read() == b""
    return read


def rows(*ids: str) -> wire.Upsert:
    """An upsert of rows that have nothing but an id and some text."""
    return wire.Upsert(rows=[wire.Row(id=id_, vector=None, payload={"text": "x" * 100}) for id_ in ids])


def test_a_refusal_is_a_reply_and_the_next_request_is_answered() -> None:
    replies = ask(Notes(), rows("a"), rows("bad"), wire.Count(where=None))
    assert replies == [(wire.OK, None), (wire.REFUSED, "refused"), (wire.OK, 1)]


def test_the_log_is_kept_short_and_a_flush_that_fails_is_no_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "FLUSH_BYTES", 250)
    notes = Notes()
    replies = ask(notes, *(rows(str(number)) for number in range(9)), *[wire.Count(where=None)] * 9)
    assert replies[9:] == [(wire.OK, 9)] * 9
    assert notes.flushes == 3


def test_nothing_is_flushed_when_the_other_side_just_goes() -> None:
    notes = Notes()
    ask(notes, rows("a"))
    assert notes.flushes == 0
