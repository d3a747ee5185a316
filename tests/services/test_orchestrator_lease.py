"""The bucket of leases: what is in it, who touches it, and that who comes a moment early or late generates nothing."""

import asyncio
import hashlib
from typing import Any

import pytest
from patience import until
from replica_rig import ASK, Gate, Replica, Replicas, events_of, first_chunk, loyal, peers, replicas
from scripted_peers import Scripted

from hasten.bus import Bus
from hasten.messages.chat import Done
from hasten.orchestrator.lease import BUCKET

__all__ = ["loyal", "peers", "replicas"]
pytestmark = pytest.mark.usefixtures("loyal")


async def pair(replicas: Replicas) -> tuple[Replica, Replica]:
    return await replicas.add(), await replicas.add()


async def test_the_bucket_holds_hashes_only(replicas: Replicas, peers: Scripted) -> None:
    one = await replicas.add()
    await replicas.ask(one)
    info = await replicas.client.js.stream_info(f"KV_{BUCKET}", subjects_filter=">")
    (subject,) = info.state.subjects or {}
    assert len(subject.rpartition(".")[2]) == len(hashlib.sha256().hexdigest())
    value = await replicas.client.js.get_last_msg(f"KV_{BUCKET}", subject)
    assert value.data is not None
    assert b"tide" not in value.data
    assert b"acme" not in value.data


async def test_a_hit_never_touches_the_bucket(replicas: Replicas, peers: Scripted) -> None:
    one, other = await pair(replicas)
    await replicas.ask(one)
    await one.settled()
    writes = await replicas.sequence()
    for replica in (one, other, one):
        assert (await replicas.ask(replica))[-1].cache == "exact"
    assert await replicas.sequence() == writes


@pytest.mark.parametrize("body", [{"cache": {"mode": "off"}}, {"temperature": 0.7}, {"cache": {"mode": "refresh"}}])
async def test_what_may_not_be_shared_takes_no_lease(replicas: Replicas, peers: Scripted, body: dict[str, Any]) -> None:
    one, other = await pair(replicas)
    peers.chunk_delay_s = 0.02
    streams = [await replicas.stream(replica, {**ASK, **body}) for replica in (one, other)]
    answers = await asyncio.gather(*(events_of(stream) for stream in streams))
    assert [events[-1].cache for events in answers] == ["miss", "miss"]
    assert await replicas.sequence() == 0


async def test_who_asks_just_after_the_end_gets_the_stored_answer(replicas: Replicas, peers: Scripted) -> None:
    """The answer has ended and is on its way to the store: the follower waits for that instead of generating."""
    one, other = await pair(replicas)
    peers.delays = {"put": 0.2}
    for seed in range(3):
        body = {**ASK, "seed": seed}
        assert (await replicas.ask(one, body))[-1].cache == "miss"
        assert (await replicas.ask(other, body))[-1].cache == "exact"
        assert len(peers.generated) == seed + 1


async def test_who_missed_just_before_the_end_looks_again_under_the_lease(replicas: Replicas, peers: Scripted) -> None:
    """The exact lookup missed before the answer was stored; the lease is free by the time it is claimed."""
    one, other = await pair(replicas)
    gate, claim = asyncio.Event(), other.unit._leases.claim

    async def late(key: str, *, quiet: bool = False) -> Any:
        await gate.wait()
        return await claim(key, quiet=quiet)

    other.unit._leases.claim = late  # type: ignore[method-assign]
    second = await replicas.stream(other)
    await until(lambda: ("compress", "ended") in peers.log)
    assert (await replicas.ask(one))[-1].cache == "miss"
    await one.settled()
    gate.set()
    assert (await events_of(second))[-1].cache == "exact"
    assert len(peers.generated) == 1


async def test_without_a_bucket_every_replica_shares_for_itself(replicas: Replicas, peers: Scripted, bus: Bus) -> None:
    one, other = await pair(replicas)
    await bus.js.delete_stream(f"KV_{BUCKET}")
    await bus.js.add_stream(name="squatter", subjects=[f"$KV.{BUCKET}.>"], max_msg_size=1)
    gate = Gate(peers, 3)
    streams = [await replicas.stream(replica) for replica in (one, one, other, other)]
    await until(lambda: len(peers.generated) == 2)
    await until(lambda: len(one.unit.service.requests.calls) == len(other.unit.service.requests.calls) == 2)
    gate.open()
    answers = await asyncio.gather(*(events_of(stream) for stream in streams))
    assert [type(events[-1]) for events in answers] == [Done] * 4
    assert [set(replica.leases) for replica in (one, other)] == [{"unavailable"}] * 2
    assert len(peers.generated) == 2
    await bus.js.delete_stream("squatter")
    for replica in (one, other):
        await replica.unit._leases.start()
        await until(lambda replica=replica: not replica.unit._leases._tasks)  # type: ignore[misc]
        replica.unit._leases._resting_until = 0.0
    gate = Gate(peers, 3)
    streams = [await replicas.stream(replica, {**ASK, "seed": 1}) for replica in (one, other)]
    await until(lambda: one.followers + other.followers == 1)
    gate.open()
    answers = await asyncio.gather(*(events_of(stream) for stream in streams))
    assert sorted(events[-1].cache for events in answers) == ["miss", "shared"], "the bucket has been made again"


async def test_a_slow_lookup_does_not_keep_a_follower_waiting(replicas: Replicas, peers: Scripted) -> None:
    one, other = await pair(replicas)
    gate = Gate(peers, 1)
    first = await replicas.stream(one)
    await until(lambda: peers.generated)
    peers.delays = {"exact": 60.0}
    second = await replicas.stream(other)
    assert (await first_chunk(second)).text == "The"
    gate.open()
    answers = await asyncio.gather(events_of(first), events_of(second))
    assert [events[-1].cache for events in answers] == ["miss", "shared"]
    assert len(peers.generated) == 1


async def test_who_follows_before_the_leader_knows_that_it_leads_waits_for_that(
    replicas: Replicas, peers: Scripted
) -> None:
    """The lease is in the bucket, and its acknowledgement still on the way to the leader."""
    one, other = await pair(replicas)
    told, claim = asyncio.Event(), one.unit._leases.claim

    async def late(key: str, *, quiet: bool = False) -> Any:
        lease = await claim(key, quiet=quiet)
        await told.wait()
        return lease

    one.unit._leases.claim = late  # type: ignore[method-assign]
    first = await replicas.stream(one)
    await until(lambda: one.unit._flights._claims)
    while not await replicas.sequence():
        await asyncio.sleep(0.005)
    second = await replicas.stream(other)
    await until(lambda: any(call.topic.name == "follow" for call in one.unit.service.requests.calls.values()))
    told.set()
    answers = await asyncio.gather(events_of(first), events_of(second))
    assert [events[-1].cache for events in answers] == ["miss", "shared"]
    assert (len(peers.generated), other.leases) == (1, {"followed": 1})
