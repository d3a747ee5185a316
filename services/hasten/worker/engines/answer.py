"""Follows one streamed answer in OpenAI's form: what each object adds, and whether the end is an end."""

from typing import Any

from hasten.messages.chat import Usage
from hasten.worker.engines.engine import Delta, End, EngineError
from hasten.worker.engines.refusal import refusal


class Answer:
    """The state of one answer. `may_be_empty` says that a stop without a word is a real answer.

    It is one when the caller gave stop sequences or a beginning, and for an engine whose word is the model's own.
    """

    def __init__(self, *, may_be_empty: bool = False) -> None:
        self._may_be_empty = may_be_empty
        self._finish_reason = ""
        self._usage = Usage()
        self._spoken = False

    def take(self, plain: dict[str, Any]) -> list[Delta]:
        """The deltas in one object; raises EngineError for an error object. Choices beyond the first are not ours."""
        if plain.get("error"):
            raise refusal(plain["error"])
        if isinstance(usage := plain.get("usage"), dict):
            self._usage = usage_of(usage)
        deltas = []
        for choice in plain.get("choices") or ():
            if choice.get("index") in (0, None):
                self._finish_reason = choice.get("finish_reason") or self._finish_reason
                deltas += [delta] if (delta := _delta_of(choice)) else []
        self._spoken = self._spoken or any(delta.text or delta.tool_calls for delta in deltas)
        return deltas

    def end(self) -> End:
        """The end of a whole answer; raises EngineError(incomplete) for one that only broke off, or is no answer."""
        if not self._finish_reason:
            raise EngineError("incomplete", "the answer broke off without a finish reason")
        if self._finish_reason == "stop" and not self._spoken and not self._may_be_empty:
            raise EngineError("incomplete", "the answer was empty")
        return End(finish_reason=self._finish_reason, usage=self._usage)


def _delta_of(choice: dict[str, Any]) -> Delta | None:
    """What a streamed choice (or the `message` of a whole one) adds; None for nothing."""
    piece = choice.get("delta") or choice.get("message") or {}
    made = Delta(
        text=_text(piece.get("content")),
        reasoning=_text(piece.get("reasoning_content") or piece.get("reasoning")),
        tool_calls=piece.get("tool_calls") or None,
        logprobs=_logprobs(choice.get("logprobs")),
    )
    return made if made.text or made.reasoning or made.tool_calls or made.logprobs else None


def _logprobs(plain: Any) -> list[float]:
    tokens = plain.get("content") if isinstance(plain, dict) else None
    found = [token.get("logprob") for token in tokens or () if isinstance(token, dict)]
    return [float(one) for one in found if isinstance(one, int | float)]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def usage_of(plain: dict[str, Any]) -> Usage:
    """OpenAI's usage object as ours; what it lacks is 0."""
    details = plain.get("prompt_tokens_details") or {}
    return Usage(
        prompt_tokens=plain.get("prompt_tokens") or 0,
        completion_tokens=plain.get("completion_tokens") or 0,
        cached_tokens=details.get("cached_tokens") or 0,
        completion_tokens_details=plain.get("completion_tokens_details"),
    )
