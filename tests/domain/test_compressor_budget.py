"""The token budget with the embedded model's own tokenizer and with the estimate: a cap that always holds."""

import itertools
import random
from collections.abc import Sequence
from typing import Any

import pytest
from compressor_rig import filler
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizer_rig import smollm2

from hasten.compressor.budget import Needs, Shares, examples_room, history_room, rung, target
from hasten.compressor.byte_estimate import ByteEstimate
from hasten.compressor.domain import compress
from hasten.compressor.hf_tokenizer import HfTokenizer
from hasten.compressor.settings import Settings
from hasten.compressor.tokens import TokenCounter
from hasten.messages.chat import Example, Turn
from hasten.messages.compress import Compress, Compressed
from hasten.messages.failure import Failed
from hasten.messages.retrieve import Passage

__all__ = ["smollm2"]
POLICY = Settings().policy()
ESTIMATE = ByteEstimate(part_tokens=100)
QUESTION = Turn(role="user", content="When does the office of the 7th district open?")
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": f"f{at}", "description": "Looks a price up.", "parameters": {}}}
    for at in range(5)
]
AWKWARD = [
    "",
    "   ",
    "{}",
    "[]",
    '{"a":""}',
    "\n\n",
    "🎉🚀👩‍👩‍👧",
    "解約は月末です。",
    "x" * 700,
    "<|im_end|>",
    "\x00\x07",
    "9 €. ",
]


@pytest.fixture(params=["own", "estimate"])
def counter(request: pytest.FixtureRequest, smollm2: HfTokenizer) -> TokenCounter:
    return smollm2 if request.param == "own" else ESTIMATE


def made_of(counter: TokenCounter, messages: Sequence[Turn], texts: Sequence[str] = (), **options: Any) -> Compressed:
    passages = [
        Passage(id=f"p{at}", collection="c", document=f"d{at}", text=text, score=1 / (1 + at))
        for at, text in enumerate(texts)
    ]
    return compress(Compress(messages=list(messages), passages=passages, **options), counter, POLICY)


def exactly(counter: TokenCounter, tokens: int) -> str:
    """Prose of at most so many tokens, and nearly so many."""
    words = filler(tokens * 2).split()
    while counter.counts([" ".join(words)])[0] > tokens:
        words = words[: min(len(words) - 1, len(words) * tokens // counter.counts([" ".join(words)])[0] + 1)]
    return " ".join(words)


@pytest.mark.parametrize("budget", [50, 500, 5000])
@pytest.mark.parametrize("tokens", [40, 120, 2000, 20_000])
@pytest.mark.parametrize("part", ["passage", "history", "examples"])
def test_a_hard_cap_whatever_part_is_long(counter: TokenCounter, budget: int, tokens: int, part: str) -> None:
    text, fixed = exactly(counter, tokens), counter.prompt([QUESTION])
    messages, texts, shown = [QUESTION], [""], []
    if part == "passage":
        texts = [text]
    elif part == "history":
        words = text.split()
        pieces = [" ".join(words[at : at + 20]) for at in range(0, len(words), 20)]
        turns = [Turn(role=("user", "assistant")[at % 2], content=one) for at, one in enumerate(pieces)]
        messages = [*turns, QUESTION]
    else:
        words = text.split()
        shown = [Example(user=" ".join(words[at : at + 15]), assistant="Yes.") for at in range(0, len(words), 15)]
    made = made_of(counter, messages, texts, examples=shown, token_budget=budget, context_window=50_000)
    assert made.tokens_after == counter.prompt(made.messages)
    assert made.tokens_after <= max(budget, fixed + int(Shares().floor * budget))
    assert made.tokens_after <= made.tokens_before
    assert made.messages[-1].text.endswith(QUESTION.text)
    everything = made_of(counter, messages, texts, examples=shown, token_budget=10**6, context_window=10**7)
    if everything.tokens_after <= budget:
        assert made.messages == everything.messages


def test_tools_images_and_thousands_of_tiny_parts_are_counted(counter: TokenCounter) -> None:
    plain = made_of(counter, [QUESTION])
    assert made_of(counter, [QUESTION], tools=TOOLS).tokens_after > plain.tokens_after + 50
    picture = {"type": "image_url", "image_url": {"url": "x"}}
    seen = Turn(role="user", content=[{"type": "text", "text": "What is it?"}, picture, picture])
    if counter is ESTIMATE:
        assert made_of(counter, [seen]).tokens_after > 200
        with pytest.raises(Failed, match="context_overflow"):
            made_of(counter, [seen], context_window=250, max_tokens=50)
    tiny = made_of(counter, [QUESTION], ["Yes."] * 3000, token_budget=200)
    assert counter.prompt(tiny.messages) <= 200
    turns = [Turn(role=("user", "assistant")[at % 2], content="ok") for at in range(3000)]
    assert counter.prompt(made_of(counter, [*turns, QUESTION], token_budget=200).messages) <= 200


@pytest.mark.parametrize("answer", [4096, 5000, 10**9])
def test_an_answer_as_long_as_the_window_leaves_no_prompt(counter: TokenCounter, answer: int) -> None:
    with pytest.raises(Failed, match=r"context_overflow.*4096.*max_tokens"):
        made_of(counter, [QUESTION], max_tokens=answer)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10**6))
def test_never_over_the_cap_never_longer_and_the_users_words_are_there(counter: TokenCounter, seed: int) -> None:
    draw = random.Random(seed)

    def text(most: int = 6) -> str:
        return "".join(
            draw.choice((*AWKWARD, "The plan costs 9 euros. ", "Not before May. "))
            for _ in range(draw.randint(0, most))
        )

    turns = [Turn(role=draw.choice(("user", "assistant")), content=text()) for _ in range(draw.randint(0, 12))]
    if draw.random() < 0.5:
        turns.insert(0, Turn(role="system", content=text()))
    messages = [*turns, Turn(role="user", content="Q " + text(2))]
    shown = [Example(user=text(), assistant=text()) for _ in range(draw.randint(0, 4))]
    options: dict[str, Any] = {
        "examples": shown,
        "tools": draw.choice((None, TOOLS)),
        "token_budget": draw.randint(1, 900),
        "context_window": draw.randint(300, 3000),
        "max_tokens": draw.randint(1, 200),
    }
    try:
        made = made_of(counter, messages, [text(20) for _ in range(draw.randint(0, 5))], **options)
    except Failed as failed:
        if failed.failure.code != "context_overflow":
            raise
        return
    assert made.tokens_after == counter.prompt(made.messages, options["tools"])
    assert made.tokens_after + options["max_tokens"] <= options["context_window"]
    assert made.tokens_after <= made.tokens_before
    assert "Q " in made.messages[-1].text


def test_more_budget_never_keeps_less_of_passages_and_twice_as_much_never_of_anything(counter: TokenCounter) -> None:
    texts = [filler(300) for _ in range(4)]
    kept = [made_of(counter, [QUESTION], texts, token_budget=budget).tokens_after for budget in range(60, 1200, 60)]
    assert all(more >= less - 4 for less, more in itertools.pairwise(kept))
    talk = [Turn(role=("user", "assistant")[at % 2], content=filler(25)) for at in range(60)]
    for given_texts in ([], texts):
        budgets = [200 * 2**at for at in range(5)]
        sizes = [made_of(counter, [*talk, QUESTION], given_texts, token_budget=one).tokens_after for one in budgets]
        assert sizes == sorted(sizes)


def test_what_one_part_does_not_need_goes_to_the_others_in_order() -> None:
    shares = Shares(examples=0.2, history=0.3, passages=0.4)
    long = Needs(examples=5000, history=5000, passages=5000)
    assert examples_room(1000, long, 1000, shares) == 200
    assert history_room(800, long, 1000, shares) == 300
    assert history_room(400, long, 1000, shares) == rung(240), "the passages keep their share when room is short"
    no_passages = Needs(examples=5000, history=5000)
    assert history_room(800, no_passages, 1000, shares) == rung(800)
    only_examples = Needs(examples=5000)
    assert examples_room(1000, only_examples, 1000, shares) == rung(1000)
    assert examples_room(0, long, 1000, shares) == history_room(0, long, 1000, shares) == 0
    assert target(100, 1000, 4000, shares) == 1000
    assert target(990, 1000, 4000, shares) == 990 + 250
    assert target(990, 1000, 1100, shares) == 1100


def test_a_model_may_have_shares_of_its_own() -> None:
    talk = [Turn(role=("user", "assistant")[at % 2], content=filler(25)) for at in range(60)]
    sizes = [
        sum(
            part.after
            for part in made_of(ESTIMATE, [*talk, QUESTION], [filler(5000)], token_budget=1000, shares=own).parts
            if part.kind == "history"
        )
        for own in ({"history": 0.1}, {}, {"history": 0.6, "passages": 0.2})
    ]
    assert sizes == sorted(set(sizes))
    for wrong, reason in (({"hisotry": 0.1}, "no share of hisotry"), ({"history": 1.5}, "from 0 to 1")):
        with pytest.raises(Failed, match=f"bad_request.*{reason}"):
            made_of(ESTIMATE, [QUESTION], shares=wrong)


@given(st.integers(-5, 10**6))
def test_a_rung_is_near_and_grows_with_the_tokens(tokens: int) -> None:
    assert 0.7 * tokens - 1 <= rung(tokens) <= max(0, tokens)
    assert rung(tokens) <= rung(tokens + 1)
