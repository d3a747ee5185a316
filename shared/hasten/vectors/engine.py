"""`python -m hasten.vectors.engine FD PLACE`: an engine process, which serves one EdgeStore until that goes away."""

import contextlib
import os
import signal
import socket
import sys
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np

from hasten.vectors import wire
from hasten.vectors.shard import Shard
from hasten.vectors.store import StoreError

FLUSH_BYTES = 128 * 1024 * 1024
"""Writes between two flushes: a flush stops the engine for about 0.3 s at 60,000 points, and what has not been flushed
is replayed from the log at the next start. Where compactions succeed there is none: each begins with a new log."""


class Engine:
    """Calls the shard for each request that comes in, one after the other."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._written = 0

    def serve(self, source: IO[bytes], sink: socket.socket) -> None:
        """Answers until the other side is gone. Without a Close nothing is flushed: the log has it, and it is quick."""
        decode = msgspec.msgpack.Decoder(wire.AnyRequest).decode
        while head := source.read(wire.LENGTH.size):
            body = source.read(*wire.LENGTH.unpack(head))
            request = decode(body)
            sink.sendall(self._reply(request))
            if isinstance(request, wire.WRITES):
                self._keep_log_short(len(body))

    def _reply(self, request: wire.AnyRequest) -> bytes:
        try:
            return wire.frame(wire.OK, wire.encode(self.answer(request)))
        except StoreError as error:
            return wire.frame(wire.REFUSED, str(error).encode())

    def answer(self, request: wire.AnyRequest) -> Any:
        """The result of one request; raises StoreError."""
        shard = self._shard
        match request:
            case wire.Search(vector, where, limit):
                return shard.search(np.frombuffer(vector, dtype="<f4"), where, limit)
            case wire.SearchTerms(terms, where, corpus, limit):
                return shard.search_terms(wire.terms_of(terms), where, corpus, limit)
            case wire.Upsert(rows):
                return shard.upsert([wire.point_of(row) for row in rows])
            case wire.Get(ids, vectors):
                return [wire.row_of(point) for point in shard.get(ids, vectors=vectors)]
            case wire.Scroll(where, limit, fields, vectors):
                points = shard.scroll(where, limit, fields, vectors=vectors)
                return [wire.row_of(point) for point in points]
            case wire.SetTerms(terms):
                return shard.set_terms({id_: wire.terms_of(sparse) for id_, sparse in terms.items()})
            case wire.SetPayload(ids, payload):
                return shard.set_payload(ids, payload)
            case wire.Delete(ids):
                return shard.delete(ids)
            case wire.Count(where):
                return shard.count(where)
            case wire.Copy(source, nice):
                shard.copy_from(Path(source))
                return os.nice(nice)
            case wire.Open(dim, indexes, terms):
                return wire.Opened(*shard.open(dim, indexes, terms=terms))
            case wire.Optimize():
                return shard.optimize()
            case wire.Close():
                return shard.close()

    def _keep_log_short(self, size: int) -> None:
        """A flush that fails is tried again later: the log still has everything."""
        self._written += size
        if self._written > FLUSH_BYTES:
            self._written = 0
            with contextlib.suppress(StoreError):
                self._shard.flush()


def main() -> None:
    """Signals are for the parent, which closes the socket when it ends, in order or not."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    descriptor, place = int(sys.argv[1]), Path(sys.argv[2])
    with contextlib.suppress(ConnectionError), socket.socket(fileno=descriptor) as sink, sink.makefile("rb") as source:
        Engine(Shard(place)).serve(source, sink)


if __name__ == "__main__":
    main()
