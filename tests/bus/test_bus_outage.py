"""The server goes away and comes back: every request and stream ends with an answer or one typed error."""

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

import pytest
from patience import until
from small_talk import ECHO, TELL, Company, Said, Say, Tell, echo, tell

from hasten.bus import Bus, Unreachable
from hasten.deadline import now_ms
from hasten.messages.chat import Chunk, Done, Ping
from hasten.messages.failure import RETRYABLE, Failed, Failure
from hasten.nats_server import NatsServer, free_port
from hasten.outage import LATE_REPLY_S
from hasten.service import Call


async def restart(server: NatsServer, down_s: float) -> None:
    await server.stop(kill=True)
    await asyncio.sleep(down_s)
    await server.start()


async def test_no_server_is_one_sentence_without_the_password() -> None:
    with pytest.raises(Unreachable) as caught:
        await Bus.connect(f"nats://user:secret@127.0.0.1:{free_port()}", timeout_s=0.5)
    assert "no NATS server answers at" in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_no_server_is_said_also_when_the_refusal_and_the_end_of_the_patience_meet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then asyncio.wait_for, with which nats-py waits, answers the cancellation with the refusal."""

    async def refuse(*_: Any, **__: Any) -> None:
        time.sleep(0.2)  # noqa: ASYNC251  the loop stands still until both are due
        raise ConnectionRefusedError

    monkeypatch.setattr(asyncio, "open_connection", refuse)
    with pytest.raises(Unreachable, match="no NATS server answers at"):
        await Bus.connect("nats://127.0.0.1:4222", timeout_s=0.1)


async def half_a_server(greeting: bytes) -> tuple[asyncio.Server, asyncio.Event, str]:
    """A server that greets, answers one PING and is silent then; the event says that its client has hung up."""
    hung_up = asyncio.Event()
    pongs = [b"PONG\r\n"]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        while line := await reader.readline():
            if line == b"PING\r\n" and pongs:
                writer.write(pongs.pop())
        writer.close()
        hung_up.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, hung_up, f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("greeting", [b"", b'INFO {"server_id":"x","max_payload":1048576,"headers":true}\r\n'])
async def test_a_server_that_falls_silent_is_unreachable_and_left(greeting: bytes) -> None:
    """Before it has greeted, or between the connection and the first flush."""
    server, hung_up, url = await half_a_server(greeting)
    with pytest.raises(Unreachable, match="no NATS server answers at"):
        await Bus.connect(url, timeout_s=0.5)
    await asyncio.wait_for(hung_up.wait(), 20)
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("down_s", [0.0, 1.0])
async def test_a_stream_through_an_outage_has_no_gap_or_one_error(
    nats_server: NatsServer, bus: Bus, company: Company, down_s: float
) -> None:
    sender_bus = await Bus.connect(nats_server.url)
    service = await company.hear(TELL, tell, bus=sender_bus)
    streams = [await bus.stream(TELL, Tell(count=200, pause_s=0.005), tenant="acme", idle_s=3) for _ in range(10)]
    await asyncio.sleep(0.2)
    restarting = asyncio.create_task(restart(nats_server, down_s))
    for stream in streams:
        events = [event async for event in stream if not isinstance(event, Ping)]
        seen = [event.seq for event in events if isinstance(event, Chunk)]
        assert seen == list(range(len(seen)))
        ends = [event for event in events if isinstance(event, Done | Failure)]
        assert len(ends) == 1
        assert len(seen) == 200 if isinstance(ends[0], Done) else ends[0].code in RETRYABLE
        if isinstance(ends[0], Failure):
            assert ends[0].tokens_sent == len(seen)
    await restarting
    await until(lambda: service.active == 0)
    await until(lambda: sender_bus.outstanding == 0 and bus.outstanding == 0)
    assert isinstance((await _whole(bus))[-1], Done), "and then all is as before"
    await sender_bus.close()


async def _whole(bus: Bus) -> list[Any]:
    events: list[Any] = []
    async with asyncio.timeout(20):
        while not events or (isinstance(events[-1], Failure) and events[-1].code == "unavailable"):
            events = [event async for event in await bus.stream(TELL, Tell(), tenant="acme")]
    return events


async def test_requests_through_an_outage_end_and_later_ones_are_answered(
    nats_server: NatsServer, bus: Bus, company: Company
) -> None:
    service_bus = await Bus.connect(nats_server.url)
    await company.hear(ECHO, echo, bus=service_bus, limit=1000)
    deadline = now_ms() + 3000
    asked = [
        asyncio.create_task(bus.request(ECHO, Say(wait_s=0.3), deadline_ms=deadline, tenant="acme")) for _ in range(100)
    ]
    await asyncio.sleep(0.1)
    await restart(nats_server, 0.5)
    replies = await asyncio.gather(*asked)
    assert {type(reply) for reply in replies} <= {Said, Failure}
    assert {reply.code for reply in replies if isinstance(reply, Failure)} <= {
        "deadline",
        "unavailable",
        "disconnected",
    }
    assert bus.outstanding == 0
    await until(lambda: bus.connected and service_bus.connected)
    async with asyncio.timeout(20):
        while not isinstance(await bus.request(ECHO, Say(), tenant="acme"), Said):
            await asyncio.sleep(0.05)
    await service_bus.close()


async def test_a_request_that_an_outage_has_swallowed_does_not_wait_for_its_deadline(
    nats_server: NatsServer, bus: Bus, company: Company
) -> None:
    """What was sent before and is answered soon after, or was sent in the outage, is not given up."""
    service_bus = await Bus.connect(nats_server.url)
    await company.hear(ECHO, echo, bus=service_bus)
    lost = asyncio.create_task(bus.request(ECHO, Say(wait_s=50), deadline_ms=now_ms() + 60_000, tenant="acme"))
    await until(lambda: bus.outstanding == 1)
    await bus.flush()
    await nats_server.stop(kill=True)
    await until(lambda: not bus.connected)
    late = LATE_REPLY_S + 1
    waits = asyncio.create_task(bus.request(ECHO, Say(wait_s=late), deadline_ms=now_ms() + 60_000, tenant="acme"))
    await until(lambda: not service_bus.connected)
    await nats_server.start()
    async with asyncio.timeout(30):
        failure = await lost
        assert (failure.code, failure.retry_after_ms) == ("disconnected", 1000)
        assert not isinstance(await waits, Failure) or (await waits).code == "unavailable"
    assert bus.outstanding == 0
    await service_bus.close()


async def test_a_reply_that_comes_after_the_reconnect_is_taken(
    nats_server: NatsServer, bus: Bus, company: Company
) -> None:
    release = asyncio.Event()

    async def held(say: Say, _: Call) -> Said:
        await release.wait()
        return Said(text=say.text)

    service = await company.hear(ECHO, held)
    asked = asyncio.create_task(bus.request(ECHO, Say(text="x"), deadline_ms=now_ms() + 60_000, tenant="acme"))
    await until(lambda: service.active == 1)
    await nats_server.stop(kill=True)
    await until(lambda: not bus.connected)
    await nats_server.start()
    await until(lambda: bus.connected)
    release.set()
    assert await asked == Said(text="x")


async def test_what_is_asked_during_an_outage_is_answered_after_it(
    nats_server: NatsServer, bus: Bus, company: Company
) -> None:
    await company.hear(ECHO, echo)
    await nats_server.stop(kill=True)
    await until(lambda: not bus.connected)
    asked = asyncio.create_task(bus.request(ECHO, Say(text="x"), deadline_ms=now_ms() + 20_000, tenant="acme"))
    short = await bus.request(ECHO, Say(text="x"), deadline_ms=now_ms() + 100, tenant="acme")
    assert short.code == "deadline"
    await nats_server.start()
    assert await asked == Said(text="x")


async def test_what_nobody_is_back_to_answer_is_asked_again(
    nats_server: NatsServer, bus: Bus, company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hasten.outage.LATE_REPLY_S", 60.0)
    await nats_server.stop(kill=True)
    await until(lambda: not bus.connected)
    asked = asyncio.create_task(bus.request(ECHO, Say(text="x"), deadline_ms=now_ms() + 60_000, tenant="acme"))
    await nats_server.start()
    await until(lambda: bus.connected)
    await bus.flush()
    assert bus.unsettled
    assert not asked.done(), "that nobody is there was said before the answer to the flush"
    await company.hear(ECHO, echo)
    assert await asked == Said(text="x")


async def test_closing_without_a_server_says_what_was_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = await NatsServer(tmp_path / "own").start()
    bus = await Bus.connect(server.url)
    await server.stop(kill=True)
    await until(lambda: not bus.connected)
    for _ in range(1000):
        await bus.client.publish("hasten.v1.tick.acme", b"{}")
    with caplog.at_level(logging.ERROR):
        assert await bus.close() >= 1000 * len("PUB hasten.v1.tick.acme 2 {}")
    assert "never reached the server" in caplog.text


async def test_a_closed_bus_fails_and_does_not_hang(nats_server: NatsServer) -> None:
    bus = await Bus.connect(nats_server.url)
    await bus.close()
    assert (await bus.request(ECHO, Say(), tenant="acme")).code == "disconnected"
    with pytest.raises(Failed, match="disconnected"):
        await bus.stream(TELL, Tell(), tenant="acme")
    assert bus.outstanding == 0
