"""A leader that is lost while others follow it: replaced within a second, and nothing is said twice or otherwise."""

import asyncio
import itertools
import time
from typing import Any

import msgspec
import pytest
from patience import until
from replica_rig import ASK, Gate, Replicas, events_of, first_chunk, notes, peers, replicas, text
from scripted_peers import PASSAGE, Scripted

from hasten.messages.change import CHANGE, Change
from hasten.messages.chat import Chunk, Done
from hasten.messages.failure import Failure
from hasten.messages.follow import FOLLOW
from hasten.orchestrator import relay
from hasten.orchestrator.relay import SILENCE_S
from hasten.service import Call

__all__ = ["peers", "replicas"]
ANSWER = " ".join(f"word{at}" for at in range(40))
SOON_S = 30 * SILENCE_S
"""A small part of the deadline that a follower would else wait for; `python -m loadtest.single_flight` measures it."""
WITH_KNOWLEDGE = {**ASK, "knowledge": ["sea"]}


async def timed(stream: Any) -> tuple[list[Any], list[float]]:
    """The events of a stream, and when its chunks came."""
    events: list[Any] = []
    times: list[float] = []
    async for event in stream:
        events.append(event)
        if isinstance(event, Chunk):
            times.append(time.monotonic())
    return events, times


def pause_s(times: list[float], since: float) -> float:
    """How long after `since` the next chunk came."""
    return next(at for at in times if at > since) - since


async def test_a_leader_that_dies_in_mid_stream_costs_its_followers_a_pause(
    replicas: Replicas, peers: Scripted
) -> None:
    peers.answer, peers.chunk_delay_s, peers.passages = ANSWER, 0.02, [PASSAGE]
    one, two, three = [await replicas.add() for _ in range(3)]
    gate = Gate(peers, 5)
    doomed = await replicas.stream(one, WITH_KNOWLEDGE)
    await first_chunk(doomed)
    followers = [await replicas.stream(replica, WITH_KNOWLEDGE) for replica in (two, two, three)]
    reading = [asyncio.create_task(timed(follower)) for follower in followers]
    await until(lambda: [flight.chunks for one in (two, three) for flight in one.unit._flights.all] == [5, 5])
    await one.die()
    died = time.monotonic()
    gate.open()
    answers = await asyncio.gather(*reading)
    assert [text(events) for events, _ in answers] == [ANSWER] * 3
    assert max(pause_s(times, died) for _, times in answers) < SOON_S
    assert two.leases.get("taken", 0) + three.leases.get("taken", 0) == 1
    first, second = (request for _, request in peers.generated)
    assert (second.messages, second.continues != "") == (first.messages, True)
    assert peers.routes[-1].model == "m"
    await until(lambda: peers.puts)
    assert peers.puts[0].answer.text == ANSWER
    assert [note["kind"] for note in peers.puts[0].answer.notes] == ["sources"]
    assert set(peers.puts[0].tags) == {"collection:sea", "document:sea/tides"}


async def test_a_leader_that_dies_before_the_first_chunk_is_replaced_and_generated_anew(
    replicas: Replicas, peers: Scripted
) -> None:
    one, other = await replicas.add(), await replicas.add()
    calls = 0

    async def hangs_once(_: int, __: Call) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            await asyncio.sleep(60)

    peers.broken = {"w1": hangs_once}
    await replicas.stream(one)
    await until(lambda: peers.generated)
    follower = await replicas.stream(other)
    await until(lambda: other.leases.get("followed") == 1)
    began = time.monotonic()
    await one.die()
    events = await events_of(follower)
    assert time.monotonic() - began < SOON_S
    assert (text(events), events[-1].cache, len(peers.generated)) == (peers.answer, "miss", 2)
    assert [request.continues for _, request in peers.generated] == ["", ""]


async def test_a_lease_whose_leader_has_long_been_dead_is_taken_at_once(replicas: Replicas, peers: Scripted) -> None:
    one, other = await replicas.add(), await replicas.add()
    peers.chunk_delay_s = 1.0
    await replicas.stream(one)
    await until(lambda: peers.generated)
    await one.die()
    peers.chunk_delay_s = 0.0
    events = await replicas.ask(other)
    assert (text(events), other.leases) == (peers.answer, {"followed": 1, "taken": 1, "led": 1})


async def test_a_leader_behind_a_cut_cable_is_replaced_and_its_own_reader_loses_nothing(
    replicas: Replicas, peers: Scripted
) -> None:
    peers.answer, peers.chunk_delay_s = ANSWER, 0.05
    cable = await replicas.cable()
    one, other = await replicas.add(cable), await replicas.add()
    first = await replicas.stream(one, idle_s=20)
    await first_chunk(first)
    second = await replicas.stream(other)
    reading = asyncio.create_task(timed(second))
    await until(lambda: other.leases.get("followed") == 1)
    cable.cut.clear()
    cut = time.monotonic()
    events, times = await reading
    assert text(events) == ANSWER
    assert max(later - at for at, later in itertools.pairwise(times)) < SOON_S
    assert times[-1] - cut > SILENCE_S
    cable.cut.set()
    assert "word0" + text(await events_of(first)) == ANSWER


async def test_a_leader_that_is_only_slow_for_a_while_is_asked_again_and_kept(
    replicas: Replicas, peers: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has as long to answer as it was silent, and its own lease and its trust in the worker hold meanwhile."""
    monkeypatch.setattr(relay, "SILENCE_S", 1.0)
    replicas.settings = msgspec.structs.replace(replicas.settings, silence_s=20.0)
    peers.answer, peers.chunk_delay_s = ANSWER, 0.05
    cable = await replicas.cable()
    one, other = await replicas.add(cable), await replicas.add()
    one.unit._freshness._lease_s = 60.0
    await first_chunk(await replicas.stream(one))
    follower = await replicas.stream(other)
    first = await first_chunk(follower)
    reading = asyncio.create_task(events_of(follower))
    asked: list[Any] = []

    async def on_follow(msg: Any) -> None:
        asked.append(msg)

    await replicas.client.subscribe(FOLLOW.pattern, on_follow)
    await replicas.client.flush()
    cable.cut.clear()
    await until(lambda: asked)
    cable.cut.set()
    events = [first, *await reading]
    chunks = [event for event in events if isinstance(event, Chunk)]
    assert [chunk.seq for chunk in chunks] == list(range(40))
    assert (text(events), other.leases.get("taken"), len(peers.generated)) == (ANSWER, None, 1)


async def test_where_no_engine_can_go_on_the_failure_says_how_much_was_sent(
    replicas: Replicas, peers: Scripted
) -> None:
    peers.answer, peers.continues = ANSWER, False
    one, other = await replicas.add(), await replicas.add()
    Gate(peers, 5)
    await replicas.stream(one)
    await until(lambda: peers.generated)
    follower = await replicas.stream(other)
    await first_chunk(follower)
    await one.die()
    events = await events_of(follower)
    assert isinstance(events[-1], Failure)
    assert (events[-1].code, events[-1].tokens_sent) == (
        "incomplete",
        1 + len([e for e in events if isinstance(e, Chunk)]),
    )
    assert (len(peers.generated), peers.puts) == (1, [])


async def test_a_successor_that_says_something_else_is_not_followed(
    replicas: Replicas, peers: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another replica has taken over and generates anew, differently: whoever shows a beginning goes on from it."""
    monkeypatch.setattr(relay, "SILENCE_S", 1.5)
    one, two, three = [await replicas.add() for _ in range(3)]
    peers.answer, gate = ANSWER, Gate(peers, 20)
    await first_chunk(await replicas.stream(one))
    ahead = await replicas.stream(two)
    await until(lambda: [flight.chunks for flight in two.unit._flights.all] == [20])
    peers.answer = "word0 word1 but then " + ANSWER
    await one.die()
    await replicas.forgotten(one)
    usurper = await replicas.stream(three)
    await until(lambda: len(peers.generated) == 3)
    gate.open()
    mine, theirs = await asyncio.gather(events_of(ahead), events_of(usurper))
    assert text(theirs) == peers.answer
    begun = peers.generated[-1][1].continues
    assert begun.split() == ANSWER.split()[:20]
    assert text(mine) == begun + peers.answer[len(begun) :], "the scripted worker goes on where the text has ended"
    assert (len(peers.generated), two.leases) == (3, {"followed": 1})


async def test_who_has_been_shown_reasoning_follows_no_other_leader(replicas: Replicas, peers: Scripted) -> None:
    """No engine goes on from reasoning, and another's would be told twice: the end says how much was sent."""
    one, two, three = [await replicas.add() for _ in range(3)]
    peers.thinks, gate = True, Gate(peers, 2)
    await first_chunk(await replicas.stream(one))
    reading = asyncio.create_task(events_of(await replicas.stream(two)))
    await until(lambda: [flight.chunks for flight in two.unit._flights.all] == [2])
    await one.die()
    usurper = await replicas.stream(three)
    await until(lambda: len(peers.generated) == 2)
    mine = await reading
    gate.open()
    chunks = [event for event in mine if isinstance(event, Chunk)]
    assert [chunk.reasoning for chunk in chunks] == ["The", " tide"]
    assert (mine[-1].code, mine[-1].tokens_sent) == ("incomplete", 2)
    assert isinstance((await events_of(usurper))[-1], Done)


async def test_no_follower_joins_what_was_read_before_a_change_that_it_knows(
    replicas: Replicas, peers: Scripted
) -> None:
    """Guarantee 4.1 on both sides: the replica of the leader has applied the change, or only that of the follower."""
    one, other = await replicas.add(), await replicas.add()
    gate = Gate(peers, 2)
    body = {**ASK, "cache": {"tags": ["prices:7"]}}
    old = await replicas.stream(one, body)
    await first_chunk(old)
    reader = one.unit._freshness.reader
    assert reader._subscription is not None
    assert reader._task is not None
    reader._task.cancel()  # else it would notice in a second that it hears nothing any more
    await reader._subscription.unsubscribe()
    one.unit._freshness._lease_s = 600.0
    sequence = await replicas.client.store(CHANGE, Change(table="prices", key=7), source="shop")
    await until(lambda: other.unit._freshness.applied >= sequence)
    assert one.unit._freshness.applied < sequence
    new = await replicas.stream(other, body)
    await until(lambda: len(peers.generated) == 2)
    gate.open()
    events = await events_of(new)
    assert (events[-1].cache, len(peers.generated)) == ("miss", 2)
    assert other.leases.get("taken") == 1
    await events_of(old)
    await until(lambda: len(peers.puts) == 2)
    assert sorted(put.read_seq for put in peers.puts) == [0, sequence], "the store refuses the first, which is stale"


@pytest.mark.parametrize("where", ["here", "elsewhere"])
async def test_a_dependency_that_turns_out_to_have_changed_before_the_follower_came_parts_them(
    replicas: Replicas, peers: Scripted, where: str
) -> None:
    """The passages of the leader are read before the change, their tags known only after the follower has joined."""
    one, other = await replicas.add(), await replicas.add()
    peers.passages = [PASSAGE]
    retrieved = asyncio.Event()
    peers.waits = {"retrieve": retrieved.is_set}
    old = await replicas.stream(one, WITH_KNOWLEDGE)
    await until(lambda: ("retrieve", "began") in peers.log)
    sequence = await replicas.client.store(CHANGE, Change(tags=["document:sea/tides"]), source="shop")
    for replica in (one, other):
        await until(lambda replica=replica: replica.unit._freshness.applied >= sequence)  # type: ignore[misc]
    peers.read_seq = sequence
    asking = asyncio.create_task(replicas.ask(one if where == "here" else other, WITH_KNOWLEDGE))
    await until(lambda: [flight.readers for flight in one.unit._flights.all] == [2])
    retrieved.set()
    late, first = await asyncio.gather(asking, events_of(old))
    assert notes(first)["cache"]["reason"] == "stale"
    assert (text(late), len(peers.generated)) == (peers.answer, 2)
    assert notes(late)["cache"].get("reason") is None
    await until(lambda: peers.puts)
    assert [put.read_seq for put in peers.puts] == [sequence]
