"""Hits by meaning that are only rehearsed, an alarm when they become many, and an embedder that tells nothing apart."""

import logging
from typing import Any

import pytest
from cache_rig import DIM, HERE, QUESTION, Caller, missed, running, vector

from hasten.bus import Bus
from hasten.messages.cache import CacheHit
from hasten.messages.embed import EMBED, Embed, Embedded
from hasten.service import Call, Service
from hasten.vectors.store import VectorStore

SAME = "how long is the return period for shoes"


async def test_shadow_mode_counts_and_serves_nothing_by_meaning(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    async with running(bus, vectors, shadow=True) as cache:
        stored = await acme.put("k")
        would = await acme.near(SAME)
        assert (missed(would), would.nearest) == ("shadow", stored.entry_id)
        assert would.similarity == pytest.approx(1.0)
        assert missed(await acme.near("How long is the return period for boots?")) == "guard"
        assert isinstance(await acme.exact("k"), CacheHit)
        assert (await acme.near(key="k")).kind == "exact", "the key found by meaning is no rehearsal"
        report = cache.report()
        assert report["misses"] == {"shadow": 1, "guard": 1}
        assert report["hits"] == {"exact": 2}


async def test_one_collection_can_be_rehearsed_alone(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    async with running(bus, vectors, shadow_collections=["news"]):
        await acme.put("k1", partition="a", tags=["collection:news"])
        await acme.put("k2", partition="b", tags=["collection:help"])
        assert missed(await acme.near(SAME, partition="a")) == "shadow"
        assert isinstance(await acme.near(SAME, partition="b"), CacheHit)


@pytest.mark.parametrize("stops", [False, True])
async def test_a_jump_of_the_hit_rate_is_told_and_may_stop_hits_by_meaning(
    bus: Bus, vectors: VectorStore, acme: Caller, stops: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(bus, vectors, alarm_window=8, alarm_memory=40, alarm_stops=stops) as cache:
        await acme.put("k")
        for _ in range(20):
            assert missed(await acme.near(SAME, vector=vector(0.5, 1.0))) == "threshold"
            assert missed(await acme.near("return shoes?")) == "short", "says nothing of the rate"
        assert cache.report()["hit_rate_alarm"] is False
        with caplog.at_level(logging.WARNING, logger="hasten"):
            replies = [await acme.near(SAME) for _ in range(6)]
        assert cache.report()["hit_rate_alarm"] is True
        jumps = [record.getMessage() for record in caplog.records if "has jumped" in record.getMessage()]
        assert len(jumps) == 1
        assert "return" not in jumps[0]
        assert isinstance(replies[0], CacheHit)
        last: Any = replies[-1]
        assert (missed(last) == "alarm") if stops else isinstance(last, CacheHit)
        assert isinstance(await acme.exact("k"), CacheHit)


class Embedder:
    """An embedder whose vectors the test says."""

    def __init__(self, bus: Bus, vectors: list[bytes]) -> None:
        self._vectors = vectors
        self.service = Service(bus, "embedder", "For a test.")
        self.service.answer(EMBED, self._embed, limit=10)

    async def _embed(self, body: Embed, _: Call) -> Embedded:
        vectors = [self._vectors[at % len(self._vectors)] for at in range(len(body.texts))]
        return Embedded(vectors=vectors, dim=DIM, model="m")


@pytest.mark.parametrize(
    "made", [[HERE], [b"\0" * 4 * DIM], [HERE, vector(1.0, 0.01)]], ids=["constant", "zero", "near"]
)
async def test_with_an_embedder_that_tells_nothing_apart_there_are_no_hits_by_meaning(
    bus: Bus, vectors: VectorStore, acme: Caller, made: list[bytes]
) -> None:
    embedder = Embedder(bus, made)
    await embedder.service.start()
    async with running(bus, vectors):
        await acme.put("k", "Please do say hello to me", "HELLO")
        for asked in ("Please do say hello to me!", "What is 6 times 7?", "Name the tallest waterfall in Peru"):
            assert missed(await acme.near(asked)) == "unavailable"
        assert isinstance(await acme.exact("k"), CacheHit)
    await embedder.service.close()


async def test_an_embedder_that_recovers_is_believed_again(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    embedder = Embedder(bus, [HERE])
    await embedder.service.start()
    async with running(bus, vectors):
        await acme.put("k")
        assert missed(await acme.near(SAME)) == "unavailable"
        await acme.near("Which waterfall in Peru is the tallest?", vector=vector(0.0, 1.0))
        assert isinstance(await acme.near(SAME), CacheHit)
    await embedder.service.close()


async def test_an_embedder_that_works_is_believed(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    embedder = Embedder(bus, [HERE, vector(0.0, 1.0), vector(0.0, 0.0, 1.0)])
    await embedder.service.start()
    async with running(bus, vectors):
        await acme.put("k", QUESTION)
        assert isinstance(await acme.near(SAME), CacheHit)
    await embedder.service.close()
