"""One engine in this process, through the interface that the worker uses, and how long its answers take."""

import random
import statistics
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from hasten.messages.chat import Turn
from hasten.messages.generate import Generate
from hasten.models import EngineConfig, Model
from hasten.worker.engines import End, Engine, EngineError, engine_class

WORDS = [
    "river",
    "house",
    "green",
    "window",
    "candle",
    "stone",
    "garden",
    "market",
    "silver",
    "road",
    "bread",
    "winter",
]
Clock = Callable[[], float]


class Timed(msgspec.Struct, frozen=True, kw_only=True):
    """One answer: time to its first token, tokens per second after it, and what the engine says it used."""

    ttft_ms: float
    per_s: float
    prompt_tokens: int
    cached_tokens: int
    tokens: int
    text: str


def model_of(kind: str, path: str, window: int = 2048, **settings: Any) -> Model:
    """A row for this engine with one slot and one thread, unless the settings say otherwise."""
    config = msgspec.convert({"kind": kind, "path": path, "slots": 1, **settings}, EngineConfig)
    return Model(name="measured", slug="measured", engine=config, context_window=window)


def prose(words: int, seed: int) -> str:
    """Words of no meaning, about one token each, always the same for a seed."""
    draw = random.Random(seed)
    return " ".join(draw.choice(WORDS) for _ in range(words))


def request(text: str, tokens: int = 1, system: str = "") -> Generate:
    """A greedy request."""
    turns = [Turn(role="system", content=system)] if system else []
    turns.append(Turn(role="user", content=text))
    return Generate(messages=turns, max_tokens=tokens, temperature=0.0, seed=1)


class Rig:
    """A started engine and the clock that its answers are timed with: seconds gone by, or seconds of the processor."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self.engine, self.clock = engine, clock

    async def ask(self, wanted: Generate, key: str = "acme/1", began: float | None = None) -> Timed:
        """The answer to a request, timed from now or from the moment it `began` to wait."""
        began = self.clock() if began is None else began
        first, text, end = 0.0, [], None
        async for event in self.engine.generate(key, wanted):
            if isinstance(event, End):
                end = event
            else:
                first = first or self.clock()
                text.append(event.text)
        if end is None:
            raise EngineError("incomplete", "the engine ended without a result")
        over = self.clock()
        usage, first = end.usage, first or over
        return Timed(
            ttft_ms=1000 * (first - began),
            per_s=(usage.completion_tokens - 1) / (over - first) if over > first else 0.0,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            tokens=usage.completion_tokens,
            text="".join(text),
        )


@asynccontextmanager
async def running(model: Model, data: Path, clock: Clock) -> AsyncIterator[Rig]:
    """The engine of a row, started, with one answer behind it."""
    engine = engine_class(model.engine.kind).from_config(model, data)
    await engine.start()
    try:
        rig = Rig(engine, clock)
        await rig.ask(request("Say hello."))
        yield rig
    finally:
        await engine.close()


def median(values: list[float]) -> float:
    """The median, to a tenth."""
    return round(statistics.median(values), 1)
