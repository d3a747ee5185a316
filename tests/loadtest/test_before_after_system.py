"""The before-and-after end to end, tiny: real services in front of the simulated provider."""

import asyncio
from pathlib import Path

import pytest

from hasten.messages.cache import Invalidate
from hasten.messages.retrieve import Document
from loadtest.before_after_row import row
from loadtest.before_after_run import hasten_asks, naive_asks, saturated
from loadtest.naive import Naive, messages_of
from loadtest.stages import FIRST
from loadtest.whole_system import Setup, provider, rows, whole_system
from loadtest.workload import Question, Request

WEIGHTS = Path(__file__).parents[2] / ".hasten" / "models"
RIVER = Question(id="nq-1", source="nq", text="How long is the river Obel in kilometres?", answers=["913"])
CITY = Question(id="nq-2", source="nq", text="Which city lies where the river Obel ends?", answers=["Tarnau"])
STORED = Invalidate(everything=True, dry_run=True)
DOCUMENTS = [
    Document(id="a", title="Obel", text="The Obel is a river of 913 kilometres. It rises in the hills of Mork."),
    Document(id="b", title="Tarnau", text="Tarnau is a city of the coast. The river Obel ends there."),
    Document(id="c", title="Bread", text="Bread is made of flour and water. It is baked."),
]


async def test_the_same_questions_through_both_systems() -> None:
    asked = [Request(question=one, text=one.text, kind=kind) for kind in ("new", "exact") for one in (RIVER, CITY)]
    setup = Setup(token_budget=100, passages=3)
    async with provider(FIRST, 2, [RIVER, CITY], WEIGHTS) as own:
        async with whole_system(rows(FIRST, own.url, 2, setup), setup, WEIGHTS) as system:
            await system.ingest(DOCUMENTS)
            ask = hasten_asks(system)
            samples = await saturated(ask, asked[:2], 1)
            while (await system.hasten.invalidate(STORED)).entries < 2:
                await asyncio.sleep(0.05)
            samples += await saturated(ask, asked[2:], 1)
            ours = row("hasten", asked, samples, await own.records())
            prompts = {
                one.text: messages_of(one.text, "\n\n".join(await system.passages(one.text, 3))) for one in asked
            }
        plain = naive_asks(Naive(FIRST, own.url, 2), prompts)
        naive = row("naive", asked[:2], await saturated(plain, asked[:2], 2), await own.records(), streamed=False)
    assert (ours.failed, naive.failed) == (0, 0), [one.outcome for one in samples]
    assert (ours.exact, ours.wrong_hits, ours.calls) == (0.5, 0, 2)
    assert (ours.with_evidence, ours.evidence, naive.evidence) == (4, 1.0, 1.0)
    assert 0 < ours.prompt_tokens <= 100
    assert ours.dollars == pytest.approx(sum(one.cost for one in samples) / 4), "by the table, and by the provider"
    assert naive.ttft == naive.total
    assert naive.ttft.p50 >= FIRST.total_ms - FIRST.first_token_ms
