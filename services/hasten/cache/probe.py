"""Tries the embedder at the start of the cache: a model of another width, or one that is broken, is noticed at once."""

from itertools import combinations

from hasten.bus import Bus
from hasten.cache.vector import unit_vector
from hasten.deadline import now_ms
from hasten.messages.embed import EMBED, Embed, Embedded
from hasten.vectors.store import StoreError

WAIT_MS = 2000
QUESTIONS = ("How do I return a parcel?", "Which waterfall in Peru is the tallest?", "Reverse the word lamp.")
"""They have nothing to do with one another."""
ONE_AND_THE_SAME = 0.95
"""A similarity that no two of them have with a model that works (all-MiniLM-L6-v2: 0.13 at most)."""
SELF = "_cache"
"""In whose name the cache asks."""


async def told_apart(bus: Bus, dim: int) -> bool:
    """Whether the embedder tells unrelated questions apart; True when none answers, for then nothing is known against
    it. Raises StoreError naming both sizes when its vectors have another width than `dim`."""
    reply = await bus.request(EMBED, Embed(texts=list(QUESTIONS)), deadline_ms=now_ms() + WAIT_MS, tenant=SELF)
    if not isinstance(reply, Embedded):
        return True
    if reply.dim != dim:
        raise StoreError(
            f"the embedder's vectors have {reply.dim} dimensions and those of the cache {dim}: "
            f"set [cache] dim = {reply.dim} and give the cache an empty store"
        )
    units = [unit for unit in (unit_vector(raw, dim) for raw in reply.vectors) if unit is not None]
    pairs = combinations(units, 2)
    return len(units) == len(QUESTIONS) and all(float(left @ right) < ONE_AND_THE_SAME for left, right in pairs)
