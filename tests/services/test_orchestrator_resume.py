"""Streams that are lost, with their orchestrator or with the reader's own connection, go on from what was read."""

import asyncio
from typing import Any

import pytest
from patience import until
from replica_rig import ASK, Gate, Replica, Replicas, events_of, peers, replicas, running
from scripted_peers import PASSAGE, Scripted

from hasten.bus import Bus
from hasten.chat_stream import ChatStream
from hasten.deadline import now_ms
from hasten.messages.chat import CANCEL, CHAT, Accepted, Chunk, Done, Nothing, Turn
from hasten.messages.failure import RETRYABLE, Failure
from hasten.messages.resume import RESUME, Resume
from hasten.nats_server import NatsServer
from hasten.orchestrator import resume

__all__ = ["peers", "replicas"]
ANSWER = " ".join(f"word{at}" for at in range(30))


class Reading:
    """One caller who reads with the client's library; `events` grows while it does."""

    def __init__(self, bus: Bus, body: dict[str, Any] = ASK, **options: Any) -> None:
        options = {"deadline_ms": now_ms() + 60_000, "silence_s": 1.0, **options}
        self.stream = ChatStream(bus, "acme", body, **options)
        self.events: list[Any] = []
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async with await self.stream.open():
            async for event in self.stream:
                self.events.append(event)

    @property
    def chunks(self) -> list[Chunk]:
        return [event for event in self.events if isinstance(event, Chunk)]

    @property
    def text(self) -> str:
        return "".join(chunk.text for chunk in self.chunks)

    async def has_read(self, chunks: int) -> None:
        await until(lambda: len(self.chunks) >= chunks)

    async def end(self) -> Any:
        """The last event; whatever came before it is numbered from 0 without a gap or a repetition."""
        await self.task
        assert [chunk.seq for chunk in self.chunks] == list(range(len(self.chunks)))
        assert sum(isinstance(event, Done | Failure) for event in self.events) == 1
        return self.events[-1]


async def begun(replicas: Replicas, peers: Scripted, body: dict[str, Any] = ASK) -> tuple[Reading, Replica, Replica]:
    """A caller who has read five chunks of `ANSWER`, at the first of two replicas."""
    peers.answer = ANSWER
    one, other = await replicas.add(), await replicas.add()
    Gate(peers, 5)
    await replicas.only(one)
    reading = Reading(replicas.client, body)
    await reading.has_read(5)
    return reading, one, other


async def test_an_orchestrator_that_dies_in_mid_stream_costs_its_reader_a_pause(
    replicas: Replicas, peers: Scripted
) -> None:
    peers.passages = [PASSAGE]
    reading, one, _ = await begun(replicas, peers, {**ASK, "knowledge": ["sea"], "seed": 7})
    peers.broken = {}
    await one.die()
    done = await reading.end()
    assert (reading.text, done.chunks, done.finish_reason) == (ANSWER, len(reading.chunks), "stop")
    (_, first), (_, second) = peers.generated
    assert (second.messages, second.seed, second.continues) == (first.messages, 7, "word0 word1 word2 word3 word4")
    assert second.max_tokens == first.max_tokens - 5
    assert peers.routes[-1].model == "m"
    assert peers.puts == [], "the beginning is only the caller's word"


async def test_before_the_first_chunk_the_request_is_asked_anew(replicas: Replicas, peers: Scripted) -> None:
    peers.answer = ANSWER
    one, _ = await replicas.add(), await replicas.add()
    gate = Gate(peers)
    await replicas.only(one)
    reading = Reading(replicas.client)
    await until(lambda: peers.generated)
    gate.open()
    await one.die()
    assert isinstance(await reading.end(), Done)
    assert (reading.text, peers.generated[-1][1].continues) == (ANSWER, "")


async def test_many_who_lost_the_same_answer_go_on_with_one_generation(replicas: Replicas, peers: Scripted) -> None:
    reading, one, _ = await begun(replicas, peers)
    others = [Reading(replicas.client) for _ in range(20)]
    for other in others:
        await other.has_read(5)
    gate = Gate(peers, 10)
    await one.die()
    await until(lambda: len(peers.generated) == 2)
    for waiting in (reading, *others):
        await waiting.has_read(6)
    gate.open()
    assert {(await waiting.end()).finish_reason for waiting in (reading, *others)} == {"stop"}
    assert {waiting.text for waiting in (reading, *others)} == {ANSWER}
    assert len(peers.generated) == 2


async def test_what_was_stored_meanwhile_is_read_on(replicas: Replicas, peers: Scripted) -> None:
    """The cache's pieces are other pieces; no text comes twice for that."""
    reading, one, other = await begun(replicas, peers)
    peers.broken = {}
    await one.die()
    await replicas.only(other)
    stored = Reading(replicas.client, request_id="another")
    await stored.end()
    await reading.end()
    assert reading.text == stored.text == ANSWER


async def test_another_prompt_is_not_gone_on_with(replicas: Replicas, peers: Scripted) -> None:
    peers.passages = [PASSAGE]
    reading, one, _ = await begun(replicas, peers, {**ASK, "knowledge": ["sea"]})
    peers.broken = {}
    peers.added = [Turn(role="user", content="as of today")]
    await one.die()
    failure = await reading.end()
    assert (failure.code, failure.tokens_sent, failure.code in RETRYABLE) == ("incomplete", 5, True)
    assert reading.text == "word0 word1 word2 word3 word4"
    assert len(peers.generated) == 1


async def test_where_no_engine_can_go_on_the_partial_text_is_kept(replicas: Replicas, peers: Scripted) -> None:
    peers.continues = False
    reading, one, _ = await begun(replicas, peers)
    await one.die()
    failure = await reading.end()
    assert (failure.code, failure.tokens_sent) == ("incomplete", 5)
    assert len(peers.generated) == 1


async def test_a_reader_who_was_cut_off_finds_its_flight_again(
    replicas: Replicas, peers: Scripted, nats_server: NatsServer
) -> None:
    peers.answer = ANSWER
    one = await replicas.add()
    gate = Gate(peers, 5)
    bus = await Bus.connect(nats_server.url, reconnect_time_wait=0.5)
    reading = Reading(bus)
    await reading.has_read(5)
    bus.client._transport.close()  # type: ignore[union-attr]
    await until(lambda: not bus.connected)
    gate.open()
    await until(lambda: len(one.unit._seats._kept) == 1)
    assert isinstance(await reading.end(), Done)
    assert (reading.text, len(peers.generated)) == (ANSWER, 1)
    await bus.close()


@pytest.mark.parametrize("where", ["here", "elsewhere"])
async def test_a_reader_that_hears_nothing_for_a_while_rejoins_the_flight_that_lives(
    replicas: Replicas, peers: Scripted, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its resume reaches the replica that has the flight, or another one, which reads along for it."""
    monkeypatch.setattr(resume, "SILENCE_S", 20.0)
    peers.answer = ANSWER
    one, other = await replicas.add(), await replicas.add()
    cable = await replicas.cable()
    gate = Gate(peers, 5)
    bus = await Bus.connect(cable.url)
    await replicas.only(one)
    reading = Reading(bus)
    await reading.has_read(5)
    deaf = other if where == "here" else one
    (heard,) = [one for one in deaf.unit.service._hearing if one.subject == RESUME.pattern]
    deaf.unit.service._hearing.remove(heard)
    await heard.unsubscribe()
    await deaf.bus.flush()
    cable.cut.clear()
    await until(lambda: reading.stream.resumed)
    cable.cut.set()
    await until(lambda: any(call.topic is not CHAT for call in _calls(one, other)))
    gate.open()
    assert isinstance(await reading.end(), Done)
    assert (reading.text, len(peers.generated)) == (ANSWER, 1)
    await until(lambda: not _calls(one, other))
    await bus.close()


def _calls(*replicas: Replica) -> list[Any]:
    return [call for replica in replicas for call in replica.unit.service.requests.calls.values()]


async def test_a_lost_reader_who_does_not_come_back_stops_the_generation(
    nats_server: NatsServer, peers: Scripted
) -> None:
    peers.answer = ANSWER + " and more" * 2000
    async with running(nats_server, 1, grace_s=0.2) as replicas:
        gate = Gate(peers, 5)
        bus = await Bus.connect(nats_server.url)
        reading = Reading(bus)
        await reading.has_read(5)
        reading.task.cancel()
        await bus._client.abandon()
        gate.open()
        peers.chunk_delay_s = 0.05
        await until(lambda: peers.cancelled)
        await until(lambda: not replicas.all[0].unit._flights.all)
        await until(lambda: not len(replicas.all[0].unit._seats))
        assert peers.cancelled == ["w1"], "it was stopped, and had not come to its end"


async def test_a_lost_reader_who_says_that_it_has_left_is_not_waited_for(
    nats_server: NatsServer, peers: Scripted
) -> None:
    peers.answer = ANSWER
    async with running(nats_server, 1, grace_s=600) as replicas:
        unit, gate = replicas.all[0].unit, Gate(peers, 5)
        bus = await Bus.connect(nats_server.url)
        reading = Reading(bus, request_id="r1")
        await reading.has_read(5)
        await bus._client.abandon()
        reading.task.cancel()
        peers.chunk_delay_s = 0.02
        peers.answer += " and more" * 2000
        gate.open()
        await until(lambda: unit._seats._kept)
        await replicas.client.publish(CANCEL, Nothing(), tenant="acme", request_id="r1")
        await until(lambda: not unit._flights.all and not len(unit._seats))
        await until(lambda: peers.cancelled)
        assert peers.cancelled == ["w1"], "it was stopped, and had not come to its end"


async def test_a_request_of_another_tenant_is_not_found(replicas: Replicas, peers: Scripted) -> None:
    """Whoever knows the id of a request, and where it is, sees nothing of it."""
    peers.answer = ANSWER
    one, gate = await replicas.add(), Gate(peers, 5)
    reading = Reading(replicas.client)
    await reading.has_read(5)
    for replica in ("", one.unit.service.id):
        body, request_id = Resume(last=4, replica=replica), reading.stream.request_id
        stream = await replicas.client.stream(RESUME, body, tenant="globex", request_id=request_id, next_seq=5)
        (stranger,) = [event for event in await events_of(stream) if not isinstance(event, Accepted)]
        assert (stranger.code, stranger.tokens_sent) == ("not_found", 5)
    gate.open()
    assert isinstance(await reading.end(), Done)
    assert (reading.text, len(peers.generated)) == (ANSWER, 1)


async def test_reasoning_is_read_on_from_its_flight_only(replicas: Replicas, peers: Scripted) -> None:
    peers.thinks = True
    reading, one, _ = await begun(replicas, peers)
    await one.die()
    failure = await reading.end()
    assert (failure.code, failure.tokens_sent, len(peers.generated)) == ("incomplete", 5, 1)


async def test_nobody_to_go_on_is_said_with_what_was_sent(replicas: Replicas, peers: Scripted) -> None:
    peers.answer = ANSWER
    one = await replicas.add()
    Gate(peers, 5)
    reading = Reading(replicas.client, resume_s=0.3)
    await reading.has_read(5)
    await one.die()
    failure = await reading.end()
    assert (failure.code, failure.tokens_sent) == ("incomplete", 5)


async def test_a_server_that_is_away_in_mid_stream_costs_a_pause_or_a_typed_error(
    nats_server: NatsServer, peers: Scripted
) -> None:
    """Whatever was under way when the connections broke, nothing comes twice, in disorder or with a gap."""
    peers.answer = ANSWER
    async with running(nats_server, 1, silence_s=1.0) as replicas:
        gate, reading = Gate(peers, 5), Reading(replicas.client)
        await reading.has_read(5)
        await nats_server.stop(kill=True)
        await until(lambda: not replicas.client.connected and not replicas.all[0].bus.connected)
        await nats_server.start()
        gate.open()
        last = await reading.end()
    assert ANSWER.startswith(reading.text)
    if isinstance(last, Failure):
        assert (last.tokens_sent, last.code in RETRYABLE) == (len(reading.chunks), True)
    else:
        assert reading.text == ANSWER
