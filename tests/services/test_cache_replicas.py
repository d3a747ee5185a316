"""The barrier: quick when all replicas heed a change, one lease when one is silent, and never earlier than it may."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from statistics import median

import pytest
import pytest_asyncio
from nats.aio.msg import Msg
from nats.js.errors import NotFoundError

from hasten.bus import Bus
from hasten.codec import decode
from hasten.freshness import RETRY_S, Freshness
from hasten.journal import ensure_stream
from hasten.messages.change import APPLIED, CHANGE, REPLICAS, STREAM, TENANT_CHANGE, Change
from hasten.nats_server import NatsServer
from hasten.replicas import LEASE_S, Barrier, Peers, members
from loadtest.staleness.cable import Cable


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


async def test_after_the_barrier_every_replica_heeds_the_change(
    nats_server: NatsServer, bus: Bus, barrier: Barrier
) -> None:
    async with holder(nats_server) as one, holder(nats_server) as two:
        assert len(await members(bus)) == 2
        waited: list[float] = []
        for round_ in range(20):
            sequence, stored_at = await change(bus, f"prices:{round_}")
            await barrier.passed(sequence, stored_at)
            waited.append(time.monotonic() - stored_at)
            for replica in (one, two):
                assert not replica.fresh("acme", [f"prices:{round_}"], sequence - 1)
        assert median(waited) < LEASE_S, "all of them live, so nobody's lease has to run out"
    assert await members(bus) == set(), "whoever has closed is not waited for"


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
        await again(deaf)
        assert deaf.applied >= sequence


@pytest.mark.parametrize("deleted", [True, False])
async def test_a_replica_that_the_registry_has_lost_is_waited_for_while_it_may_serve(
    nats_server: NatsServer, bus: Bus, barrier: Barrier, deleted: bool
) -> None:
    """It registers again only seconds later, and those who have done so already are not all."""
    async with Cable(nats_server.port) as cable, holder(cable) as deaf:
        await asyncio.sleep(LEASE_S / 2)
        if deleted:
            await bus.js.delete_stream(f"KV_{REPLICAS}")
        else:
            await bus.js.purge_stream(f"KV_{REPLICAS}")
        async with holder(nats_server):
            await again(deaf)
            cable.cut.clear()
            sequence, stored_at = await change(bus, "prices:7")
            await barrier.passed(sequence, stored_at)
            assert deaf.applied < sequence
            assert not deaf.leased
            cable.cut.set()


async def test_who_has_closed_is_not_waited_for(nats_server: NatsServer, bus: Bus, barrier: Barrier) -> None:
    async with holder(nats_server):
        async with holder(nats_server):
            await asyncio.sleep(LEASE_S / 2)
        waited: list[float] = []
        for _ in range(3):
            sequence, stored_at = await change(bus, "prices:7")
            await barrier.passed(sequence, stored_at)
            waited.append(time.monotonic() - stored_at)
        assert min(waited) < LEASE_S


async def test_without_the_registry_a_whole_lease_is_waited_for(bus: Bus, barrier: Barrier) -> None:
    stored_at = time.monotonic()
    await barrier.passed(1, stored_at)
    assert time.monotonic() - stored_at >= LEASE_S


async def test_a_closed_replica_serves_nothing(nats_server: NatsServer) -> None:
    async with holder(nats_server) as replica:
        await again(replica)
        assert replica.fresh("acme", ["x"], 0)
    assert not replica.leased
    assert not replica.fresh("acme", ["x"], 0)


async def test_cut_off_from_the_server_a_replica_serves_nothing_after_its_lease(nats_server: NatsServer) -> None:
    async with holder(nats_server) as replica:
        await again(replica)
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


async def again(replica: Freshness) -> None:
    """Returns when it may serve, which one on a machine that stood still may not for a moment."""
    async with asyncio.timeout(20):
        while not replica.leased:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("remade", [True, False])
async def test_replicas_begin_anew_with_a_stream_that_takes_the_place_of_another(
    nats_server: NatsServer, bus: Bus, barrier: Barrier, remade: bool
) -> None:
    """Whoever makes it: a replica that misses it, or one that has just started."""
    async with holder(nats_server) as one, holder(nats_server) as two:
        old, _ = await change(bus, "prices:7")
        epoch, read_seq = one.epoch, one.applied
        await bus.js.delete_stream(STREAM)
        if remade:
            await ensure_stream(bus)
        await asyncio.sleep(LEASE_S)
        for replica in (one, two):
            await again(replica)
            assert replica.epoch not in (epoch, "")
            assert not replica.fresh("acme", ["other:1"], read_seq), "read from a stream that is gone"
            assert not replica.fresh("acme", ["other:1"], old + 1000)
            assert replica.fresh("acme", ["other:1"], replica.applied)
        assert one.epoch == two.epoch
        read_seq = one.applied
        new, stored_at = await change(bus, "prices:7")
        assert new > old
        await barrier.passed(new, stored_at)
        for replica in (one, two):
            assert not replica.table.fresh("acme", ["prices:7"], read_seq)
            assert replica.table.fresh("acme", ["prices:8"], read_seq)


async def test_a_stream_that_counts_from_the_beginning_again_is_refused_until_it_is_deleted(
    nats_server: NatsServer, bus: Bus
) -> None:
    async with holder(nats_server) as replica:
        await change(bus, "prices:7")
        await bus.js.delete_stream(STREAM)
        await bus.js.add_stream(name=STREAM, subjects=["hasten.v1.change.>", "hasten.v1.document.>"])
        await change(bus, "prices:8")
        await asyncio.sleep(LEASE_S + RETRY_S)
        assert not replica.leased
        await bus.js.delete_stream(STREAM)
        await again(replica)
        assert replica.fresh("acme", ["prices:7"], replica.applied)


async def test_replicas_serve_again_after_jetstream_has_lost_everything(nats_server: NatsServer, bus: Bus) -> None:
    """As a server without a disk of its own has when it starts again: neither the stream nor the registry is left."""
    async with holder(nats_server) as one, holder(nats_server) as two:
        old, _ = await change(bus, "prices:7")
        for stream in (STREAM, f"KV_{REPLICAS}"):
            await bus.js.delete_stream(stream)
        await asyncio.sleep(LEASE_S)
        for replica in (one, two):
            await again(replica)
            assert not replica.fresh("acme", ["other:1"], old + 1000)
            assert replica.fresh("acme", ["other:1"], replica.applied)
        assert one.epoch == two.epoch


async def test_a_replica_registers_again_when_the_bucket_is_gone(nats_server: NatsServer, bus: Bus) -> None:
    async with holder(nats_server) as replica:
        await bus.js.delete_key_value(REPLICAS)
        async with asyncio.timeout(20):
            while True:
                with contextlib.suppress(NotFoundError):
                    if len(await members(bus)) == 1:
                        break
                await asyncio.sleep(0.1)
        await again(replica)
        assert replica.fresh("acme", ["other:1"], replica.applied)


def test_replicas_of_a_kind_agree_on_whose_turn_it_is() -> None:
    names = ["cache-a", "cache-b", "cache-c"]
    peers = [Peers(name) for name in names]
    for one in peers:
        for name in [*names, "reader-x"]:
            one.heard(name, 10.0)
    for work in ("prices", "orders", "stock", "users"):
        assert sorted(one.place(work, 11.0) for one in peers) == [0, 1, 2]
    peers[0].heard("cache-b", 13.0)
    assert sorted(one.place("prices", 14.0) for one in peers[:1]) in ([0], [1])
    assert Peers("cache-a").place("prices", 0.0) == 0, "alone it is always its turn"
