"""Requests for the compressor's domain and what it makes of them, counted by estimate."""

from collections.abc import Sequence
from typing import Any

from hasten.compressor.byte_estimate import ByteEstimate
from hasten.compressor.domain import compress
from hasten.compressor.settings import Settings
from hasten.messages.chat import Turn
from hasten.messages.compress import Compress, Compressed
from hasten.messages.retrieve import Passage

COUNTER = ByteEstimate(part_tokens=100)
POLICY = Settings().policy()
QUESTION = Turn(role="user", content="What does the Family plan cost?")
FACT = "The Family plan costs 9 euros per month."
FILLER = "The office of the {n}th district opens at nine and closes when the last visitor has left the building. "


def run(messages: Sequence[Turn], texts: Sequence[str] = (), **options: Any) -> Compressed:
    passages = [
        Passage(id=f"p{at}", collection="c", document=f"d{at}", text=text, title=f"Title {at}", score=1 / (1 + at))
        for at, text in enumerate(texts)
    ]
    return compress(Compress(messages=list(messages), passages=passages, **options), COUNTER, POLICY)


def size(made: Compressed, tools: list[dict[str, Any]] | None = None) -> int:
    return COUNTER.prompt(made.messages, tools)


def filler(tokens: int) -> str:
    """Prose of about so many tokens."""
    per = COUNTER.counts([FILLER])[0]
    return "".join(FILLER.format(n=n) for n in range(1 + tokens // per))


def talk(rounds: int, words: int = 30) -> list[Turn]:
    """A conversation of so many rounds of about `2 * words` words each, each word telling where it is from."""
    roles = ("user", "assistant")
    said = ((role, " ".join(f"{role[0]}{at}" for _ in range(words))) for at in range(rounds) for role in roles)
    return [Turn(role=role, content=text) for role, text in said]  # type: ignore[arg-type]
