"""Asks the embedder how like a question the examples are; examples repeat, so their vectors are kept."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.messages.embed import EMBED, Embed, Embedded

Vector = NDArray[np.float32]
_AT_ONCE, _MOST_FILLS = 64, 8
_ASK_S = 10.0


class Likeness:
    """Similarities by meaning. `kept` vectors are remembered by a hash of their text; `wait_s` is how long one request
    waits for the embedder (0: never asked), after which it goes on filling the memory for the next."""

    def __init__(self, bus: Bus, *, kept: int, wait_s: float) -> None:
        self._bus, self._kept, self._wait_s = bus, kept, wait_s
        self._vectors: OrderedDict[bytes, Vector] = OrderedDict()
        self._model = ""
        self._filling: set[asyncio.Task[None]] = set()

    async def of(self, question: str, texts: Sequence[str], tenant: str, remaining_s: float) -> list[float]:
        """The cosine of each text with the question; empty when the embedder has not answered in time, or when there
        are more texts than can be kept."""
        wanted = {_key(text): text for text in (question, *texts)}
        wait_s = min(self._wait_s, remaining_s / 2)
        if wait_s <= 0 or not question.strip() or len(wanted) > self._kept:
            return []
        missing = [text for key, text in wanted.items() if key not in self._vectors]
        if missing and len(self._filling) < _MOST_FILLS:
            await asyncio.wait([self._fill(missing, tenant)], timeout=wait_s)
        found = [self._vectors.get(_key(text)) for text in (question, *texts)]
        for key in wanted.keys() & self._vectors.keys():
            self._vectors.move_to_end(key)
        known = [vector for vector in found if vector is not None]
        if len(known) < len(found) or len({len(vector) for vector in known}) != 1:
            return []
        return [float(one) for one in np.stack(known[1:]) @ known[0]] if texts else []

    def _fill(self, texts: Sequence[str], tenant: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._ask(texts, tenant))
        self._filling.add(task)
        task.add_done_callback(self._filling.discard)
        return task

    async def _ask(self, texts: Sequence[str], tenant: str) -> None:
        """The question is first, so that it has a vector whatever becomes of the rest."""
        for start in range(0, len(texts), _AT_ONCE):
            part = list(texts[start : start + _AT_ONCE])
            deadline_ms = now_ms() + _ASK_S * 1000
            reply = await self._bus.request(EMBED, Embed(texts=part), tenant=tenant, deadline_ms=deadline_ms)
            if not isinstance(reply, Embedded) or len(reply.vectors) != len(part):
                return
            if reply.model != self._model:
                self._model = reply.model
                self._vectors.clear()
            for text, vector in zip(part, reply.vectors, strict=True):
                self._vectors[_key(text)] = np.frombuffer(vector[: len(vector) // 4 * 4], dtype="<f4")
            while len(self._vectors) > self._kept:
                self._vectors.popitem(last=False)

    async def close(self) -> None:
        """Stops asking."""
        for task in self._filling:
            task.cancel()
        await asyncio.gather(*self._filling, return_exceptions=True)


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=16).digest()
