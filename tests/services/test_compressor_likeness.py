"""Few-shot examples by meaning, over a real NATS: chosen by vectors, by words while the embedder is away."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest_asyncio

from hasten.bus import Bus
from hasten.compressor.likeness import Likeness
from hasten.compressor.service import Compressor, build
from hasten.compressor.settings import Settings
from hasten.messages.chat import Example, Turn
from hasten.messages.compress import COMPRESS, Compress, Compressed
from hasten.messages.embed import EMBED, Embed, Embedded
from hasten.messages.failure import Failed
from hasten.service import Call, Service

MEANINGS = {"hound": 0, "dog": 0, "ship": 1, "boat": 1}
EXAMPLES = [
    Example(user=f"A question about a {thing} " + "and so on " * 9, assistant="Yes.") for thing in ("dog", "boat")
]
PATIENT_MS = 60_000.0
"""Longer than anything takes here: what is not in time then is not there at all."""


class Embedder:
    """Stands in for the model only: a text's vector is what it is about, behind the real service."""

    def __init__(self, bus: Bus) -> None:
        self.texts: list[str] = []
        self.tenants: set[str] = set()
        self.model, self.away = "first", False
        self.service = Service(bus, "embedder", "Turns texts into vectors.")
        self.service.answer(EMBED, self._embed, limit=64)

    async def _embed(self, request: Embed, call: Call) -> Embedded:
        if self.away:
            raise Failed("unavailable", "away")
        self.texts += request.texts
        self.tenants.add(call.tenant)
        rows = [next((at for word, at in MEANINGS.items() if word in text), 2) for text in request.texts]
        vectors = [row.tobytes() for row in np.eye(3, dtype="<f4")[rows]]
        return Embedded(vectors=vectors, dim=3, model=self.model)


@pytest_asyncio.fixture
async def embedder(bus: Bus) -> AsyncIterator[Embedder]:
    made = Embedder(bus)
    await made.service.start()
    yield made
    await made.service.close()


@pytest_asyncio.fixture
async def compressor(bus: Bus) -> AsyncIterator[Compressor]:
    made = build(Settings(data="absent", embed_wait_ms=PATIENT_MS), bus)
    await made.start()
    yield made
    await made.close()


async def shown(bus: Bus, question: str, **options: Any) -> list[str]:
    """What the examples in the prompt are about."""
    body = {"examples": EXAMPLES, "token_budget": 300, "context_window": 8000, **options}
    long = [Turn(role="user", content=question), Turn(role="assistant", content="yes " * 900)]
    messages = [*long, Turn(role="user", content="And then?")]
    made = await bus.request(COMPRESS, Compress(messages=messages, **body), tenant="acme")
    assert isinstance(made, Compressed)
    return [turn.text.split()[4] for turn in made.messages if turn.text.startswith("A question about")]


async def test_the_example_that_means_the_same_is_chosen_and_none_that_does_not(
    bus: Bus, embedder: Embedder, compressor: Compressor
) -> None:
    assert await shown(bus, "My hound") == ["dog"]
    assert await shown(bus, "The ship") == ["boat"]
    assert await shown(bus, "A question about so on") == []
    assert embedder.tenants == {"acme"}
    assert len(embedder.texts) == len(set(embedder.texts)) == 2 + 3


async def test_nobody_is_asked_when_the_examples_fit_anyway(
    bus: Bus, embedder: Embedder, compressor: Compressor
) -> None:
    assert await shown(bus, "My hound", token_budget=4000) == ["dog", "boat"]
    assert embedder.texts == []


async def test_words_decide_while_the_embedder_is_away_and_meaning_when_it_is_back(
    bus: Bus, embedder: Embedder, compressor: Compressor
) -> None:
    embedder.away = True
    assert await shown(bus, "My hound") == []
    assert await shown(bus, "The boat") == ["boat"]
    embedder.away = False
    assert await shown(bus, "My hound") == ["dog"]


async def test_without_any_embedder_and_with_one_that_is_late_words_decide(bus: Bus) -> None:
    likeness = Likeness(bus, kept=100, wait_s=PATIENT_MS / 1000)
    assert await likeness.of("My hound", ["dog"], "acme", 60.0) == []
    hung = asyncio.Event()

    async def hang(request: Embed, call: Call) -> Embedded:
        await hung.wait()
        return Embedded(vectors=[b""] * len(request.texts), dim=0, model="m")

    service = Service(bus, "embedder", "Hangs.")
    service.answer(EMBED, hang, limit=64)
    await service.start()
    late = Likeness(bus, kept=100, wait_s=0.001)
    assert await late.of("My hound", ["dog"], "acme", 60.0) == []
    hung.set()
    await late.close()
    await service.close()


async def test_memory_is_bounded_and_another_model_starts_anew(bus: Bus, embedder: Embedder) -> None:
    likeness = Likeness(bus, kept=4, wait_s=PATIENT_MS / 1000)
    for at in range(6):
        assert await likeness.of(f"a hound {at}", [f"dog {at}", f"boat {at}"], "acme", 600.0) == [1.0, 0.0]
    assert len(likeness._vectors) == 4
    assert await likeness.of("x", [str(at) for at in range(9)], "acme", 600.0) == []
    embedder.model = "second"
    assert await likeness.of("a hound 5", ["dog 6"], "acme", 600.0) == []
    assert await likeness.of("a hound 5", ["dog 6"], "acme", 600.0) == [1.0]
    assert await likeness.of("", ["dog 6"], "acme", 600.0) == []
    assert await Likeness(bus, kept=9, wait_s=0).of("a hound", ["dog"], "acme", 600.0) == []
    await likeness.close()
