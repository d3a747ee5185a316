"""How long the cache keeps an answer, and which ones make room for others."""

import asyncio
from typing import Any

from cache_rig import Caller, cold, missed, running, vector

from hasten.bus import Bus
from hasten.cache.service import Cache
from hasten.codec import decode
from hasten.messages.cache import (
    INVALIDATED,
    CacheHit,
    Invalidated,
    Stored,
)
from hasten.vectors.store import VectorStore


async def test_an_expired_neighbour_is_skipped_and_swept(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    async with running(bus, vectors) as cache:
        dying = await acme.put("dead", answer="dead", ttl_s=0.2)
        alive = await acme.put("alive", answer="alive", vector=vector(1.0, 0.1))
        await asyncio.sleep(0.25)
        hit = await acme.near()
        assert (hit.entry_id, hit.answer.text) == (alive.entry_id, "alive")
        assert missed(await acme.exact("dead")) == "expired"
        await cache._sweeper.tidy()
        assert await vectors.get([dying.entry_id]) == []
        assert await vectors.count() == 1
        assert missed(await acme.exact("dead")) == "absent"
        assert cache.report()["expired"] == 1


async def test_the_operators_longest_life_is_the_longest(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    async with running(bus, vectors, max_ttl_s=0.2):
        assert isinstance(await acme.put("k", ttl_s=3600), Stored)
        await asyncio.sleep(0.25)
        assert missed(await acme.exact("k")) == "expired"


async def test_a_caller_may_want_it_younger_than_it_is(cache: Cache, acme: Caller) -> None:
    await acme.put("k")
    await asyncio.sleep(0.05)
    assert isinstance(await acme.exact("k", max_age_s=60), CacheHit)
    assert missed(await acme.exact("k", max_age_s=0.01)) == "expired"
    assert missed(await acme.exact("k", max_age_s=0)) == "expired"
    assert missed(await acme.near(max_age_s=0)) == "expired"


async def test_the_least_recently_used_make_room(bus: Bus, vectors: VectorStore, acme: Caller) -> None:
    async with running(bus, vectors, max_entries=20, hot_entries=1) as cache:
        for number in range(25):
            await acme.put(f"k{number}")
            await asyncio.sleep(0.002)
        await cold(cache)
        assert isinstance(await acme.exact("k0"), CacheHit)
        await cache._sweeper.tidy()
        left = await vectors.count()
        assert 15 <= left <= 20
        assert isinstance(await acme.exact("k0"), CacheHit), "used a moment ago"
        assert isinstance(await acme.exact("k24"), CacheHit)
        assert missed(await acme.exact("k1")) == "absent"
        assert cache.report()["evictions"] == 25 - left
        assert cache.report()["entries"] == left


async def test_each_tenant_hears_how_many_of_its_entries_made_room(
    bus: Bus, vectors: VectorStore, acme: Caller
) -> None:
    heard: list[tuple[str, Invalidated]] = []

    async def hear(msg: Any) -> None:
        heard.append((INVALIDATED.parse(msg.subject)["tenant"], decode(Invalidated, msg.data)))

    await bus.subscribe(INVALIDATED.pattern, hear)
    async with running(bus, vectors, max_entries=10) as cache:
        other = Caller(bus, "other")
        for number in range(6):
            await acme.put(f"k{number}", vector=None)
            await other.put(f"k{number}", vector=None)
        await cache._sweeper.tidy()
        await bus.flush()
        assert {event.reason for _, event in heard} == {"no room"}
        assert sum(event.entries for _, event in heard) == cache.report()["evictions"] > 0
        assert {tenant for tenant, _ in heard} <= {"acme", "other"}


async def test_making_room_never_empties_a_cache_whose_entries_were_all_used_lately(
    bus: Bus, vectors: VectorStore, acme: Caller
) -> None:
    async with running(bus, vectors, max_entries=100) as cache:
        await asyncio.gather(*(acme.put(f"k{number}", vector=None) for number in range(110)))
        await asyncio.gather(*(acme.exact(f"k{number}") for number in range(110)))
        await cache._sweeper.tidy()
        assert await vectors.count() == 95
        assert (cache.report()["evictions"], cache.report()["entries"]) == (15, 95)
        await cache._sweeper.tidy()
        assert await vectors.count() == 95
