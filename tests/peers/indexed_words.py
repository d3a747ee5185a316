"""A stand-in for the embedder that needs no model: texts that share words get similar vectors."""

import asyncio
import hashlib
import re

import numpy as np

from hasten.bus import Bus
from hasten.messages.embed import EMBED, Embed, Embedded
from hasten.messages.failure import Failed
from hasten.quantised import quantised
from hasten.service import Call, Service
from hasten.vectors.store import Vector

DIM = 64
MODEL = "hashed-words"


def hashed(text: str) -> Vector:
    """A bag of words as a unit vector: each word adds a direction of its own, made from its hash."""
    total = np.zeros(DIM)
    for word in re.findall(r"\w+", text.lower()):
        seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest())
        total += np.random.default_rng(seed).normal(size=DIM)
    norm = float(np.linalg.norm(total)) or 1.0
    unit: Vector = (total / norm).astype(np.float32)
    return unit


class HashedWords:
    """The embedder's topic, answered with `hashed`. `broken` is raised instead, `delay_s` passes before the
    reply; `texts` are those it was asked for, `largest` the most in one request, `sentences` whether it makes spans."""

    def __init__(self, bus: Bus) -> None:
        self.texts: list[str] = []
        self.largest = 0
        self.broken: Failed | None = None
        self.delay_s = 0.0
        self.model = MODEL
        self.sentences = True
        self._service = Service(bus, "embedder", "Stands in for the embedder.")
        self._service.answer(EMBED, self._on_embed, limit=256, waiting=1024)

    async def _on_embed(self, body: Embed, call: Call) -> Embedded:
        if self.broken is not None:
            raise self.broken
        self.texts += body.texts
        self.largest = max(self.largest, len(body.texts))
        await asyncio.sleep(self.delay_s)
        spans = [
            quantised(np.array([hashed(text[start:end]) for start, end in one], np.float32).reshape(-1, DIM))
            for text, one in zip(body.texts, body.spans, strict=False)
        ]
        vectors = [hashed(text).tobytes() for text in body.texts]
        return Embedded(vectors=vectors, dim=DIM, model=self.model, spans=spans if self.sentences else [])

    async def start(self) -> None:
        """Hears its topic."""
        await self._service.start()

    async def close(self) -> None:
        """Hears it no more."""
        await self._service.drain()
        await self._service.close()
