"""Readers that leave and workers that are lost: who is stopped, who goes on, and what is stored."""

import asyncio

import pytest
from one_orchestrator import ask, client, hang, orchestrator
from patience import until
from replica_rig import ASK, Gate, peers, text
from scripted_peers import ANSWER, Scripted

from hasten.bus import Bus
from hasten.messages.chat import CANCEL, CHAT, Chunk, Nothing
from hasten.messages.failure import Failure
from hasten.messages.generate import GENERATE
from hasten.nats_server import NatsServer
from hasten.orchestrator.service import Orchestrator
from hasten.service import Call

__all__ = ["client", "orchestrator", "peers"]


async def test_the_leaders_leaving_does_not_stop_its_followers(
    client: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    gate = Gate(peers, 3)
    leader = await client.stream(CHAT, ASK, tenant="acme", request_id="lead")
    await until(lambda: peers.generated)
    followers = [await client.stream(CHAT, ASK, tenant="acme", request_id=f"f{n}") for n in range(2)]
    await until(lambda: len(orchestrator.service.requests.calls) == 3)
    for gone in (leader, followers[0]):
        await gone.aclose()
    gate.open()
    rest = [event async for event in followers[1]]
    assert text(rest) == ANSWER
    assert (len(peers.generated), peers.cancelled) == (1, [])


async def test_the_last_reader_to_leave_stops_the_worker_and_nothing_is_stored(
    client: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    gate = Gate(peers, 3)
    stream = await client.stream(CHAT, ASK, tenant="acme")
    async for event in stream:
        if isinstance(event, Chunk):
            break
    await stream.aclose()
    await until(lambda: peers.cancelled == ["w1"])
    await until(lambda: not orchestrator._flights.all)
    assert peers.puts == []
    gate.open()
    assert text(await ask(client)) == ANSWER


async def test_a_reader_whose_process_died_stops_the_worker(
    nats_server: NatsServer, orchestrator: Orchestrator, peers: Scripted
) -> None:
    Gate(peers, 3)
    doomed = await Bus.connect(nats_server.url)
    await doomed.stream(CHAT, ASK, tenant="acme")
    await until(lambda: peers.generated)
    await doomed.client.close()
    await until(lambda: peers.cancelled == ["w1"])
    await until(lambda: not orchestrator._flights.all)
    assert peers.puts == []


async def test_who_asks_while_an_abandoned_generation_ends_gets_a_new_one(
    client: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    peers.chunk_delay_s = 0.02
    for _ in range(10):
        stream = await client.stream(CHAT, ASK, tenant="acme")
        async for event in stream:
            if isinstance(event, Chunk):
                break
        await stream.aclose()
        body = {**ASK, "cache": {"mode": "auto", "store": False}}
        first = await client.stream(CHAT, body, tenant="acme")
        await until(lambda: len(orchestrator._flights.all) > 0)
        await first.aclose()
        assert text(await ask(client, body)) == ANSWER


async def test_a_cancel_of_another_tenant_or_request_changes_nothing(
    client: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    peers.chunk_delay_s = 0.05
    stream = await client.stream(CHAT, ASK, tenant="acme", request_id="r1")
    await until(lambda: peers.generated)
    await client.publish(CANCEL, Nothing(), tenant="other", request_id="r1")
    await client.publish(CANCEL, Nothing(), tenant="acme", request_id="r2")
    assert text([event async for event in stream]) == ANSWER


@pytest.mark.parametrize("how", ["raises", "overloaded", "absent", "silent"])
async def test_a_worker_lost_before_the_first_chunk_is_replaced(
    client: Bus, orchestrator: Orchestrator, peers: Scripted, how: str
) -> None:
    if how in ("absent", "silent"):
        await peers.worker_services["w1"].drain()
    if how == "silent":
        await client.subscribe(GENERATE.subject(slug="m", worker="w1"), hang)
        await client.flush()

    async def broken(_: int, call: Call) -> None:
        await call.send(Failure(code="overloaded" if how == "overloaded" else "upstream"))
        raise RuntimeError

    peers.broken = {"w1": broken}
    events = await ask(client)
    assert (text(events), events[-1].cache) == (ANSWER, "miss")
    assert peers.routes[-1].exclude == ["w1"]


async def test_a_worker_lost_in_mid_stream_costs_a_pause_and_no_text_twice(
    client: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    async def dies(seq: int, call: Call) -> None:
        if seq == 3:
            await call.send(Failure(code="upstream"))
            raise RuntimeError

    peers.broken = {"w1": dies}
    events = await ask(client)
    assert text(events) == ANSWER
    first, second = (request for _, request in peers.generated)
    assert second.messages == first.messages
    assert ANSWER.startswith(second.continues)
    assert second.continues


async def test_when_no_worker_can_finish_the_failure_says_how_much_was_sent(
    client: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    async def dies(seq: int, call: Call) -> None:
        if seq == 2:
            await call.send(Failure(code="bad_request", detail="no"))
            raise RuntimeError

    peers.broken = {"w1": dies, "w2": dies}
    events = await ask(client)
    assert isinstance(events[-1], Failure)
    assert (events[-1].code, events[-1].tokens_sent, events[-1].model) == ("bad_request", 2, "m")
    assert peers.puts == []


async def test_a_failed_leader_does_not_poison_its_followers(
    client: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    calls = 0

    async def fails_once(_: int, call: Call) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            await asyncio.sleep(0.2)
            await call.send(Failure(code="internal"))
            raise RuntimeError

    peers.broken = {"w1": fails_once}
    answers = await asyncio.gather(*(ask(client) for _ in range(8)))
    outcomes = [type(events[-1]).__name__ for events in answers]
    assert sorted(outcomes) == ["Done"] * 7 + ["Failure"]
    assert len(peers.generated) == 2, "the followers of a failed leader share the next generation"
