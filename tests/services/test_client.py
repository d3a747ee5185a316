"""The Python client against real services on a real server."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from hasten.answered import Answered
from hasten.bus import Bus, Unreachable
from hasten.client import Hasten
from hasten.journal import ensure_stream
from hasten.messages.cache import INVALIDATE, Invalidate, Invalidation
from hasten.messages.change import CHANGE, Change
from hasten.messages.chat import CHAT, Accepted, ChatRequest, Chunk, Done, Note
from hasten.messages.failure import Failed, Failure
from hasten.messages.retrieve import DOCUMENT, INGESTED, Document, Ingested
from hasten.messages.route import MODELS, ModelInfo, ModelList, Models
from hasten.nats_server import NatsServer, free_port
from hasten.service import Call, Service
from hasten.topics import BadName


class Stub:
    """An orchestrator that echoes words, waits for ever when asked to, and remembers what was stopped."""

    def __init__(self, bus: Bus) -> None:
        self.requests: list[ChatRequest] = []
        self.stopped = asyncio.Event()
        self.service = Service(bus, "orchestrator", "for tests")
        self.service.answer(CHAT, self._chat, limit=10)
        self.service.answer(MODELS, self._models, limit=10)
        self.service.answer(INVALIDATE, self._invalidate, limit=10)

    async def _chat(self, request: ChatRequest, call: Call) -> None:
        try:
            await self._answer(request, call)
        except asyncio.CancelledError:
            self.stopped.set()
            raise

    async def _answer(self, request: ChatRequest, call: Call) -> None:
        self.requests.append(request)
        words = request.messages[-1].text.split()
        await call.send(Note(kind="cache", data={"hit": None}))
        for at, word in enumerate(words):
            await call.send(Chunk(seq=at, text=f"{word} "))
        if words[0] == "fail":
            raise Failed("overloaded", "try later", retry_after_ms=5)
        if words[0] == "wait":
            await asyncio.sleep(60)
        await call.send(Done(finish_reason="stop", chunks=len(words), cache="miss", model="echo"))

    async def _models(self, _: Models, __: Call) -> ModelList:
        return ModelList(models=[ModelInfo(name="echo", slug="echo")])

    async def _invalidate(self, what: Invalidate, _: Call) -> Invalidation | Failure:
        return Invalidation(entries=3) if what.tags else Failure(code="bad_request", detail="nothing named")


@pytest_asyncio.fixture
async def stub(bus: Bus) -> AsyncIterator[Stub]:
    made = Stub(bus)
    await made.service.start()
    yield made
    await made.service.drain(5)
    await made.service.close()


@pytest_asyncio.fixture
async def hasten(nats_server: NatsServer, stub: Stub) -> AsyncIterator[Hasten]:
    async with Hasten.connect(nats_server.url, tenant="acme") as made:
        yield made


async def test_events_come_in_order_and_end_with_done(hasten: Hasten) -> None:
    events = [event async for event in hasten.chat("one two three")]
    assert isinstance(events[0], Accepted)
    assert [event.text for event in events if isinstance(event, Chunk)] == ["one ", "two ", "three "]
    assert isinstance(events[-1], Done)


async def test_ask_gathers_the_answer(hasten: Hasten) -> None:
    answered = await hasten.ask("one two", knowledge=["help"])
    assert (answered.text, answered.cache, answered.model, answered.chunks) == ("one two ", "miss", "echo", 2)
    assert answered.notes == {"cache": {"hit": None}}
    assert answered.ttft_ms is not None
    assert 0 < answered.ttft_ms <= answered.total_ms


async def test_messages_bodies_and_options_reach_the_service(hasten: Hasten, stub: Stub) -> None:
    turns = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    await hasten.ask(turns, model="fast", top_k=3)
    await hasten.ask({"messages": turns, "seed": 4})
    assert stub.requests[0].model == "fast"
    assert stub.requests[0].extra == {"top_k": 3}
    assert stub.requests[1].seed == 4
    assert [turn.role for turn in stub.requests[1].messages] == ["system", "user"]


async def test_a_failure_is_raised_with_its_code(hasten: Hasten) -> None:
    with pytest.raises(Failed) as raised:
        await hasten.ask("fail now")
    assert raised.value.failure.code == "overloaded"
    assert raised.value.failure.retry_after_ms == 5


async def test_leaving_the_loop_stops_the_generation(hasten: Hasten, stub: Stub) -> None:
    async for event in hasten.chat("wait here"):
        if isinstance(event, Chunk):
            break
    await asyncio.wait_for(stub.stopped.wait(), 20)
    assert len(stub.requests) == 1


async def test_cancelling_the_task_stops_the_generation(hasten: Hasten, stub: Stub) -> None:
    task = asyncio.create_task(hasten.ask("wait here"))
    while not stub.requests:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(stub.stopped.wait(), 20)


async def test_a_finished_answer_cancels_nothing(hasten: Hasten, stub: Stub, bus: Bus) -> None:
    heard = []

    async def on_cancel(msg: object) -> None:
        heard.append(msg)

    await bus.subscribe("hasten.v1.cancel.>", on_cancel)
    await bus.flush()
    await hasten.ask("one two")
    async for event in hasten.chat("one"):
        if isinstance(event, Done):
            break
    await hasten.bus.flush()
    await bus.flush()
    assert heard == []


async def test_an_answer_that_is_left_is_cancelled_once(hasten: Hasten, stub: Stub, bus: Bus) -> None:
    heard = []

    async def on_cancel(msg: object) -> None:
        heard.append(msg)

    await bus.subscribe("hasten.v1.cancel.>", on_cancel)
    await bus.flush()
    events = hasten.chat("wait here")
    await anext(events)
    del events
    await asyncio.wait_for(stub.stopped.wait(), 20)
    await hasten.bus.flush()
    await bus.flush()
    assert len(heard) == 1


async def test_nobody_there_is_an_answer_not_a_silence(nats_server: NatsServer) -> None:
    async with Hasten.connect(nats_server.url) as hasten:
        with pytest.raises(Failed) as raised:
            await hasten.ask("hello?")
        assert raised.value.failure.code == "unavailable"
        assert await hasten.services() == []


async def test_no_server_is_one_sentence() -> None:
    with pytest.raises(Unreachable, match="no NATS server answers at"):
        async with Hasten.connect(f"nats://user:hush@127.0.0.1:{free_port()}"):
            pass


@pytest.mark.parametrize("tenant", ["", "a.b", "A", "a b", "a>", "a\r\nPUB x 1\r\ny", "x" * 65])
async def test_a_bad_tenant_is_refused_before_the_server_sees_it(nats_server: NatsServer, tenant: str) -> None:
    with pytest.raises(BadName):
        async with Hasten.connect(nats_server.url, tenant=tenant):
            pass


async def test_services_models_and_invalidation(hasten: Hasten) -> None:
    (running,) = await hasten.services()
    assert running.name == "orchestrator"
    assert running.report["draining"] is False
    assert [model.name for model in await hasten.models()] == ["echo"]
    assert (await hasten.invalidate(Invalidate(tags=["prices:7"]))).entries == 3
    with pytest.raises(Failed, match="nothing named"):
        await hasten.invalidate(Invalidate())


async def test_ingest_returns_when_the_document_is_applied(hasten: Hasten, bus: Bus) -> None:
    """Whether the word that it was applied comes after the store was acknowledged or before."""
    await ensure_stream(bus)

    async def retriever(msg: object) -> None:
        sequence = 1 + len(applied)
        applied.append(sequence)
        error = "the text is empty" if sequence == 3 else None
        event = Ingested(collection="help", id="a", sequence=sequence, chunks=1, error=error)
        await bus.publish(INGESTED, event, tenant="acme")

    applied: list[int] = []
    await bus.subscribe(DOCUMENT.subject(tenant="acme", collection="help"), retriever)
    await bus.flush()
    done = await asyncio.gather(*(hasten.ingest("help", Document(id="a", text="x")) for _ in range(2)))
    assert [one.sequence for one in done] == [1, 2]
    with pytest.raises(Failed, match="the text is empty"):
        await hasten.ingest("help", Document(id="a"))


async def test_ingest_without_a_retriever_is_a_deadline(hasten: Hasten, bus: Bus) -> None:
    await ensure_stream(bus)
    with pytest.raises(Failed) as raised:
        await hasten.ingest("help", Document(id="a", text="x"), timeout_s=0.2)
    assert raised.value.failure.code == "deadline"


async def test_a_change_is_stored(hasten: Hasten, bus: Bus) -> None:
    await ensure_stream(bus)
    assert await hasten.change(Change(table="prices", key=7), source="shop") == 1
    stored = await bus.js.get_msg("HASTEN_CHANGES", 1)
    assert stored.subject == CHANGE.subject(source="shop")


def test_an_answer_with_reasoning_only_has_a_first_token() -> None:
    answered = Answered()
    answered.add(Chunk(seq=0, reasoning="hm"))
    assert answered.ttft_ms is not None
    assert answered.text == ""
