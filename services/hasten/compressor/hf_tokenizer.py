"""Counts with a model's own tokenizer and chat template, from the files of its Hugging Face repository."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from hasten.compressor.remembered import Remembered
from hasten.compressor.tokens import Tools, as_json, other_parts, written
from hasten.control import THOUGHT
from hasten.messages.chat import Turn
from hasten.telemetry import logger

log = logger("compressor")
TOKENIZER, TEMPLATE, CONFIG = "tokenizer.json", "chat_template.jinja", "tokenizer_config.json"
_PER_TURN = 8
"""What a template that cannot be rendered is taken to add around a turn."""


class HfTokenizer:
    """A TokenCounter for the files in `folder`: tokenizer.json, and chat_template.jinja or the template in the config.

    `kept` counts are remembered, by a hash of the text. `part_tokens` stands for a content part that is not text.
    """

    def __init__(self, folder: Path, *, kept: int = 50_000, part_tokens: int = 0) -> None:
        self.name = folder.name
        self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        config = _config(folder)
        self._special = {name: _text(config.get(name)) for name in ("bos_token", "eos_token")}
        source = _template(folder, config)
        self._shows_tools, self._shows_calls = "tools" in source, "tool_calls" in source
        self._template = _environment().from_string(source)
        self._part_tokens, self._remembered = part_tokens, Remembered(self._new_counts, kept)
        self._added = len(self._tokenizer.encode("").ids)
        self._complained = False
        self.control_tokens = self._find_control_tokens(source)
        self.per_turn = self._measure_turn()
        user, assistant = Turn(role="user", content="a"), Turn(role="assistant", content="a")
        self.opens_with_user = self._takes([user, assistant, user]) and not self._takes([assistant, user])

    def _find_control_tokens(self, source: str) -> tuple[str, ...]:
        """The special tokens, and of the other added ones the marks that the chat template uses."""
        added = self._tokenizer.get_added_tokens_decoder().values()
        return tuple(
            one.content
            for one in added
            if one.special
            or (one.content in source and one.content.startswith(("<", "[")) and one.content not in THOUGHT)
        )

    def _measure_turn(self) -> int:
        one = [Turn(role="user", content="a")]
        three = [*one, Turn(role="assistant", content="a"), *one]
        return max(0, (self.prompt(three) - self.prompt(one)) // 2 - 1)

    def counts(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text; those not met lately are encoded together."""
        return self._remembered.counts(texts)

    def _new_counts(self, texts: list[str]) -> list[int]:
        return [len(one) for one in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def prompt(self, turns: Sequence[Turn], tools: Tools = None, *, opens_answer: bool = True) -> int:
        """The tokens of the rendered template; tools and calls that it does not show are counted as JSON besides."""
        unseen = as_json(tools) if tools and not self._shows_tools else ""
        if not self._shows_calls:
            unseen += "".join(as_json(turn.tool_calls) for turn in turns if turn.tool_calls)
        rest = self._encoded(unseen) + self._added + self._part_tokens * other_parts(turns)
        try:
            return self._encoded(self._render(turns, tools, opens_answer=opens_answer)) + rest
        except (TemplateError, TypeError, ValueError, LookupError, AttributeError) as error:
            self._complain(error)
        return sum(self._encoded(written(turn)) + _PER_TURN for turn in turns) + _PER_TURN + rest

    def _render(self, turns: Sequence[Turn], tools: Tools, *, opens_answer: bool) -> str:
        return self._template.render(
            messages=[_plain(turn) for turn in turns],
            tools=tools or None,
            add_generation_prompt=opens_answer,
            **self._special,
        )

    def _takes(self, turns: Sequence[Turn]) -> bool:
        try:
            self._render(turns, None, opens_answer=True)
        except (TemplateError, TypeError, ValueError, LookupError, AttributeError):
            return False
        return True

    def _encoded(self, text: str) -> int:
        return len(self._tokenizer.encode_batch_fast([text], add_special_tokens=False)[0]) if text else 0

    def _complain(self, error: Exception) -> None:
        if not self._complained:
            self._complained = True
            log.warning(
                "the chat template of %s refused a prompt (%s): its share is estimated", self.name, type(error).__name__
            )


def _plain(turn: Turn) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": turn.role, "content": turn.text}
    optional = {"name": turn.name, "tool_calls": turn.tool_calls, "tool_call_id": turn.tool_call_id}
    return plain | {name: value for name, value in optional.items() if value is not None}


def _config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found if isinstance(found, dict) else {}


def _template(folder: Path, config: dict[str, Any]) -> str:
    path = folder / TEMPLATE
    source = path.read_text(encoding="utf-8") if path.is_file() else config.get("chat_template")
    if not isinstance(source, str):
        raise ValueError(f"{folder.name} has no chat template: put {TEMPLATE} beside {TOKENIZER}")
    return source


def _text(token: Any) -> str:
    """A special token of the config, which is a string or an object that holds one."""
    return str(token.get("content", "")) if isinstance(token, dict) else token or ""


def _environment() -> ImmutableSandboxedEnvironment:
    """What chat templates expect, as transformers gives it to them."""

    def refuse(message: str) -> NoReturn:
        raise TemplateError(message)

    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    made.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
    made.globals.update(raise_exception=refuse, strftime_now=time.strftime)
    return made
