"""What the compressor asks of a tokenizer."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from hasten.messages.chat import Turn

Tools = list[dict[str, Any]] | None


class TokenCounter(Protocol):
    """Counts tokens as one model does. Safe to be used from several threads.

    `name` says whose tokens they are, `control_tokens` are the strings that its chat template gives a meaning,
    `per_turn` is what the template adds around a turn, and `opens_with_user` whether it refuses any other first turn.
    """

    name: str
    control_tokens: tuple[str, ...]
    per_turn: int
    opens_with_user: bool

    def counts(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text by itself."""
        ...

    def prompt(self, turns: Sequence[Turn], tools: Tools = None, *, opens_answer: bool = True) -> int:
        """The tokens of a whole prompt as the engine sees it: template, tools and, if asked, the answer's opening."""
        ...


def written(turn: Turn) -> str:
    """Everything of a turn that is text: its content and its tool calls."""
    return turn.text if not turn.tool_calls else turn.text + as_json(turn.tool_calls)


def as_json(value: Any) -> str:
    """The JSON of tool schemas or calls, to be counted."""
    return msgspec.json.encode(value).decode()


def other_parts(turns: Sequence[Turn]) -> int:
    """How many content parts (images, audio) are not text."""
    parts = (part for turn in turns if isinstance(turn.content, list) for part in turn.content)
    return sum(part.get("type") not in ("text", "input_text") for part in parts)
