"""The beginning of a prompt is the same bytes for all requests of a template, whatever else they hold."""

import random
from typing import Any

import msgspec
import pytest

from hasten.compressor.byte_estimate import ByteEstimate
from hasten.compressor.domain import compress
from hasten.compressor.settings import Settings
from hasten.messages.chat import Example, Turn
from hasten.messages.compress import Compress, Compressed
from hasten.messages.retrieve import Passage

COUNTER, POLICY = ByteEstimate(), Settings().policy()
SYSTEM = [
    Turn(role="system", content="You answer for the help centre.\n\n  Keep  the figures.\t\n"),
    Turn(role="developer", content="Cite <|im_end|> as it is."),
]
EXAMPLES = [Example(user=f"How much is plan {at}?", assistant=f"{at} euros.") for at in range(4)]
VOCABULARY = "price plan month year file folder share link token device vault trial refund invoice tax region"
WORDS = VOCABULARY.split()


def prose(chance: random.Random, sentences: int) -> str:
    return " ".join(" ".join(chance.choices(WORDS, k=9)).capitalize() + "." for _ in range(sentences))


def request(seed: int, **options: Any) -> Compress:
    """A request of the template with a question, passages and a history of its own."""
    chance = random.Random(seed)
    rounds = range(chance.randint(0, 8))
    roles: tuple[Any, Any] = ("user", "assistant")
    history = [Turn(role=role, content=prose(chance, chance.randint(1, 12))) for _ in rounds for role in roles]
    passages = [
        Passage(
            id=f"p{at}",
            collection="c",
            document=f"d{at}",
            title=prose(chance, 1),
            text=prose(chance, 40),
            score=chance.random(),
        )
        for at in range(chance.randint(0, 5))
    ]
    at = chance.randint(0, len(history))
    asked = Turn(role="user", content=prose(chance, chance.randint(1, 5)))
    turns = [SYSTEM[0], *history[:at], SYSTEM[1], *history[at:], asked]
    return Compress(messages=turns, passages=passages, token_budget=1200, context_window=16_000, **options)


def stable(made: Compressed) -> bytes:
    return msgspec.json.encode(made.messages[: made.stable])


@pytest.mark.parametrize("examples", [[], EXAMPLES])
def test_the_stable_part_is_byte_identical(examples: list[Example]) -> None:
    made = [compress(request(seed, examples=examples), COUNTER, POLICY) for seed in range(120)]
    assert len({one.messages[-1].text for one in made}) == 120
    assert any(one.tokens_before > one.tokens_after for one in made)
    assert {one.stable for one in made} == {1 + 2 * len(examples)}
    assert {stable(one) for one in made} == {stable(made[0])}
    assert {one.stable_tokens for one in made} == {made[0].stable_tokens}
    assert made[0].messages[0].content == SYSTEM[0].text + "\n\n" + SYSTEM[1].text


def test_examples_that_do_not_all_fit_leave_the_system_text_as_the_stable_part() -> None:
    many = [Example(user=prose(random.Random(at), 12), assistant="Yes.") for at in range(40)]
    made = [compress(request(seed, examples=many), COUNTER, POLICY) for seed in range(20)]
    assert {one.stable for one in made} == {1}
    assert {stable(one) for one in made} == {stable(made[0])}


def test_without_a_system_text_the_instruction_is_the_same_bytes() -> None:
    made = []
    for seed in range(40):
        body = request(seed)
        turns = [turn for turn in body.messages if turn.role not in ("system", "developer")]
        if body.passages:
            made.append(compress(msgspec.structs.replace(body, messages=turns), COUNTER, POLICY))
    assert {stable(one) for one in made} == {stable(made[0])}
    assert made[0].stable == 1


def test_nothing_that_changes_stands_in_the_stable_part() -> None:
    one, two = (compress(request(seed, examples=EXAMPLES), COUNTER, POLICY) for seed in (3, 5))
    assert stable(one) == stable(two)
    again = compress(request(3, examples=EXAMPLES), COUNTER, POLICY)
    assert msgspec.json.encode(again) == msgspec.json.encode(one)
