"""A worker of the simulator on a real NATS server, who asks it, and engines that fail when they are told to."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from nats.aio.msg import Msg

from hasten.bus import Bus
from hasten.deadline import TENANT, now_ms
from hasten.messages.chat import Ping, Turn
from hasten.messages.generate import GENERATE, STATUS, Generate, Status
from hasten.models import EngineConfig, Model
from hasten.worker.engines import Delta, End
from hasten.worker.engines.sim import SimEngine
from hasten.worker.service import Worker, build
from hasten.worker.settings import Settings

QUESTION = Generate(messages=[Turn(role="user", content="what does the yearly plan cost")])


def model_of(**options: Any) -> Model:
    quick: dict[str, Any] = {"sim_prefill_per_s": 1e6, "sim_decode_per_s": 1e4}
    engine = EngineConfig(kind="sim", **{**quick, **options})
    return Model(name="Sim/One", slug="sim-one", engine=engine, defaults={"temperature": 0.0})


@asynccontextmanager
async def running(bus: Bus, model: Model, engine: Callable[[], SimEngine] | None = None) -> AsyncIterator[Worker]:
    settings = Settings(worker="w1", revive_after_s=0.01)
    worker = Worker(settings, bus, model, engine) if engine else build(settings, bus, [model])
    try:
        await worker.start()
        yield worker
    finally:
        await worker.close()


async def ask(
    bus: Bus, request: Generate = QUESTION, request_id: str = "r1", ms: float = 30_000, tenant: str = "acme"
) -> list[Any]:
    stream = await bus.stream(
        GENERATE,
        request,
        slug="sim-one",
        worker="w1",
        request_id=request_id,
        deadline_ms=now_ms() + ms,
        headers={TENANT: tenant},
    )
    return [event async for event in stream if not isinstance(event, Ping)]


async def statuses_of(bus: Bus) -> list[Status]:
    heard: list[Status] = []

    async def receive(msg: Msg) -> None:
        heard.append(msgspec.json.decode(msg.data, type=Status))

    await bus.subscribe(STATUS.narrowed(slug="sim-one"), receive)
    await bus.flush()
    return heard


class Failing(SimEngine):
    """Fails with `error` after three words, once."""

    error: Exception | None = None

    async def generate(self, request_id: str, request: Generate) -> AsyncGenerator[Delta | End]:
        sent = 0
        async for event in super().generate(request_id, request):
            if sent == 3 and self.error is not None:
                raise self.error
            sent += 1
            yield event


class Held(SimEngine):
    """Notes the question of each generation, and answers none until `gate` is set."""

    def __init__(self, model: Model, gate: asyncio.Event) -> None:
        super().__init__(model)
        self.gate, self.asked = gate, list[str]()

    async def generate(self, request_id: str, request: Generate) -> AsyncGenerator[Delta | End]:
        self.asked.append(request.messages[-1].text)
        await self.gate.wait()
        async for event in super().generate(request_id, request):
            yield event


class Gated(Failing):
    """Counts what it does; starts only when `gate` is set."""

    def __init__(self, model: Model, gate: asyncio.Event) -> None:
        super().__init__(model)
        self.gate, self.starting, self.closed, self.asked = gate, False, 0, 0

    async def start(self) -> None:
        self.starting = True
        await self.gate.wait()

    async def generate(self, request_id: str, request: Generate) -> AsyncGenerator[Delta | End]:
        self.asked += 1
        async for event in super().generate(request_id, request):
            yield event

    async def close(self) -> None:
        self.closed += 1
        await super().close()


def first_breaks(model: Model, made: list[Gated], gate: asyncio.Event) -> Callable[[], Gated]:
    """The first engine starts and then breaks; the others wait for the gate to start."""
    opened = asyncio.Event()
    opened.set()

    def engine() -> Gated:
        made.append(Gated(model, gate if made else opened))
        made[-1].error = None if len(made) > 1 else RuntimeError("broken")
        return made[-1]

    return engine
