"""The before-and-after end to end, tiny: real services in front of the simulated provider."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hasten.messages.retrieve import Document
from loadtest.before_after_row import row
from loadtest.before_after_run import AskFor, hasten_asks, naive_asks, saturated
from loadtest.naive import Naive, messages_of
from loadtest.sample import Sample
from loadtest.stages import FIRST
from loadtest.whole_system import Setup, provider, rows, whole_system
from loadtest.workload import Question, Request

pytestmark = pytest.mark.timeout(300)
WEIGHTS = Path(__file__).parents[2] / ".hasten" / "models"
RIVER = Question(id="nq-1", source="nq", text="How long is the river Obel in kilometres?", answers=["913"])
CITY = Question(id="nq-2", source="nq", text="Which city lies where the river Obel ends?", answers=["Tarnau"])
DOCUMENTS = [
    Document(id="a", title="Obel", text="The Obel is a river of 913 kilometres. It rises in the hills of Mork."),
    Document(id="b", title="Tarnau", text="Tarnau is a city of the coast. The river Obel ends there."),
    Document(id="c", title="Bread", text="Bread is made of flour and water. It is baked."),
]


async def until(good: Callable[[Sample], bool], ask: AskFor, asked: list[Request]) -> list[Sample]:
    """Asks one after the other, all of it again until every answer is good: a system that just starts, or is delayed,
    may be unavailable, and its cache serves nothing that it has not heard of for a second."""
    while not all(map(good, samples := await saturated(ask, asked, 1))):
        pass
    return samples


async def test_the_same_questions_through_both_systems() -> None:
    asked = [Request(question=one, text=one.text, kind=kind) for kind in ("new", "exact") for one in (RIVER, CITY)]
    setup = Setup(token_budget=100, passages=3)
    async with provider(FIRST, 2, [RIVER, CITY], WEIGHTS) as own:
        async with whole_system(rows(FIRST, own.url, 2, setup), setup, WEIGHTS) as system:
            await system.ingest(DOCUMENTS)
            ask = hasten_asks(system)
            samples = await until(lambda one: one.ok, ask, asked[:2])
            samples += await until(lambda one: one.hit, ask, asked[2:])
            ours = row("hasten", asked, samples, await own.records())
            prompts = {
                one.text: messages_of(one.text, "\n\n".join(await system.passages(one.text, 3))) for one in asked
            }
        plain = naive_asks(Naive(FIRST, own.url, 2), prompts)
        naive = row("naive", asked[:2], await saturated(plain, asked[:2], 2), await own.records(), streamed=False)
    assert naive.failed == 0
    assert ours.exact + ours.semantic + ours.shared == 0.5
    assert ours.calls >= 2
    assert (ours.wrong_hits, ours.with_evidence) == (0, 4)
    assert (ours.evidence, naive.evidence) == (1.0, 1.0)
    assert 0 < ours.prompt_tokens <= 100
    assert ours.dollars >= 0.999 * sum(one.cost for one in samples) / 4, "the provider counts what the table counts"
    assert ours.dollars < naive.dollars
    assert naive.ttft == naive.total
    assert naive.ttft.p50 >= FIRST.total_ms - FIRST.first_token_ms
