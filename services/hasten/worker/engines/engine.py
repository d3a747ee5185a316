"""What a worker needs of an engine: six verbs and three facts, the same for one in process and one behind HTTP."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Protocol, Self

import msgspec

from hasten.messages.chat import Usage
from hasten.messages.failure import Code
from hasten.messages.generate import Generate
from hasten.models import Model


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of the answer, as soon as the engine has it. Text never ends inside a character.

    `logprobs` are the natural logarithms of how probable its tokens were, where the request has `confidence_after` and
    the engine knows; `tokens` are OpenAI's entries of the same, where the request has `logprobs`.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: list[dict[str, Any]] | None = None
    logprobs: list[float] = []
    tokens: list[dict[str, Any]] = []


class End(msgspec.Struct, frozen=True, kw_only=True):
    """The generation is over: `finish_reason` is OpenAI's (stop, length, tool_calls, content_filter)."""

    finish_reason: str
    usage: Usage = Usage()


class EngineError(Exception):
    """A generation failed, and the engine is well: whatever else it raises means that it is not.

    `code` is one of those of a Failure, `detail` a sentence without prompt, answer, address or key, `param` the field
    of the request that was refused.
    """

    def __init__(self, code: Code, detail: str, *, retry_after_ms: int | None = None, param: str | None = None) -> None:
        super().__init__(f"{code}: {detail}")
        self.code: Code = code
        self.detail, self.retry_after_ms, self.param = detail, retry_after_ms, param


def tenant_of(request_id: str) -> str:
    """The tenant in the id of a generation (`tenant/id`), empty when there is none."""
    tenant, found, _ = request_id.partition("/")
    return tenant if found else ""


class Engine(Protocol):
    """An engine that runs one model. The worker never asks for more than `slots` generations at once.

    `continues`: it can go on from the beginning of an answer. `capabilities`: what requests may ask of it (tools,
    json, vision, logprobs), beyond text. One that asks others may have `pause_ms`: how long they want to be left alone.
    """

    @property
    def slots(self) -> int:
        """How many generations run at once."""

    @property
    def continues(self) -> bool:
        """Whether `Generate.continues` is understood."""

    @property
    def capabilities(self) -> list[str]:
        """What it can do besides text."""

    @classmethod
    def from_config(cls, model: Model, data: Path) -> Self:
        """An engine for this row of the model table that has not started; raises SettingsError for a bad row."""

    async def start(self) -> None:
        """Loads the model; returns when it can generate. Raises one sentence when it cannot, EngineError when it is
        worth trying again."""

    def generate(self, request_id: str, request: Generate) -> AsyncGenerator[Delta | End]:
        """Yields deltas and one End, or raises EngineError; closing the iterator early is an abort.

        `request_id` is the tenant, a slash and the caller's id: no two of them run here at once.
        `max_tokens` and the usage count what is generated now, not what `continues` brings.
        """

    async def abort(self, request_id: str) -> None:
        """Stops a generation, whose iterator raises EngineError(cancelled); an unknown id is nothing."""

    async def drain(self) -> None:
        """Returns when no generation is running."""

    async def close(self) -> None:
        """Stops everything and frees what `start` took, even if that had not finished; may be called twice."""
