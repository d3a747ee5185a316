"""A worker around every engine, on a real NATS server: cancels free what they held, and what is away is waited for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from engine_rig import ENDLESS, PATIENCE_S, Kind, asked, vllm_process
from model_server import ModelServer
from nats.aio.msg import Msg
from patience import until

from hasten.bus import Bus
from hasten.deadline import TENANT, now_ms
from hasten.messages.chat import CANCEL, Chunk, Done, Nothing
from hasten.messages.failure import Failure
from hasten.messages.generate import GENERATE, STATUS, Generate, Status
from hasten.models import Model
from hasten.worker.service import Worker, build
from hasten.worker.settings import Settings

pytestmark = pytest.mark.timeout(600)
SLOW = {"sim_decode_per_s": 0.1, "sim_prefill_per_s": 50}
"""The simulator must take long; the others do not mind."""


@asynccontextmanager
async def _running(bus: Bus, model: Model) -> AsyncIterator[Worker]:
    worker = build(Settings(worker="w1", revive_after_s=0.1, revive_most_s=0.5), bus, [model])
    try:
        await worker.start()
        yield worker
    finally:
        await worker.close()


class Asking:
    """A request to the worker; `events` are what has been heard, `ended` the last of them once it has come."""

    def __init__(self, bus: Bus, slug: str, request_id: str, request: Generate) -> None:
        self.events: list[Any] = []
        self._bus, self._id = bus, request_id
        self._reading = asyncio.create_task(self._read(slug, request))

    async def _read(self, slug: str, request: Generate) -> None:
        given: dict[str, Any] = {"request_id": self._id, "deadline_ms": now_ms() + 1e8}
        stream = await self._bus.stream(GENERATE, request, slug=slug, worker="w1", headers={TENANT: "acme"}, **given)
        async for event in stream:
            self.events.append(event)

    @property
    def chunks(self) -> int:
        return sum(isinstance(event, Chunk) for event in self.events)

    async def cancel(self) -> None:
        await self._bus.publish(CANCEL, Nothing(), tenant="acme", request_id=self._id)

    async def ended(self) -> Any:
        async with asyncio.timeout(2 * PATIENCE_S):
            await self._reading
        return self.events[-1]


async def test_a_cancel_in_line_in_decode_and_in_prefill_frees_what_it_held(bus: Bus, kind: Kind) -> None:
    model = kind.model(slots=1, **SLOW)
    async with _running(bus, model) as worker:

        def ask(request_id: str, words: str = "Count for ever.", **options: Any) -> Asking:
            return Asking(bus, model.slug, request_id, asked(words, **options))

        held = ask("held", **ENDLESS)
        await until(lambda: held.chunks > 0)
        waiting = ask("waiting")
        await until(lambda: worker.status().queued == 1)
        await waiting.cancel()
        assert (await waiting.ended()).code == "cancelled"
        assert (worker.status().queued, worker.status().active) == (0, 1)

        heir = ask("heir", max_tokens=1)
        await until(lambda: worker.status().queued == 1)
        await held.cancel()
        assert (await held.ended()).code == "cancelled"
        assert isinstance(await heir.ended(), Done)

        held = ask("read", "Colours of the rainbow. " * 300, **ENDLESS)
        await until(lambda: worker.status().active == 1)
        heir = ask("next", max_tokens=1)
        await until(lambda: worker.status().queued == 1)
        await held.cancel()
        assert (await held.ended()).code == "cancelled"
        assert isinstance(await heir.ended(), Done)
        assert (worker.status().queued, worker.status().active) == (0, 0)


async def test_a_worker_says_that_it_starts_and_when_it_is_ready(bus: Bus, kind: Kind) -> None:
    heard: list[Status] = []

    async def receive(msg: Msg) -> None:
        heard.append(msgspec.json.decode(msg.data, type=Status))

    model = kind.model()
    await bus.subscribe(STATUS.narrowed(slug=model.slug), receive)
    await bus.flush()
    async with _running(bus, model):
        await until(lambda: bool(heard) and heard[-1].state == "ready")
    states = [status.state for status in heard]
    assert states[0] == "starting"
    assert set(states[: states.index("ready")]) == {"starting"}


async def test_a_server_that_is_away_is_down_until_it_comes(bus: Bus, kind: Kind) -> None:
    if not kind.server_command:
        pytest.skip(f"{kind.name} has no server")
    server = ModelServer(kind.server_command)
    model = kind.model(url=server.url)
    async with _running(bus, model) as worker:
        assert worker.status().state == "down"
        refused = await Asking(bus, model.slug, "early", asked()).ended()
        assert isinstance(refused, Failure)
        assert refused.code == "unavailable"
        assert refused.retry_after_ms
        await server.start()
        await until(lambda: worker.status().state == "ready")
        assert isinstance(await Asking(bus, model.slug, "late", asked()).ended(), Done)
    await server.kill()


async def test_an_engine_that_dies_in_mid_stream_is_a_failure_and_comes_back(bus: Bus, kind: Kind) -> None:
    if kind.name in ("sim", "llama"):
        pytest.skip("it runs in this process: a crash is one of the worker's")
    server = await ModelServer(kind.server_command).start() if kind.server_command else None
    model = kind.model(**({"url": server.url} if server else {}))
    async with _running(bus, model) as worker:
        broken = Asking(bus, model.slug, "broken", asked(**ENDLESS))
        await until(lambda: broken.chunks > 0)
        await server.kill() if server else vllm_process().kill()
        failure = await broken.ended()
        assert isinstance(failure, Failure)
        assert failure.code == "upstream"
        assert failure.tokens_sent == broken.chunks
        if server:
            await server.start()
        await until(lambda: worker.status().state == "ready")
        assert isinstance(await Asking(bus, model.slug, "after", asked()).ended(), Done)
    if server:
        await server.kill()
