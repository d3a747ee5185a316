"""Limits and draining: handlers overlap up to the limit, the line is first come first served, a drain loses nothing."""

import asyncio
from functools import partial
from typing import Any

from nats.aio.msg import Msg
from patience import until
from small_talk import ECHO, TELL, TICK, Company, Said, Say, Tell, Tick, echo, tell

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.limit import RETRY_AFTER_MS, Limit
from hasten.messages.chat import CANCEL, Done, Nothing, Ping
from hasten.messages.failure import Failure
from hasten.nats_server import NatsServer
from hasten.service import Call, Service


class Gate:
    """A handler that holds everyone until it is opened, and counts how many were in at once."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.inside = self.most = 0
        self.order: list[str] = []

    async def handle(self, say: Say, _: Call) -> Said:
        self.order.append(say.text)
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await self.open.wait()
        finally:
            self.inside -= 1
        return Said(text=say.text)


def ask(bus: Bus, text: str = "", **options: Any) -> asyncio.Task[Any]:
    wait_s = options.pop("wait_s", 0.0)
    return asyncio.create_task(bus.request(ECHO, Say(text=text, wait_s=wait_s), tenant="acme", **options))


def longer(replies: list[Any], count: int) -> bool:
    return len(replies) > count


def failed(replies: list[Any]) -> bool:
    return isinstance(replies[-1], Failure)


async def test_handlers_overlap_up_to_the_limit(bus: Bus, company: Company) -> None:
    gate = Gate()
    await company.hear(ECHO, gate.handle, limit=10, waiting=10)
    asked = [ask(bus, str(number)) for number in range(20)]
    await until(lambda: gate.inside == 10)
    gate.open.set()
    assert [reply.text for reply in await asyncio.gather(*asked)] == [str(number) for number in range(20)]
    assert gate.most == 10


async def test_a_full_limit_says_so_at_once(bus: Bus, company: Company) -> None:
    gate = Gate()
    await company.hear(ECHO, gate.handle, limit=2)
    inside = [ask(bus) for _ in range(2)]
    await until(lambda: gate.inside == 2)
    refused = await ask(bus)
    assert isinstance(refused, Failure)
    assert refused.code == "overloaded"
    assert refused.retry_after_ms
    gate.open.set()
    assert [reply.text for reply in await asyncio.gather(*inside)] == ["", ""]
    assert isinstance(await ask(bus), Said), "a place is free again"


async def test_the_line_is_first_come_first_served(bus: Bus, company: Company) -> None:
    gate = Gate()
    service = await company.hear(ECHO, gate.handle, limit=1, waiting=30)
    asked = []
    for number in range(31):
        asked.append(ask(bus, str(number)))
        await until(lambda: service.active == len(asked))
    assert (await ask(bus)).code == "overloaded"
    gate.open.set()
    await asyncio.gather(*asked)
    assert gate.order == [str(number) for number in range(31)]


async def test_tenants_take_turns_in_the_line_and_none_can_fill_it(bus: Bus, company: Company) -> None:
    gate = Gate()
    service = await company.hear(ECHO, gate.handle, limit=1, waiting=20, share=0.5)
    asked = [ask(bus, "first")]
    await until(lambda: gate.inside == 1)
    for number in range(10):
        asked.append(ask(bus, f"greedy{number}"))
        await until(lambda: service.active == len(asked))
    assert (await ask(bus, "greedy10")).code == "overloaded"
    other = asyncio.create_task(bus.request(ECHO, Say(text="other"), tenant="other"))
    await until(lambda: service.active == len(asked) + 1)
    gate.open.set()
    await asyncio.gather(other, *asked)
    assert gate.order.index("other") <= 2
    assert len(gate.order) == 12


async def test_who_is_refused_hears_when_a_place_comes_free_each_another_time() -> None:
    """The advice is measured, and who comes back does not meet all the others."""
    limit = Limit(4)
    assert limit.retry_after_ms() == RETRY_AFTER_MS
    async with limit.place():
        await asyncio.sleep(0.08)
    advice = [limit.retry_after_ms() for _ in range(8)]
    assert advice[0] >= 80 // 4
    assert advice[0] < advice[1] < advice[2] < advice[3]
    assert advice[7] <= advice[3] + 1, "nobody is sent away for longer than all who are here take"


async def test_who_gives_up_in_the_line_takes_no_place(bus: Bus, company: Company) -> None:
    """What has expired is not begun."""
    gate = Gate()
    service = await company.hear(ECHO, gate.handle, limit=1, waiting=10)
    first = ask(bus, "first")
    await until(lambda: gate.inside == 1)
    late = [ask(bus, f"late{number}", deadline_ms=now_ms() + 200) for number in range(5)]
    patient = ask(bus, "patient")
    assert {reply.code for reply in await asyncio.gather(*late)} == {"deadline"}
    await until(lambda: service.active == 2)
    gate.open.set()
    assert (await first).text == "first"
    assert (await patient).text == "patient"
    assert gate.order == ["first", "patient"]


async def test_places_are_given_back_whatever_happens(bus: Bus, company: Company) -> None:
    async def handle(say: Say, call: Call) -> Said:
        await asyncio.sleep(int(say.text) % 3 * 0.01)
        if int(say.text) % 4 == 0:
            raise ValueError("no")
        return Said(text=say.text)

    service = await company.hear(ECHO, handle, limit=3, waiting=100)
    deadlines = [now_ms() + (15 if number % 5 == 0 else 30_000) for number in range(90)]
    await asyncio.gather(*(ask(bus, str(number), deadline_ms=deadlines[number]) for number in range(90)))
    await until(lambda: service.active == 0)
    assert [reply.text for reply in await asyncio.gather(*(ask(bus, "1") for _ in range(3)))] == ["1"] * 3


async def test_a_drain_finishes_what_was_accepted(bus: Bus, company: Company) -> None:
    """Those in hand and those in the line."""
    service = await company.hear(ECHO, echo, limit=2, waiting=10)
    asked = [ask(bus, str(number), wait_s=0.1) for number in range(6)]
    await until(lambda: service.active == 6)
    await service.drain()
    assert service.active == 0
    assert all(task.done() for task in asked) or [await task for task in asked]
    assert [(await task).text for task in asked] == [str(number) for number in range(6)]
    gone = await ask(bus)
    assert gone.code == "unavailable"


async def test_a_drain_under_load_loses_no_request(nats_server: NatsServer, bus: Bus, company: Company) -> None:
    """Whatever the server sent us before it knew that we leave has to be answered as well."""
    client = await Bus.connect(nats_server.url)
    for _ in range(5):
        own = await Bus.connect(nats_server.url)
        service = Service(own, "leaver", "Leaves under load.")
        service.answer(ECHO, echo, limit=10_000)
        await service.start()
        replies: list[Any] = []
        stop = asyncio.Event()

        async def keep_asking(replies: list[Any] = replies, stop: asyncio.Event = stop) -> None:
            while not stop.is_set():
                replies.append(await client.request(ECHO, Say(), deadline_ms=now_ms() + 15_000, tenant="acme"))

        asking = [asyncio.create_task(keep_asking()) for _ in range(50)]
        await until(partial(longer, replies, 300))
        await service.drain()
        await until(partial(failed, replies))
        stop.set()
        await asyncio.gather(*asking)
        codes = {reply.code for reply in replies if isinstance(reply, Failure)}
        assert codes == {"unavailable"}, "a request was dropped in the drain"
        await own.close()
    await client.close()


async def test_a_flush_is_behind_what_is_pending(nats_server: NatsServer) -> None:
    """Else a drain could be over before the server has read its UNSUB, and what comes in between would be dropped."""
    said = bytearray()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", nats_server.port)

        async def back() -> None:
            while data := await server_reader.read(65536):
                writer.write(data)
            writer.close()

        answering = asyncio.create_task(back())
        while data := await reader.read(65536):
            said.extend(data)
            server_writer.write(data)
        server_writer.close()
        await answering

    async def ignore(_: Msg) -> None:
        return None

    async with await asyncio.start_server(relay, "127.0.0.1", 0) as between:
        own = await Bus.connect(f"nats://127.0.0.1:{between.sockets[0].getsockname()[1]}")
        subscription = await own.subscribe("some.words", ignore)
        await own.flush()
        assert said.rindex(b"PING") > said.rindex(b"SUB some.words")
        await subscription.drain()  # type: ignore[no-untyped-call]
        assert said.rindex(b"PING") > said.rindex(b"UNSUB")
        await own.close()


async def test_a_drain_hands_over_to_another_replica(nats_server: NatsServer, bus: Bus, company: Company) -> None:
    other = await Bus.connect(nats_server.url)
    leaving = await company.hear(ECHO, echo, limit=1000)
    await company.hear(ECHO, echo, bus=other, limit=1000)
    replies = []

    async def keep_asking() -> None:
        while not leaving.draining or leaving.active:
            replies.append(await ask(bus, "x"))

    asking = [asyncio.create_task(keep_asking()) for _ in range(20)]
    await until(lambda: len(replies) > 100)
    await leaving.drain()
    await asyncio.gather(*asking)
    assert {type(reply) for reply in replies} == {Said}
    await other.close()


async def test_streams_are_read_to_their_end_in_a_drain(bus: Bus, company: Company) -> None:
    begin = asyncio.Event()

    async def held(body: Tell, call: Call) -> None:
        await begin.wait()
        await tell(body, call)

    service = await company.hear(TELL, held)
    streams = [await bus.stream(TELL, Tell(count=40, pause_s=0.01), tenant="acme") for _ in range(10)]
    await until(lambda: service.active == 10)
    draining = asyncio.create_task(service.drain())
    begin.set()
    for stream in streams:
        *_, last = [event async for event in stream if not isinstance(event, Ping)]
        assert last == Done(finish_reason="stop", chunks=40)
    await draining


async def test_a_drain_still_hears_events_and_cancels(bus: Bus, company: Company) -> None:
    """What was accepted is finished with everything that it may need to know."""
    heard: list[int] = []
    service = Service(bus, "both", "Answers and listens.")
    service.answer(TELL, tell, limit=2)
    service.listen(TICK, lambda tick, _: heard.append(tick.number))
    await service.start()
    stream = await bus.stream(TELL, Tell(count=100_000, pause_s=0.01), tenant="acme", request_id="r")
    await until(lambda: service.active == 1)
    draining = asyncio.create_task(service.drain())
    await until(lambda: service.draining)
    await asyncio.sleep(0.2)
    await bus.publish(TICK, Tick(number=7), tenant="acme")
    await until(lambda: heard == [7])
    await bus.publish(CANCEL, Nothing(), tenant="acme", request_id="r")
    await draining
    *_, last = [event async for event in stream]
    assert last.code == "cancelled"


async def test_a_drain_has_an_end(bus: Bus, company: Company) -> None:
    gate = Gate()
    service = await company.hear(ECHO, gate.handle)
    asked = ask(bus)
    await until(lambda: gate.inside == 1)
    await service.drain(timeout_s=0.1)
    assert not asked.done()
    await service.close()
    assert (await asked).code in ("draining", "cancelled")


async def test_closing_answers_everyone(bus: Bus, company: Company) -> None:
    gate = Gate()
    service = await company.hear(ECHO, gate.handle, limit=3, waiting=5)
    asked = [ask(bus, deadline_ms=now_ms() + 20_000) for _ in range(8)]
    await until(lambda: service.active == 8)
    await service.close()
    assert {reply.code for reply in await asyncio.gather(*asked)} == {"draining"}
    streaming = await company.hear(TELL, tell)
    stream = await bus.stream(TELL, Tell(count=1000, pause_s=0.01), tenant="acme")
    await until(lambda: streaming.active == 1)
    await streaming.close()
    *_, last = [event async for event in stream]
    assert last.code == "draining"
    assert bus.outstanding == 0
