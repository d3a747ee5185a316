"""The barrier: quick when all replicas heed a change, one lease when one is silent, and never earlier than it may."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest_asyncio
from cable import Cable
from nats.aio.msg import Msg

from hasten.bus import Bus
from hasten.codec import decode
from hasten.freshness import Freshness
from hasten.messages.change import APPLIED, CHANGE, STREAM, TENANT_CHANGE, Change
from hasten.nats_server import NatsServer
from hasten.replicas import BUCKET, LEASE_S, Barrier


@pytest_asyncio.fixture
async def barrier(bus: Bus) -> Barrier:
    made = Barrier(bus)

    async def receive(msg: Msg) -> None:
        made.heard(decode(APPLIED.request, msg.data), APPLIED.parse(msg.subject))

    await bus.subscribe(APPLIED.pattern, receive)
    await bus.flush()
    return made


@contextlib.asynccontextmanager
async def holder(server: NatsServer | Cable) -> AsyncIterator[Freshness]:
    """A replica with a connection of its own."""
    bus = await Bus.connect(server.url)
    made = Freshness(bus)
    await made.start()
    try:
        yield made
    finally:
        await made.close()
        await bus.close()


async def change(bus: Bus, tag: str) -> tuple[int, float]:
    sequence = await bus.store(TENANT_CHANGE, Change(tags=[tag]), tenant="acme")
    return sequence, time.monotonic()


async def members(bus: Bus) -> int:
    info = await bus.js.stream_info(f"KV_{BUCKET}", subjects_filter=f"$KV.{BUCKET}.>")
    return len(info.state.subjects or {})


async def test_after_the_barrier_every_replica_heeds_the_change(
    nats_server: NatsServer, bus: Bus, barrier: Barrier
) -> None:
    async with holder(nats_server) as one, holder(nats_server) as two:
        assert await members(bus) == 2
        for round_ in range(20):
            sequence, stored_at = await change(bus, f"prices:{round_}")
            await barrier.passed(sequence, stored_at)
            assert time.monotonic() - stored_at < LEASE_S, "all of them live, so nobody's lease has to run out"
            for replica in (one, two):
                assert not replica.table.fresh("acme", [f"prices:{round_}"], sequence - 1)
                assert replica.leased
    assert await members(bus) == 0, "whoever has closed is not waited for"


async def test_a_replica_behind_a_cut_cable_is_waited_for_until_its_lease_has_run_out(
    nats_server: NatsServer, bus: Bus, barrier: Barrier
) -> None:
    async with Cable(nats_server.port) as cable, holder(nats_server), holder(cable) as deaf:
        cable.cut.clear()
        sequence, stored_at = await change(bus, "prices:7")
        await barrier.passed(sequence, stored_at)
        assert deaf.applied < sequence
        assert not deaf.leased
        cable.cut.set()
        while not deaf.leased:
            await asyncio.sleep(0.05)
        assert deaf.applied >= sequence


async def test_without_the_registry_a_whole_lease_is_waited_for(bus: Bus, barrier: Barrier) -> None:
    stored_at = time.monotonic()
    await barrier.passed(1, stored_at)
    assert time.monotonic() - stored_at >= LEASE_S


async def test_a_closed_replica_serves_nothing(nats_server: NatsServer) -> None:
    async with holder(nats_server) as replica:
        assert replica.fresh("acme", ["x"], 0)
    assert not replica.leased
    assert not replica.fresh("acme", ["x"], 0)


async def test_cut_off_from_the_server_a_replica_serves_nothing_after_its_lease(nats_server: NatsServer) -> None:
    async with holder(nats_server) as replica:
        assert replica.leased
        await nats_server.stop(kill=True)
        await asyncio.sleep(LEASE_S + 0.1)
        assert not replica.leased


async def test_changes_that_were_purged_before_they_were_read_make_older_answers_stale(
    nats_server: NatsServer, bus: Bus
) -> None:
    async with holder(nats_server) as replica:
        subscription = replica.reader._subscription
        assert subscription is not None
        await subscription.unsubscribe()
        for key in range(3):
            await bus.store(CHANGE, Change(table="prices", key=key), source="shop")
        await bus.js.purge_stream(STREAM)
        while replica.applied < 3:
            await asyncio.sleep(0.05)
        assert not replica.table.fresh("acme", ["prices:1"], 2)
        assert replica.table.fresh("acme", ["prices:1"], 3)


async def test_a_stream_that_takes_the_place_of_another_is_not_trusted(nats_server: NatsServer, bus: Bus) -> None:
    async with holder(nats_server) as replica:
        epoch = replica.epoch
        await bus.js.delete_stream(STREAM)
        async with holder(nats_server) as later:
            assert later.epoch != epoch
            await asyncio.sleep(LEASE_S + 0.3)
            assert later.leased
            assert not replica.leased
