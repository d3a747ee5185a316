"""The published pipeline, its simulated provider and the figures: times on a clock that only waiting moves."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any

import httpx
import pytest

from hasten.compressor.byte_estimate import ByteEstimate
from hasten.messages.chat import Turn
from loadtest.before_after_row import row
from loadtest.naive import Naive, WholePrompt, messages_of, waits_ms
from loadtest.provider import Catalogue, Provider, named_in
from loadtest.sample import Sample
from loadtest.stages import FIRST, LARGE, SECOND, SMALL, Stack
from loadtest.workload import Question, Request

RIVER = Question(id="nq-1", source="nq", text="How long is the river?", answers=["900 km"])
CARD = Question(id="fow-1", source="fow", text="Where is my card?", other="My card, where is it?")
CASE = Question(id="medical-1", source="medical", text="I am ill. What now?", other="What do I do, being ill?")


class _Leaping(selectors.SelectSelector):
    """Never waits: what would have been waited for is added to the clock of its loop."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        if not found and timeout:
            self.now += timeout
        return found


def virtually(work: Coroutine[Any, Any, Any]) -> Any:
    """Runs something that waits for nothing but time, in no time."""
    selector = _Leaping()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now  # type: ignore[method-assign]
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


def provider(slots: int = 1, stack: Stack = FIRST) -> Provider:
    return Provider(stack, slots, Catalogue([RIVER, CARD, CASE]), ByteEstimate(0))


def body(question: Question, model: str = LARGE, passages: str = "It flows 900 km.") -> dict[str, Any]:
    turns = messages_of(question.text, passages)
    return {"model": model, "messages": [{"role": turn.role, "content": turn.text} for turn in turns]}


async def asked(of: Provider, what: dict[str, Any]) -> tuple[float, str]:
    """The seconds that a whole answer took, and its text."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(of), timeout=None) as client:  # type: ignore[arg-type]
        response = await client.post("http://provider/v1/chat/completions", json=what)
    return loop.time() - began, response.json()["choices"][0]["message"]["content"]


def test_the_stages_are_the_published_ones() -> None:
    assert FIRST.total_ms == 120 + 45 + 380 + 280 + 1850 + 520 + 85 == 3280
    assert SECOND.total_ms == 120 + 850 + 450 + 6800 + 230 == 8450
    assert SECOND.first_token_ms + SECOND.generation_ms == 6800
    assert FIRST.first_ms(LARGE, 3200) == 1850
    assert FIRST.first_ms(LARGE, 400) == pytest.approx(1850 / 8)
    assert FIRST.first_ms(SMALL, 400) == pytest.approx(0.45 * 1850 / 8)
    assert FIRST.cost(LARGE, 3200, FIRST.answer_tokens) == pytest.approx(0.0082)
    assert FIRST.cost(SMALL, 3200, FIRST.answer_tokens) == pytest.approx(0.00082)


@pytest.mark.parametrize("model", [LARGE, SMALL])
def test_a_call_takes_the_network_the_prompt_and_the_answer(model: str) -> None:
    of = provider()
    took, text = virtually(asked(of, body(RIVER, model)))
    (seen,) = of.records
    expected = 120 + FIRST.first_ms(model, seen.prompt_tokens) + 520
    assert 1000 * took == pytest.approx(expected)
    assert named_in(text) == "nq-1"
    assert (seen.question, seen.model, seen.evidence) == ("nq-1", model, True)
    assert seen.held_ms == pytest.approx(expected - 120)


def test_both_models_share_the_slots_in_the_order_of_arrival() -> None:
    async def both(of: Provider) -> list[float]:
        found = await asyncio.gather(asked(of, body(RIVER)), asked(of, body(CARD, SMALL)))
        return [took for took, _ in found]

    one, two = provider(slots=1), provider(slots=2)
    first, second = virtually(both(one))
    alone = virtually(both(two))
    assert first == pytest.approx(alone[0])
    assert second == pytest.approx(alone[1] + one.records[0].held_ms / 1000)


def test_evidence_that_stands_in_the_question_alone_is_none() -> None:
    of = provider()
    virtually(asked(of, body(RIVER, passages="Nothing of it.")))
    virtually(asked(of, body(CARD)))
    assert [one.evidence for one in of.records] == [False, None]


def test_a_naive_request_takes_the_sum_of_its_stages() -> None:
    prompt = WholePrompt(ByteEstimate(0), FIRST.prompt_tokens).of(RIVER.text, ["The river flows on. " * 200] * 8)
    of = provider()

    async def run() -> float:
        def connect() -> httpx.AsyncClient:
            return httpx.AsyncClient(transport=httpx.ASGITransport(of), timeout=None)  # type: ignore[arg-type]

        loop, naive = asyncio.get_running_loop(), Naive(FIRST, "http://provider/v1", 1, connect=connect)
        began = loop.time()
        sample = await naive.ask(prompt, 0.0)
        assert sample.ok
        assert named_in(sample.text) == "nq-1"
        return 1000 * (loop.time() - began)

    assert virtually(run()) == pytest.approx(3280, rel=0.005)
    assert FIRST.prompt_tokens - 5 < of.records[0].prompt_tokens <= FIRST.prompt_tokens
    assert of.records[0].dollars == pytest.approx(0.0082, rel=0.005)


def test_a_prompt_that_the_passages_do_not_fill_is_refused() -> None:
    with pytest.raises(ValueError, match="3200 are needed"):
        WholePrompt(ByteEstimate(0), 3200).of("How long?", ["short"])


def test_naive_requests_wait_for_a_worker() -> None:
    assert waits_ms([0.0, 0.0, 1.0], 1, 3280) == pytest.approx([3280, 6560, 8840])
    assert waits_ms([0.0, 0.0, 4.0], 2, 3280) == pytest.approx([3280, 3280, 3280])


def request(question: Question, kind: Any = "new") -> Request:
    return Request(question=question, text=question.other if kind == "paraphrase" else question.text, kind=kind)


def sample(names: str, cache: str = "miss", model: str = SMALL, ttft_ms: float = 200.0) -> Sample:
    return Sample(cache=cache, model=model, ttft_ms=ttft_ms, total_ms=2 * ttft_ms, text=f"[[{names}]] and so on")


def test_wrong_hits_evidence_and_the_routers_choices_are_counted() -> None:
    of = provider()
    virtually(asked(of, body(RIVER)))
    questions = [request(RIVER), request(RIVER, "exact"), request(CASE), request(CASE, "paraphrase"), request(CARD)]
    samples = [
        sample("nq-1"),
        sample("nq-1", "exact", ttft_ms=2.0),
        sample("medical-1", model=LARGE),
        sample("nq-1", "semantic", ttft_ms=20.0),
        sample("fow-1", model=LARGE),
    ]
    found = row("some", questions, samples, of.records)
    assert (found.exact, found.semantic, found.shared) == (0.2, 0.2, 0.0)
    assert (found.wrong_hits, found.same_intent, found.failed) == (1, 0, 0)
    assert (found.with_evidence, found.evidence) == (2, 1.0)
    assert (found.simple_small, found.hard_large) == (0.5, 1.0)
    assert found.rewordings == {"medical": (1, 1)}
    assert (found.hit_ttft.count, found.hit_ttft.p99, found.miss_ttft.p50) == (2, 20.0, 200.0)
    assert found.dollars == pytest.approx(of.records[0].dollars / 5)
    assert row("whole", questions, samples, [], streamed=False).ttft == found.total


def test_the_words_before_the_question_are_its_prompt() -> None:
    found, before = Catalogue([CARD]).of([Turn(role="user", content="[1] A card.\n\nQuestion: My card, where is it?")])
    assert found == CARD
    assert before.strip() == "[1] A card.\n\nQuestion:"
    assert Catalogue([CARD]).of([Turn(role="user", content="Something else")])[0] is None
