"""Stampede control: just invalidated, about to expire, expired: a question is generated once, and hits are served."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from patience import until
from replica_rig import (
    ASK,
    Gate,
    Replica,
    Replicas,
    caching,
    events_of,
    half_scripted,
    loyal,
    notes,
    peers,
    replicas,
    running,
    text,
)
from scripted_peers import Scripted

from hasten.bus import Bus
from hasten.messages.cache import CACHE_LOOKUP, CACHE_PUT, Answer, CacheHit
from hasten.messages.change import CHANGE, Change
from hasten.messages.chat import CHAT, Done
from hasten.messages.failure import Failure
from hasten.messages.generate import GENERATE
from hasten.models import EngineConfig, Model
from hasten.nats_server import NatsServer
from hasten.orchestrator.domain import LOW_PRIORITY
from hasten.service import Call
from hasten.worker.service import Worker, build
from hasten.worker.settings import Settings as WorkerSettings

__all__ = ["half_scripted", "loyal", "peers", "replicas"]
pytestmark = pytest.mark.usefixtures("loyal")
ENDING = CacheHit(kind="exact", entry_id="e1", answer=Answer(text="old"), age_s=3599, lives_s=1)


async def pair(replicas: Replicas) -> tuple[Replica, Replica]:
    return await replicas.add(), await replicas.add()


async def test_an_answer_that_is_about_to_expire_is_made_anew_once_while_it_is_served(
    replicas: Replicas, peers: Scripted
) -> None:
    one, other = await pair(replicas)
    peers.exact, gate = ENDING, Gate(peers)
    answers = [await replicas.ask(replica) for replica in (one, other, one, other, other)]
    assert [(events[-1].cache, text(events)) for events in answers] == [("exact", "old")] * 5
    gate.open()
    await until(lambda: peers.puts)
    assert len(peers.generated) == 1
    assert peers.generated[0][1].priority == LOW_PRIORITY
    await until(lambda: not one.unit._flights.all)
    renewed = await replicas.ask(one)
    assert (renewed[-1].cache, text(renewed)) == ("exact", peers.answer)


async def test_who_misses_while_it_is_made_anew_reads_along(replicas: Replicas, peers: Scripted) -> None:
    one, other = await pair(replicas)
    peers.exact, gate = ENDING, Gate(peers)
    await replicas.ask(one)
    await until(lambda: peers.generated)
    peers.exact = None
    one.unit._means.recent._hits.clear()
    streams = [await replicas.stream(replica) for replica in (other, one)]
    await until(lambda: one.followers == 2)
    assert one.leases.get("followed") == other.leases.get("followed") == 1
    gate.open()
    answers = [await events_of(stream) for stream in streams]
    assert [(events[-1].cache, text(events)) for events in answers] == [("shared", peers.answer)] * 2
    assert len(peers.generated) == 1


async def test_a_slow_hit_is_served_all_the_same_while_it_is_made_anew(replicas: Replicas, peers: Scripted) -> None:
    one, other = await pair(replicas)
    peers.exact, gate = ENDING, Gate(peers)
    await replicas.ask(one)
    await until(lambda: peers.generated)
    peers.delays = {"exact": 0.2}
    assert text(await replicas.ask(other)) == "old"
    gate.open()


async def test_a_memory_of_an_older_answer_starts_no_second_refresh(replicas: Replicas, peers: Scripted) -> None:
    """The other replica still remembers the old answer when the new one has been stored."""
    one, other = await pair(replicas)
    peers.exact = ENDING
    await replicas.ask(one)
    await until(lambda: peers.puts)
    await one.settled()
    peers.entries.clear()
    assert text(await replicas.ask(other)) == "old"
    await until(lambda: not other.unit._refresher._tasks)
    assert len(peers.generated) == 1


async def test_a_refresh_that_fails_is_not_repeated_at_once_and_the_old_answer_stays(
    replicas: Replicas, peers: Scripted
) -> None:
    one, other = await pair(replicas)

    async def fails(_: int, call: Call) -> None:
        await call.send(Failure(code="internal"))
        raise RuntimeError

    peers.exact, peers.broken = ENDING, {"w1": fails}
    for replica in (one, other, one, other):
        assert text(await replicas.ask(replica)) == "old"
        await until(lambda: not one.unit._refresher._tasks and not other.unit._refresher._tasks)
        await one.settled()
    assert (len(peers.generated), peers.puts) == (1, [])


@pytest.mark.parametrize(
    ("hit", "body"),
    [
        ({"lives_s": 3000}, {}),
        ({"kind": "semantic"}, {}),
        ({}, {"cache": {"store": False}}),
        ({"age_s": 3.0, "lives_s": 1.0}, {}),
    ],
)
async def test_what_is_not_made_anew(
    replicas: Replicas, peers: Scripted, hit: dict[str, Any], body: dict[str, Any]
) -> None:
    """Far from its end, somebody else's question, not to be stored, or so short-lived that its last tenth is not here
    yet."""
    one = await replicas.add()
    fields = {name: getattr(ENDING, name) for name in ("kind", "entry_id", "answer", "age_s", "lives_s")}
    found = CacheHit(**{**fields, **hit})
    peers.exact, peers.semantic = (found, None) if found.kind == "exact" else (None, found)
    assert text(await replicas.ask(one, {**ASK, **body})) == "old"
    assert one.unit._refresher._tasks == set()


async def test_an_expired_answer_is_served_while_one_is_made_only_where_the_operator_allows_it(
    nats_server: NatsServer, bus: Bus, half_scripted: Scripted, tmp_path: Path
) -> None:
    peers, body = half_scripted, {**ASK, "cache": {"tags": ["prices:7"]}}
    patient = {**ASK, "cache": {"tags": ["prices:7"], "max_age_s": 0.3}}
    async with caching(bus, tmp_path, ttl_s=0.5, stale_s=60), running(nats_server, 2, recent_s=0) as replicas:
        one, other = replicas.all
        assert (await replicas.ask(one, body))[-1].cache == "miss"
        await until(lambda: not one.unit._flights.all)
        await asyncio.sleep(0.5)
        old, peers.answer, gate = peers.answer, "A new answer about tides.", Gate(peers)
        for replica in (one, other, one, other):
            events = await replicas.ask(replica, body)
            assert (text(events), events[-1].cache, notes(events)["cache"]["stale"]) == (old, "exact", True)
        gate.open()
        await until(lambda: not one.unit._flights.all and not other.unit._flights.all)
        assert len(peers.generated) == 2
        assert text(await replicas.ask(other, body)) == peers.answer
        await until(lambda: not any(one.unit._flights.all or one.unit._refresher._tasks for one in replicas.all))
        await asyncio.sleep(0.5)
        assert (await replicas.ask(one, patient))[-1].cache == "miss", "never beyond the caller's own limit"
        await until(lambda: not one.unit._flights.all)
        sequence = await bus.store(CHANGE, Change(table="prices", key=7), source="shop")
        await until(lambda: min(replica.unit._freshness.applied for replica in replicas.all) >= sequence)
        assert (await replicas.ask(other, body))[-1].cache == "miss", "what has changed is not served, allowed or not"


async def test_without_leave_an_expired_answer_is_not_served(
    nats_server: NatsServer, bus: Bus, half_scripted: Scripted, tmp_path: Path
) -> None:
    async with caching(bus, tmp_path, ttl_s=0.3), running(nats_server, 1, recent_s=0) as replicas:
        (one,) = replicas.all
        for _ in range(2):
            assert (await replicas.ask(one))[-1].cache == "miss"
            await until(lambda: not one.unit._flights.all)
            await asyncio.sleep(0.3)


QUESTIONS, ASKERS = 10, 200


@pytest_asyncio.fixture
async def slow_worker(bus: Bus) -> AsyncIterator[Worker]:
    """A worker that takes two at once and has a line of sixteen: far less than the askers."""
    engine = EngineConfig(kind="sim", slots=2, queue=16, sim_network_ms=100.0, sim_decode_per_s=400.0)
    made = build(WorkerSettings(worker="w1"), bus, [Model(name="m", slug="m", engine=engine)])
    await made.start()
    yield made
    await made.close()


async def test_after_a_truncate_two_hundred_askers_cost_one_generation_for_each_question(
    nats_server: NatsServer, bus: Bus, slow_worker: Worker, tmp_path: Path
) -> None:
    peers = Scripted(bus, workers=("w1",), real=(CACHE_LOOKUP, CACHE_PUT, GENERATE))
    await peers.start()
    bodies = [
        {"messages": [{"role": "user", "content": f"faq number {at}"}], "cache": {"tags": ["faq:1"]}}
        for at in range(QUESTIONS)
    ]
    endpoint = slow_worker._service.endpoints[0]
    async with caching(bus, tmp_path), running(nats_server, 3) as replicas:
        for body in bodies:
            assert (await replicas.ask(replicas.all[0], body))[-1].cache == "miss"
        for replica in replicas.all:
            await replica.hear(True)
        assert endpoint.num_requests == QUESTIONS
        sequence = await bus.store(CHANGE, Change(table="faq", op="truncate"), source="shop")
        await until(lambda: min(replica.unit._freshness.applied for replica in replicas.all) >= sequence)
        streams = [await replicas.client.stream(CHAT, bodies[at % QUESTIONS], tenant="acme") for at in range(ASKERS)]
        answers = await asyncio.gather(*(events_of(stream) for stream in streams))
        ends = [events[-1] for events in answers]
        assert [end for end in ends if not isinstance(end, Done)] == [], "nobody was turned away"
        assert (endpoint.num_requests, endpoint.num_errors) == (2 * QUESTIONS, 0)
        sources = [events[-1].cache for events in answers]
        assert sources.count("miss") == QUESTIONS
        assert all(
            len({text(answers[at]) for at in range(first, ASKERS, QUESTIONS)}) == 1 for first in range(QUESTIONS)
        )
    await peers.close()
