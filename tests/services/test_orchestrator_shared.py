"""One generation for identical requests, whichever replica they reach: followers, leavers, lost leaders, tenants."""

import asyncio
from typing import Any

import pytest
from patience import until
from replica_rig import ASK, Gate, Replica, Replicas, events_of, first_chunk, loyal, notes, peers, replicas, text
from scripted_peers import ANSWER, Scripted

from hasten.deadline import TENANT
from hasten.messages.chat import CHAT, Chunk
from hasten.messages.failure import Failure
from hasten.messages.follow import FOLLOW, Follow
from hasten.service import Call

__all__ = ["loyal", "peers", "replicas"]
pytestmark = pytest.mark.usefixtures("loyal")


async def pair(replicas: Replicas) -> tuple[Replica, Replica]:
    return await replicas.add(), await replicas.add()


async def test_a_hundred_identical_questions_at_three_replicas_are_one_generation(
    replicas: Replicas, peers: Scripted
) -> None:
    for _ in range(3):
        await replicas.add()
    gate = Gate(peers, 2)
    streams = [await replicas.client.stream(CHAT, ASK, tenant="acme") for _ in range(100)]
    await until(lambda: sum(flight.readers for one in replicas.all for flight in one.unit._flights.all) == 102)
    gate.open()
    answers = await asyncio.gather(*(events_of(stream) for stream in streams))
    assert {text(events) for events in answers} == {ANSWER}
    assert len(peers.generated) == 1
    assert sorted(events[-1].cache for events in answers) == ["miss"] + ["shared"] * 99
    assert [replica.leases for replica in replicas.all].count({"followed": 1}) == 2, "each replica follows once"
    shared = [events for events in answers if events[-1].cache == "shared"]
    told = [event.data for events in shared for event in events if getattr(event, "kind", "") == "cache"]
    assert told == [{"hit": "shared"}] * 99


async def test_a_follower_elsewhere_gets_everything_from_the_first_chunk_and_then_live(
    replicas: Replicas, peers: Scripted
) -> None:
    leader, other = await pair(replicas)
    gate = Gate(peers, 3)
    first = await replicas.stream(leader)
    await until(lambda: leader.unit._flights.all and max(one.chunks for one in leader.unit._flights.all) == 3)
    second = await replicas.stream(other)
    assert (await first_chunk(second)).text == "The"
    assert [(await anext(second)).text for _ in range(2)] == [" tide", " rises"]
    gate.open()
    rest = await events_of(second)
    assert "The tide rises" + text(rest) == text(await events_of(first)) == ANSWER
    assert (rest[-1].cache, len(peers.generated)) == ("shared", 1)


async def test_whoever_leaves_the_last_reader_gets_the_answer(replicas: Replicas, peers: Scripted) -> None:
    """A leads and leaves after two chunks, B follows here and leaves, C follows elsewhere and stays."""
    one, other = await pair(replicas)
    gate = Gate(peers, 3)
    leader = await replicas.stream(one)
    await first_chunk(leader)
    here, elsewhere = await replicas.stream(one), await replicas.stream(other)
    await first_chunk(elsewhere)
    await anext(leader)
    await leader.aclose()
    await anext(here)
    await here.aclose()
    await until(lambda: [flight.readers for flight in one.unit._flights.all] == [1])
    gate.open()
    assert "The" + text(await events_of(elsewhere)) == ANSWER
    assert (len(peers.generated), peers.cancelled) == (1, [])


async def test_the_last_reader_to_leave_stops_the_worker_even_from_elsewhere(
    replicas: Replicas, peers: Scripted
) -> None:
    """What was cut off is not stored, and the next one to ask gets a whole answer."""
    one, other = await pair(replicas)
    gate = Gate(peers, 1)
    leader, follower = await replicas.stream(one), await replicas.stream(other)
    await first_chunk(follower)
    await leader.aclose()
    await first_chunk(await replicas.stream(other, {**ASK, "seed": 1}))
    assert peers.cancelled == []
    await follower.aclose()
    await until(lambda: peers.cancelled)
    assert peers.puts == []
    gate.open()
    assert text(await replicas.ask(other)) == ANSWER


async def test_nothing_of_another_tenants_flight_is_shared_or_seen(replicas: Replicas, peers: Scripted) -> None:
    one, other = await pair(replicas)
    go_on = asyncio.Event()

    async def waits(seq: int, call: Call) -> None:
        if seq == 1 and call.tenant == "acme":
            await go_on.wait()

    peers.broken = {"w1": waits}
    first = await replicas.stream(one)
    await first_chunk(first)
    writes = await replicas.sequence()
    again = await replicas.ask(other, tenant="globex")
    assert (again[-1].cache, len(peers.generated)) == ("miss", 2)
    assert "shared" not in str(notes(again))
    await until(lambda: not other.unit._flights.all)
    while (made := await replicas.sequence() - writes) < 2:
        pass
    assert made == 2, "a lease of its own, taken and released: no meeting with the other"
    (key,) = one.unit._flights._leading
    stolen = await replicas.client.stream(
        FOLLOW, Follow(key=key), replica=one.unit.service.id, headers={TENANT: "globex"}
    )
    assert [event.code for event in await events_of(stolen) if isinstance(event, Failure)] == ["not_found"]
    go_on.set()
    assert "The" + text(await events_of(first)) == ANSWER


async def test_a_failed_leader_does_not_poison_who_follows_elsewhere(replicas: Replicas, peers: Scripted) -> None:
    one, other = await pair(replicas)
    calls = 0

    async def fails_once(_: int, call: Call) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            await until(lambda: one.followers == 1)
            await call.send(Failure(code="internal"))
            raise RuntimeError

    peers.broken = {"w1": fails_once}
    leader = await replicas.stream(one)
    await until(lambda: peers.generated)
    followers = [await replicas.stream(replica) for replica in (other, other, one)]
    answers = await asyncio.gather(*(events_of(stream) for stream in (leader, *followers)))
    assert [type(events[-1]).__name__ for events in answers] == ["Failure", "Done", "Done", "Done"]
    assert len(peers.generated) == 2, "the followers of a failed leader share the next generation"


async def test_a_failure_that_everybody_would_meet_is_passed_on(replicas: Replicas, peers: Scripted) -> None:
    one, other = await pair(replicas)

    async def refuses(_: int, call: Call) -> None:
        await until(lambda: one.followers == 1)
        await call.send(Failure(code="context_overflow", detail="too long"))
        raise RuntimeError

    peers.broken = {"w1": refuses}
    leader = await replicas.stream(one)
    await until(lambda: peers.generated)
    streams = (leader, await replicas.stream(other))
    answers = await asyncio.gather(*(events_of(stream) for stream in streams))
    assert [events[-1].code for events in answers] == ["context_overflow"] * 2
    assert len(peers.generated) == 1


async def speaks(stream: Any) -> bool:
    """Whether a chunk comes before the end; the stream can be read on behind it."""
    async for event in stream:
        if isinstance(event, Chunk):
            return True
    return False


async def test_a_follower_with_more_time_outlives_its_leaders_deadline(replicas: Replicas, peers: Scripted) -> None:
    one, other = await pair(replicas)
    gate = Gate(peers, 1)
    for deadline_ms in (2500, 10_000):
        peers.generated.clear()
        body = {**ASK, "seed": deadline_ms}
        hurried = await replicas.stream(one, {**body, "deadline_ms": deadline_ms})
        if await speaks(hurried):
            break
    answering = asyncio.create_task(replicas.ask(other, body))
    assert (await events_of(hurried))[-1].code == "deadline"
    gate.open()
    assert text(await answering) == ANSWER
    assert [request.continues for _, request in peers.generated][:1] == [""]
    assert all(ANSWER.startswith(request.continues) for _, request in peers.generated[1:])
    assert all(request.continues for _, request in peers.generated[1:]), "nothing is generated twice"


async def test_a_drain_finishes_who_follows_from_elsewhere(replicas: Replicas, peers: Scripted) -> None:
    one, other, newcomer = await replicas.add(), await replicas.add(), await replicas.add()
    gate = Gate(peers, 3)
    leader = await replicas.stream(one)
    await first_chunk(leader)
    follower = await replicas.stream(other)
    await first_chunk(follower)
    draining = asyncio.create_task(one.unit.drain())
    await until(lambda: one.unit.service.draining)
    late = await replicas.stream(newcomer)
    await until(lambda: newcomer.leases.get("followed") == 1)
    await first_chunk(late)
    gate.open()
    answers = await asyncio.gather(events_of(follower), events_of(late))
    assert ["The" + text(events) for events in answers] == [ANSWER] * 2
    assert (len(peers.generated), peers.cancelled) == (1, [])
    await draining


async def test_no_chunk_is_missing_or_twice_in_any_stream(replicas: Replicas, peers: Scripted) -> None:
    one, other = await pair(replicas)
    peers.answer, gate = " ".join(f"word{at}" for at in range(60)), Gate(peers, 30)
    peers.chunk_delay_s = 0.01
    first = await replicas.stream(one)
    await first_chunk(first)
    rest = [await replicas.stream(replica) for replica in (other, one, other)]
    await until(lambda: (len(one.unit.service.requests.calls), len(other.unit.service.requests.calls)) == (3, 2))
    gate.open()
    for events in await asyncio.gather(*(events_of(stream) for stream in rest)):
        chunks = [event for event in events if isinstance(event, Chunk)]
        assert [chunk.seq for chunk in chunks] == list(range(60))
        assert (text(events), events[-1].chunks) == (peers.answer, 60)
