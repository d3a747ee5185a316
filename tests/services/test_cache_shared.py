"""Several replicas on one store, and what may come between them and the changes: nothing that is old is served."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from cache_rig import Caller, Shared, cold, missed, running, until

from hasten.bus import Bus
from hasten.cache import service
from hasten.cache.service import Cache
from hasten.deadline import now_ms
from hasten.messages.cache import CACHE_LOOKUP, Answer, CacheHit, CacheLookup, CacheMiss, CachePut, NotStored, Stored
from hasten.messages.change import CHANGE, STREAM, Change
from hasten.nats_server import NatsServer
from hasten.replicas import LEASE_S
from hasten.vectors.opening import store
from hasten.vectors.store import VectorStore
from loadtest.staleness.cable import Cable
from loadtest.staleness.fleet import Member

LOOKUP = CacheLookup(key="k")


async def ask(cache: Cache) -> CacheHit | CacheMiss:
    """What this very replica says."""
    return await cache._finder.find(LOOKUP, "acme", cache._era)


async def served(cache: Cache) -> CacheHit | CacheMiss:
    """What is said with a lease, which runs out for a moment on a machine that stood still."""
    found: list[CacheHit | CacheMiss] = []

    async def leased() -> bool:
        found.append(await ask(cache))
        return not isinstance(found[-1], CacheMiss) or found[-1].reason != "lease"

    await until(leased)
    return found[-1]


async def put(cache: Cache, answer: str, tags: list[str], read_seq: int) -> Stored | NotStored:
    body = CachePut(key="k", answer=Answer(text=answer), tags=tags, read_seq=read_seq)
    return await cache._on_put(body, type("Call", (), {"tenant": "acme"})())


async def until_applied(cache: Cache, sequence: int) -> None:
    async def applied() -> bool:
        return cache._freshness.applied >= sequence

    await until(applied)


@pytest.mark.parametrize("changed", ["prices:7", "stock:1"])
async def test_what_another_replica_replaced_is_in_memory_for_a_while_and_still_never_stale(
    nats_server: NatsServer, bus: Bus, tmp_path: Path, changed: str
) -> None:
    """The older entry is judged by its own tags and its own reading, whatever took its place in the store."""
    shared: Any = Shared(store(":memory:", tmp_path, "cache"))
    one, two = await Bus.connect(nats_server.url), await Bus.connect(nats_server.url)
    async with running(one, shared) as first, running(two, shared) as second:
        for replica in (first, second):
            await replica._sweeper.close()  # which would take the older entry with the new one out of its memory
        await put(first, "old", ["prices:7"], 0)
        assert (await served(second)).answer.text == "old"  # type: ignore[union-attr]
        await put(first, "new", ["prices:7", "stock:1"], 0)
        assert (await served(second)).answer.text == "old", "just as valid as the new one"  # type: ignore[union-attr]
        table, _, key = changed.partition(":")
        sequence = await bus.store(CHANGE, Change(table=table, key=key), source="shop")
        for replica in (first, second):
            await until_applied(replica, sequence)
        assert isinstance(await served(first), CacheMiss)
        found = await served(second)
        if changed == "prices:7":
            assert isinstance(found, CacheMiss)
        elif isinstance(found, CacheMiss):
            assert found.reason == "absent", "one of the two sweeps the table, and forgets the id of both answers"
        else:
            assert (found.answer.text, found.tags[0]) == ("old", "prices:7")
        await put(first, "newest", ["prices:7"], sequence)
        await cold(second)
        assert (await served(second)).answer.text == "newest"  # type: ignore[union-attr]
    for connection in (one, two):
        await connection.close()


async def test_behind_a_cable_that_carries_nothing_a_replica_serves_until_its_lease_ends(
    nats_server: NatsServer, tmp_path: Path
) -> None:
    async with Cable(nats_server.port) as cable:
        bus = await Bus.connect(cable.url)
        async with running(bus, store(":memory:", tmp_path, "cache")) as cache:
            await put(cache, "an answer", [], 0)
            assert isinstance(await served(cache), CacheHit)
            cable.cut.clear()
            assert isinstance(await ask(cache), CacheHit), "nobody can know yet"
            await asyncio.sleep(LEASE_S + 0.05)
            assert missed(await ask(cache)) == "lease"
            cable.cut.set()

            async def hits() -> bool:
                return isinstance(await ask(cache), CacheHit)

            await until(hits)
        await bus.close()


async def test_a_stopped_process_answers_what_waited_for_it_with_nothing_old(
    nats_server: NatsServer, bus: Bus, tmp_path: Path
) -> None:
    """The lookups stand in its socket beside the change; it may not serve before it has taken in both."""
    command = [sys.executable, "-m", "hasten.cache", "--data", str(tmp_path)]
    replica, acme = Member("cache", command, {"HASTEN_CACHE_DIM": "8"}, nats_server.url, tmp_path / "log"), Caller(bus)
    await replica.start()
    try:
        await acme.put("k", tags=["prices:7"], vector=None, read_seq=0)
        assert isinstance(await acme.exact("k"), CacheHit)
        replica.signal(signal.SIGSTOP)
        await bus.store(CHANGE, Change(table="prices", key=7), source="shop")
        await asyncio.sleep(LEASE_S)
        late_ms = now_ms() + 20_000
        waiting = [
            asyncio.create_task(bus.request(CACHE_LOOKUP, LOOKUP, tenant="acme", deadline_ms=late_ms)) for _ in range(5)
        ]
        await bus.flush()
        replica.signal(signal.SIGCONT)
        assert {missed(reply) for reply in await asyncio.gather(*waiting)} <= {"lease", "stale", "absent"}
    finally:
        await replica.stop()


async def test_a_replaced_stream_ends_what_was_stored_and_new_answers_are_served(
    cache: Cache, bus: Bus, acme: Caller
) -> None:
    old = await acme.exact("k")
    await acme.put("k", answer="old", tags=["prices:7"])
    assert isinstance(await acme.exact("k"), CacheHit)
    await bus.js.delete_stream(STREAM)

    async def begun() -> bool:
        miss = await acme.exact("k")
        return isinstance(miss, CacheMiss) and miss.read_seq > 10**15

    await until(begun)
    late = await acme.put("k", answer="old", tags=["other"], read_seq=old.read_seq)
    assert (type(late), late.reason) == (NotStored, "stale"), "read from the stream that is gone, stored only now"

    async def stored() -> bool:
        now = await acme.exact("k")
        return isinstance(await acme.put("k", answer="new", tags=["prices:7"], read_seq=now.read_seq), Stored)

    await until(stored)
    assert (await acme.exact("k")).answer.text == "new"
    await acme.invalidate(tags=["prices:7"])
    assert isinstance(await acme.exact("k"), CacheMiss)


async def test_every_users_copy_of_an_answer_goes_with_the_row(
    cache: Cache, bus: Bus, vectors: VectorStore, acme: Caller
) -> None:
    for user in ("", "u1", "u9"):
        await acme.put(f"k{user}", tags=["docs:d1"], partition=f"p{user}", user=user)
    await acme.put("kept", tags=["docs:d2"], partition="kept")
    assert await vectors.count() == 4
    await bus.store(CHANGE, Change(table="docs", key="d1"), source="shop")

    async def gone() -> bool:
        return await vectors.count() == 1

    await until(gone)
    for user in ("", "u1", "u9"):
        assert isinstance(await acme.exact(f"k{user}"), CacheMiss)
        assert isinstance(await acme.near(partition=f"p{user}"), CacheMiss)
    assert isinstance(await acme.exact("kept"), CacheHit)


async def test_answers_from_before_a_new_way_of_making_tags_are_not_served(
    bus: Bus, vectors: VectorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They do not carry the new tag, so that its changes would pass them by."""
    acme, shared = Caller(bus), Shared(vectors)
    async with running(bus, shared):
        await acme.put("k", tags=["kb:faq"])
        assert isinstance(await acme.exact("k"), CacheHit)
    monkeypatch.setattr(service, "SCHEMA", "next")
    async with running(bus, shared):
        assert isinstance(await acme.exact("k"), CacheMiss)
        assert isinstance(await acme.near(), CacheMiss)


async def test_an_older_update_behind_a_truncate_makes_nothing_valid_again(
    cache: Cache, bus: Bus, acme: Caller
) -> None:
    read_seq = (await acme.exact("k")).read_seq
    await acme.put("k", tags=["prices:5"], read_seq=read_seq)
    subject = "hasten.v1.change.shop.public.prices"
    place = '"source":{"schema":"public","table":"prices","lsn":%d}'
    await bus.store_raw(subject, f'{{"op":"t",{place % 200}}}'.encode())
    last = await bus.store_raw(subject, f'{{"op":"u","after":{{"id":5}},{place % 150}}}'.encode())
    await until_applied(cache, last)
    assert isinstance(await acme.exact("k"), CacheMiss)
    assert (await acme.put("k", tags=["prices:5"], read_seq=read_seq)).reason == "stale"
    assert isinstance(await acme.put("k", tags=["prices:5"], read_seq=last), Stored)
    assert isinstance(await acme.exact("k"), CacheHit)
