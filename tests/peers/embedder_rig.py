"""What the embedder's tests stand on: a slow encoder that remembers its batches, and a started embedder."""

import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import numpy as np
from numpy.typing import NDArray

from hasten.bus import Bus
from hasten.embedder.encoder import Encoded, Encoder
from hasten.embedder.pooling import Spans
from hasten.embedder.service import Embedder
from hasten.embedder.settings import Settings
from hasten.messages.embed import EMBED, Embed, Embedded


class Slow:
    """An encoder that takes `seconds` per batch and remembers what it was given; rows only depend on the text."""

    name, window, dim = "slow", 256, 4

    def __init__(self, seconds: float = 0.02) -> None:
        self.batches: list[list[str]] = []
        self.threads: set[int] = set()
        self._seconds = seconds

    def encode(self, texts: list[str], spans: Sequence[Spans] = ()) -> Encoded:
        """Sleeps, then answers; raises on the text `poison`."""
        self.batches.append(list(texts))
        self.threads.add(threading.get_ident())
        time.sleep(self._seconds)
        if "poison" in texts:
            raise RuntimeError(texts[0])
        rows = np.array([[len(text), 1, 0, 0] for text in texts], dtype=np.float32)
        stretches = [
            np.array([[end - start, 1, 0, 0] for start, end in one], np.float32).reshape(-1, 4) for one in spans
        ]
        counts = [len(text) for text in texts]
        return Encoded(vectors=rows, tokens=counts, truncated=[False] * len(texts), spans=stretches)


@asynccontextmanager
async def running(
    bus: Bus, encoder: Encoder | None = None, settings: Settings | None = None
) -> AsyncIterator[Embedder]:
    """A started embedder."""
    made = Embedder(settings or Settings(), bus, encoder)
    await made.start()
    try:
        yield made
    finally:
        await made.close()


async def embed(bus: Bus, *texts: str, tenant: str = "acme") -> Embedded:
    """The reply to these texts, which must not be a Failure."""
    reply = await bus.request(EMBED, Embed(texts=list(texts)), tenant=tenant)
    assert isinstance(reply, Embedded), reply
    return reply


def rows(reply: Embedded) -> NDArray[np.float32]:
    """The vectors of a reply as one array."""
    return np.array([np.frombuffer(vector, dtype="<f4") for vector in reply.vectors])
