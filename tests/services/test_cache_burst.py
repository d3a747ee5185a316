"""A burst of changes: coalesced per tag, swept with rests, and no reason to miss what it does not concern."""

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from cache_rig import Caller, Shared, missed, running, until
from nats.aio.msg import Msg

from hasten.bus import Bus
from hasten.cache.pending import MANY
from hasten.cache.service import Cache
from hasten.messages.cache import INVALIDATED, CacheHit, CacheLookup, Invalidated
from hasten.messages.change import CHANGE, STREAM, TENANT_CHANGE, Change
from hasten.nats_server import NatsServer
from hasten.service import Service
from hasten.vectors.opening import store
from hasten.vectors.store import VectorStore

EVENTS, TAGS, AHEAD = 6000, 300, 500


class Counting(Shared):
    """A store that counts what it is asked for."""

    def __init__(self, inner: VectorStore) -> None:
        super().__init__(inner)
        self.asked: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.asked[name] += 1
        return super().__getattr__(name)


async def burst(bus: Bus, cache: Cache, bodies: list[bytes], subject: str) -> None:
    """Publishes all of them, as fast as the replica reads them, and returns when it has read the last."""
    stored, inbox, before = 0, bus.client.new_inbox(), cache._freshness.applied

    async def acknowledged(_: Msg) -> None:
        nonlocal stored
        stored += 1

    await bus.subscribe(inbox, acknowledged)
    for number, body in enumerate(bodies):
        await bus.client.publish(subject, body, inbox)
        while number - (cache._freshness.applied - before) > AHEAD:
            await asyncio.sleep(0)
    while stored < len(bodies) or cache._freshness.applied < before + len(bodies):
        await asyncio.sleep(0.001)


async def test_in_a_burst_other_answers_stay_hits_and_the_store_is_asked_by_tag(
    nats_server: NatsServer, bus: Bus, tmp_path: Path
) -> None:
    counting: Any = Counting(store(":memory:", tmp_path, "cache"))
    own = await Bus.connect(nats_server.url)
    acme = Caller(bus)
    async with running(own, counting) as cache:
        await acme.put("kept", tags=["stock:1"], vector=None)
        for row in range(3):
            await acme.put(f"gone{row}", tags=[f"prices:{row}"], vector=None)
        counting.asked.clear()
        subject = CHANGE.subject(source="shop")
        bodies = [msgspec.json.encode(Change(table="prices", key=number % TAGS)) for number in range(EVENTS)]
        publishing = asyncio.create_task(burst(bus, cache, bodies, subject))
        outcomes: Counter[str] = Counter()
        while not publishing.done():
            reply = await acme.once(CacheLookup(key="kept"))
            outcomes["hit" if isinstance(reply, CacheHit) else missed(reply)] += 1
        await publishing
        end = (await bus.js.stream_info(STREAM)).state.last_seq

        async def applied() -> bool:
            return cache._freshness.applied >= end

        await until(applied)
        assert outcomes.keys() <= {"hit", "lease"}, "it was never outdated"
        assert outcomes["hit"] > outcomes["lease"], (
            "its replica keeps up, but for moments in which it gets no processor"
        )
        for row in range(3):
            assert missed(await acme.exact(f"gone{row}")) in ("stale", "absent", "lease")

        async def swept() -> bool:
            return len(cache._sweeper._pending) == 0

        await until(swept)
        assert counting.asked["scroll"] + counting.asked["delete"] < EVENTS / 10
        assert isinstance(await acme.exact("kept"), CacheHit)
        assert await counting.count() == 1
    await own.close()


async def test_a_change_of_very_many_rows_empties_the_table_and_no_other(
    nats_server: NatsServer, bus: Bus, vectors: VectorStore
) -> None:
    heard: list[Invalidated] = []
    listener = Service(bus, "test", "Hears.")
    listener.listen(INVALIDATED, lambda event, _: heard.append(event))
    await listener.start()
    acme, own = Caller(bus), await Bus.connect(nats_server.url)
    async with running(own, vectors):
        for key, tag in (("row", "prices:x"), ("table", "prices"), ("other", "stock:1")):
            await acme.put(key, tags=[tag], vector=None)
        await acme.bus.store(
            TENANT_CHANGE, Change(tags=[f"prices:{number}" for number in range(MANY + 1)]), tenant="acme"
        )

        async def swept() -> bool:
            return await vectors.count() == 1

        await until(swept)
        assert isinstance(await acme.exact("other"), CacheHit)
        assert [(event.tags, event.entries) for event in heard] == [(["prices"], 2)]
    await listener.drain()
    await own.close()


async def test_a_few_changes_are_swept_at_once_by_one_of_the_replicas(
    nats_server: NatsServer, bus: Bus, tmp_path: Path
) -> None:
    """`sweep_s` is for bursts; the other replica would sweep later and finds nothing, so nothing is told twice."""
    heard: list[Invalidated] = []
    listener = Service(bus, "test", "Hears.")
    listener.listen(INVALIDATED, lambda event, _: heard.append(event))
    await listener.start()
    shared: Any = Shared(store(":memory:", tmp_path, "cache"))
    one, two = await Bus.connect(nats_server.url), await Bus.connect(nats_server.url)
    acme = Caller(bus)
    async with running(one, shared, sweep_s=60) as first, running(two, shared, sweep_s=60) as second:

        async def acquainted() -> bool:
            now_s = time.monotonic()
            return {one._sweeper._peers.place("prices", now_s) for one in (first, second)} == {0, 1}

        await until(acquainted)
        for number in range(5):
            await acme.put("k", tags=[f"prices:{number}"], vector=None)
            sequence = await bus.store(CHANGE, Change(table="prices", key=number), source="shop")

            async def told(sequence: int = sequence) -> bool:
                return any(event.sequence == sequence for event in heard)

            await until(told)
        assert [event.entries for event in heard] == [1] * 5
    await listener.drain()
    for connection in (one, two):
        await connection.close()
