"""Orchestrators as processes of their own, of which the one that leads a generation is killed or stopped."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from orchestrator_rig import Orchestrators
from replica_rig import Gate, events_of, first_chunk
from scripted_peers import Scripted

from hasten.bus import Bus
from hasten.messages.chat import CHAT, Chunk, Done
from hasten.nats_server import NatsServer

ANSWER = " ".join(f"word{at}" for at in range(150))
ASK = {"messages": [{"role": "user", "content": "When does the tide rise?"}]}


@pytest_asyncio.fixture
async def peers(bus: Bus) -> AsyncIterator[Scripted]:
    made = Scripted(bus)
    made.answer, made.chunk_delay_s = ANSWER, 0.03
    await made.start()
    yield made
    await made.close()


@pytest_asyncio.fixture
async def orchestrators(nats_server: NatsServer, bus: Bus, tmp_path: Path) -> AsyncIterator[Orchestrators]:
    made = Orchestrators(nats_server.url, bus, tmp_path)
    yield made
    await made.close()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
async def test_who_follows_a_lost_leader_reads_the_whole_answer_once(
    bus: Bus, peers: Scripted, orchestrators: Orchestrators, how: signal.Signals
) -> None:
    both, gate = {await orchestrators.add(), await orchestrators.add()}, Gate(peers, 30)
    first = await bus.stream(CHAT, ASK, tenant="acme")
    await first_chunk(first)
    leader = await orchestrators.leader()
    (other,) = both - {leader}
    streams = [first]
    while not (await orchestrators.reports()).get(other, {}).get("leases", {}).get("followed"):
        streams.append(await bus.stream(CHAT, ASK, tenant="acme"))
    orchestrators.running[leader].signal(how)
    gate.open()
    answers = await asyncio.gather(*(events_of(stream) for stream in streams))
    whole = [events for events in answers if isinstance(events[-1], Done)]
    assert whole, "at least one of them was read from the replica that lives"
    for events in whole:
        chunks = [event for event in events if isinstance(event, Chunk)]
        assert [chunk.seq for chunk in chunks] == list(range(len(chunks)))
        assert "".join(chunk.text for chunk in chunks) == ANSWER
    begun, resumed = (request for _, request in peers.generated)
    assert resumed.messages == begun.messages
    assert ANSWER.startswith(resumed.continues)
    assert resumed.continues, "nothing that was shown is generated twice"
    assert await orchestrators.leader() in ("", other)
