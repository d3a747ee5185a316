"""Messages, passages and examples in; the prompt, inside a token budget, out."""

from typing import Any

from hasten.messages.chat import Example, Turn
from hasten.messages.failure import Failure
from hasten.messages.retrieve import Passage
from hasten.topics import Body, Reply, Topic


class Compress(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Asks for the shortest prompt that keeps what the answer needs.

    `tokenizer` is from Routed. `token_budget` is what to aim for; `context_window` less `max_tokens` is never
    exceeded. `shares` replaces what the compressor's settings give to parts of the prompt: examples, history, passages,
    recall, floor, each 0 to 1.
    """

    messages: list[Turn]
    passages: list[Passage] = []
    examples: list[Example] = []
    tokenizer: str = ""
    token_budget: int = 1200
    context_window: int = 4096
    max_tokens: int = 512
    shares: dict[str, float] = {}
    tools: list[dict[str, Any]] | None = None


class Part(Body, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one part of the prompt: its tokens before and after, and why."""

    kind: str
    id: str = ""
    before: int = 0
    after: int = 0
    why: str = ""


class Compressed(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """The prompt as messages, the stable part first. Counts are tokens including the chat template.

    `stable_tokens` is the length of the part that is byte-identical for every request with the same system text,
    tools and examples. `used` lists the ids of the passages of which something was kept.
    """

    messages: list[Turn]
    tokens_before: int
    tokens_after: int
    stable_tokens: int = 0
    used: list[str] = []
    parts: list[Part] = []


COMPRESS = Topic(
    name="compress",
    template="hasten.v1.compress.{tenant}",
    request=Compress,
    reply=Compressed | Failure,
    queue="compressor",
    summary="Fit messages, passages and examples into a token budget.",
)
TOPICS = (COMPRESS,)
