"""One request, one reply: whatever is sent and whatever the handler does, there is one answer in time."""

import asyncio
import logging
import time
from typing import Any

import msgspec
import pytest
from nats.aio.msg import Msg
from patience import until
from small_talk import ECHO, TICK, Company, Said, Say, Tick, ask, echo, raw

from hasten.bus import Bus
from hasten.deadline import DEADLINE, REQUEST_ID, now_ms
from hasten.messages.chat import CANCEL, STOP, Nothing
from hasten.messages.failure import Failed, Failure
from hasten.nats_server import NatsServer
from hasten.service import Call

CANARY = "NO00-1234-5678-901"


async def test_a_request_is_answered(bus: Bus, company: Company) -> None:
    await company.hear(ECHO, echo)
    assert await ask(bus, "hello") == Said(text="hello")
    assert await raw(bus, b'{"text":"plain"}') == {"type": "said", "text": "plain"}
    assert await raw(bus, b"") == {"type": "said"}, "an empty body is an empty object"


async def test_a_handler_knows_who_asks_and_until_when(bus: Bus, company: Company) -> None:
    seen: list[tuple[str, str, float]] = []

    async def look(_: Say, call: Call) -> Said:
        seen.append((call.tenant, call.request_id, call.deadline_ms))
        return Said()

    await company.hear(ECHO, look)
    deadline = float(int(now_ms() + 5000))
    await ask(bus, request_id="r-1", deadline_ms=deadline)
    await ask(bus)
    assert seen[0] == ("acme", "r-1", deadline)
    assert seen[1][1] != "r-1"
    assert seen[1][2] > now_ms() + 10_000


async def test_a_queue_group_answers_once_and_shares_the_work(
    nats_server: NatsServer, bus: Bus, company: Company
) -> None:
    heard: list[str] = []
    other = await Bus.connect(nats_server.url)
    for name, own in (("one", bus), ("two", other)):

        async def handle(say: Say, _: Call, name: str = name) -> Said:
            heard.append(say.text)
            return Said(text=say.text, by=name)

        await company.hear(ECHO, handle, bus=own)
    replies = await asyncio.gather(*(ask(bus, str(number)) for number in range(100)))
    assert sorted(heard, key=int) == [str(number) for number in range(100)]
    assert {reply.by for reply in replies} == {"one", "two"}
    await other.close()


async def test_an_event_reaches_every_listener(bus: Bus, company: Company) -> None:
    heard: list[tuple[str, int, str]] = []
    for name in ("one", "two"):

        def listen(tick: Tick, tokens: dict[str, str], name: str = name) -> None:
            heard.append((name, tick.number, tokens["tenant"]))

        await company.listen(TICK, listen)
    for number in range(20):
        await bus.publish(TICK, Tick(number=number), tenant="acme")
    await until(lambda: len(heard) == 40)
    for name in ("one", "two"):
        assert [number for who, number, _ in heard if who == name] == list(range(20))


async def test_a_listener_survives_a_bad_event_and_its_own_failure(
    bus: Bus, company: Company, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[int] = []

    def listen(tick: Tick, _: dict[str, str]) -> None:
        if tick.number == 1:
            raise ValueError(CANARY)
        heard.append(tick.number)

    await company.listen(TICK, listen)
    with caplog.at_level(logging.DEBUG):
        await bus.client.publish("hasten.v1.tick.acme", f'{{"number":"{CANARY}"}}'.encode())
        await bus.publish(TICK, Tick(number=1), tenant="acme")
        await bus.client.publish("hasten.v1.tick.UPPER", b"{}")
        await bus.publish(TICK, Tick(number=2), tenant="acme")
        await until(lambda: heard == [2])
    assert CANARY not in caplog.text


async def test_nobody_there_and_nobody_in_time_are_different(bus: Bus, company: Company) -> None:
    started = time.monotonic()
    nobody = await ask(bus, deadline_ms=now_ms() + 60_000)
    assert (nobody.code, nobody.retry_after_ms) == ("unavailable", 1000)
    assert time.monotonic() - started < 30, "no waiting for the deadline"
    await company.hear(ECHO, echo)
    late = await ask(bus, wait_s=30, deadline_ms=now_ms() + 200)
    assert late.code == "deadline"


async def test_a_slow_handler_is_stopped_at_the_deadline_and_says_so(bus: Bus, company: Company) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def slow(_: Say, call: Call) -> Said:
        assert 0 < call.remaining_s() <= most_ms / 1000
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()
        return Said()

    await company.hear(ECHO, slow)
    for most_ms in (300, 3000, 12_000):
        answer = await raw(bus, b"{}", headers={DEADLINE: str(int(now_ms() + most_ms))})
        assert answer["code"] == "deadline"
        if begun.is_set():
            break
    assert stopped.is_set()


async def test_an_expired_request_never_reaches_the_handler(bus: Bus, company: Company) -> None:
    heard: list[Say] = []

    async def handle(say: Say, _: Call) -> Said:
        heard.append(say)
        return Said()

    await company.hear(ECHO, handle)
    answer = await raw(bus, b"{}", headers={DEADLINE: str(int(now_ms() - 1))})
    assert answer["code"] == "deadline"
    assert (await ask(bus, deadline_ms=now_ms() - 5000)).code == "deadline"
    await bus.flush()
    assert heard == []


@pytest.mark.parametrize("deadline", ["soon", "nan", "inf", "-inf", "", "1e400", "0x10"])
async def test_a_deadline_that_is_none_is_refused(bus: Bus, company: Company, deadline: str) -> None:
    await company.hear(ECHO, echo)
    answer = await raw(bus, b"{}", headers={DEADLINE: deadline})
    assert (answer["code"], answer["param"]) == ("bad_request", DEADLINE)


async def test_a_deadline_in_a_thousand_years_is_no_harm(bus: Bus, company: Company) -> None:
    await company.hear(ECHO, echo)
    assert (await raw(bus, b"{}", headers={DEADLINE: "9" * 30}))["type"] == "said"


async def test_a_handler_that_raises_answers_internal_and_quotes_nothing(
    bus: Bus, company: Company, caplog: pytest.LogCaptureFixture
) -> None:

    async def broken(say: Say, _: Call) -> Said:
        try:
            raise KeyError(f"inner {say.text}")
        except KeyError as error:
            raise ValueError(f"cannot handle {say.text}") from error

    await company.hear(ECHO, broken)
    with caplog.at_level(logging.DEBUG):
        answer = await ask(bus, CANARY)
    assert answer.code == "internal"
    assert CANARY not in msgspec.json.encode(answer).decode()
    assert CANARY not in caplog.text
    assert "test-echo: handling echo failed" in caplog.text
    assert "ValueError" in caplog.text
    assert (await ask(bus)).code == "internal", "the subscription goes on"


async def test_a_failure_that_a_handler_raises_is_the_answer(bus: Bus, company: Company) -> None:
    async def refuse(_: Say, __: Call) -> Said:
        raise Failed("not_found", "there is none", param="text", retry_after_ms=7)

    await company.hear(ECHO, refuse)
    assert await ask(bus) == Failure(code="not_found", detail="there is none", param="text", retry_after_ms=7)


async def test_a_timeout_inside_a_handler_is_not_the_requests_deadline(bus: Bus, company: Company) -> None:
    async def impatient(_: Say, __: Call) -> Said:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(1)
        return Said()

    await company.hear(ECHO, impatient)
    assert (await ask(bus)).code == "internal"


@pytest.mark.parametrize("reply", [object(), {1, object()}, None, "text"])
async def test_a_reply_that_cannot_be_sent_is_a_failure_and_not_silence(bus: Bus, company: Company, reply: Any) -> None:
    async def odd(_: Say, __: Call) -> Any:
        return reply

    await company.hear(ECHO, odd)
    assert (await ask(bus, deadline_ms=now_ms() + 20_000)).code == "internal"


async def test_a_reply_of_another_kind_is_refused(bus: Bus) -> None:
    """What a JetStream stream that captured the subject answers with, and other odd replies."""
    for body in (b'{"stream":"S","seq":1}', b'{"type":"else"}', b"", b"+ACK", b'{"type":"said","text":5}'):

        async def answer(msg: Any, body: bytes = body) -> None:
            await msg.respond(body)

        subscription = await bus.subscribe("hasten.v1.echo.acme", answer)
        await bus.flush()
        assert (await ask(bus)).code == "internal", body
        await subscription.unsubscribe()


async def test_nothing_is_left_of_requests_that_were_never_answered(bus: Bus) -> None:
    """2,000 at once to a responder that takes and drops them."""

    async def drop(_: Any) -> None:
        return None

    await bus.subscribe("hasten.v1.echo.*", drop)
    await bus.flush()
    deadline = now_ms() + 500
    replies = await asyncio.gather(*(ask(bus, deadline_ms=deadline) for _ in range(2000)))
    assert {reply.code for reply in replies} == {"deadline"}
    assert bus.outstanding == 0


async def test_nothing_is_left_of_a_request_whose_caller_went_away(bus: Bus, company: Company) -> None:
    service = await company.hear(ECHO, echo)
    asking = asyncio.create_task(ask(bus, wait_s=60))
    await until(lambda: service.active == 1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert bus.outstanding == 0
    await until(lambda: service.active == 0)


async def test_only_those_who_may_have_a_request_are_told_that_it_was_left(bus: Bus, company: Company) -> None:
    """A hit by meaning leaves its other stages: that must not wake every process there is."""
    told: list[str] = []

    async def listen(msg: Msg) -> None:
        told.append(msg.subject)

    service = await company.hear(ECHO, echo)
    for topic in (CANCEL, STOP):
        await bus.subscribe(topic.pattern, listen)
    asking = asyncio.create_task(ask(bus, wait_s=60, request_id="r1"))
    await until(lambda: service.active == 1)
    asking.cancel()
    await until(lambda: service.active == 0)
    stop = STOP.subject(hearer="echo", tenant="acme", request_id="r1")
    last = CANCEL.subject(tenant="acme", request_id="r2")
    await bus.publish(CANCEL, Nothing(), tenant="acme", request_id="r2")
    await until(lambda: {stop, last} <= set(told))
    assert sorted(told) == sorted([stop, last])


@pytest.mark.parametrize("request_id", ["a b", "a\r\nX: y", "a.b", "*", "", "x" * 65, "ünï"])
async def test_a_request_id_that_may_not_be_in_a_subject_is_refused(
    bus: Bus, company: Company, request_id: str
) -> None:
    await company.hear(ECHO, echo)
    if request_id:
        with pytest.raises(ValueError, match="request id"):
            await ask(bus, request_id=request_id)
    if request_id and "\r" not in request_id and request_id.isascii():
        answer = await raw(bus, b"{}", headers={REQUEST_ID: request_id})
        assert (answer["code"], "request id" in answer["detail"]) == ("bad_request", True)
    assert bus.outstanding == 0
