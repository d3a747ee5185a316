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
    recall, floor, each 0 to 1. `tools` go to the engine beside the messages and count. `explain` asks what became of
    each sentence, round and example.
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
    explain: bool = False


class Piece(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A sentence of a passage, a round of the history or an example: its tokens, whether it was kept, and why."""

    text: str = ""
    tokens: int = 0
    kept: bool = False
    why: str = ""


class Part(Body, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one part of the prompt: its tokens before and after, and why; `pieces` where it was asked for."""

    kind: str
    id: str = ""
    before: int = 0
    after: int = 0
    why: str = ""
    pieces: list[Piece] = []


class Compressed(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """The prompt as messages, the stable part first. Counts are tokens including the chat template.

    `stable_tokens` is the length of the part that is byte-identical for every request with the same system text,
    tools and examples: the first `stable` messages. `used` lists the ids of the passages of which something was kept.
    """

    messages: list[Turn]
    tokens_before: int
    tokens_after: int
    stable_tokens: int = 0
    stable: int = 0
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
