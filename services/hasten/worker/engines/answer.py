"""Follows one streamed answer in OpenAI's form: what each object adds, and whether the end is an end."""

from typing import Any, TypeVar

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
        self._text, self._reasoning = _Text(), _Text()

    def take(self, plain: dict[str, Any]) -> list[Delta]:
        """The deltas in one object; raises EngineError for an error object, and for one of another form than OpenAI's.
        Choices beyond the first are not ours."""
        if plain.get("error"):
            raise refusal(plain["error"])
        if isinstance(usage := plain.get("usage"), dict):
            self._usage = usage_of(usage)
        deltas = []
        for choice in _objects(plain.get("choices")) or ():
            if choice.get("index") in (0, None):
                self._finish_reason = _a(str, choice.get("finish_reason")) or self._finish_reason
                deltas += [delta] if (delta := self._delta_of(choice)) else []
        self._spoken = self._spoken or any(delta.text or delta.tool_calls for delta in deltas)
        return deltas

    def _delta_of(self, choice: dict[str, Any]) -> Delta | None:
        """What a streamed choice (or the `message` of a whole one) adds; None for nothing."""
        piece = _a(dict, choice.get("delta") or choice.get("message")) or {}
        made = Delta(
            text=self._text.add(piece.get("content")),
            reasoning=self._reasoning.add(piece.get("reasoning_content") or piece.get("reasoning")),
            tool_calls=_tool_calls(piece.get("tool_calls")),
            logprobs=_logprobs(choice.get("logprobs")),
        )
        return made if made.text or made.reasoning or made.tool_calls or made.logprobs else None

    def end(self) -> End:
        """The end of a whole answer; raises EngineError(incomplete) for one that only broke off, or is no answer."""
        if not self._finish_reason:
            raise EngineError("incomplete", "the answer broke off without a finish reason")
        if self._finish_reason == "stop" and not self._spoken and not self._may_be_empty:
            raise EngineError("incomplete", "the answer was empty")
        return End(finish_reason=self._finish_reason, usage=self._usage)


class _Text:
    """One kind of text. Half a surrogate pair waits for the other half; one that stays alone is no character."""

    def __init__(self) -> None:
        self._half = ""

    def add(self, value: Any) -> str:
        """What can be shown with this piece."""
        text = self._half + (value if isinstance(value, str) else "")
        if text.isascii():
            self._half = ""
            return text
        self._half = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
        whole = text.removesuffix(self._half) if self._half else text
        return whole.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _odd() -> EngineError:
    return EngineError("upstream", "an object of the stream has another form than OpenAI's", retry_after_ms=1000)


T = TypeVar("T")


def _a(kind: type[T], value: Any) -> T | None:
    if value is None or isinstance(value, kind):
        return value
    raise _odd()


def _objects(value: Any) -> list[dict[str, Any]] | None:
    found = _a(list, value)
    if found and not all(isinstance(one, dict) for one in found):
        raise _odd()
    return found


def _tool_calls(value: Any) -> list[dict[str, Any]] | None:
    """Tool-call deltas whose parts can be put together."""
    calls = _objects(value) or None
    for call in calls or ():
        function = _a(dict, call.get("function")) or {}
        texts = (call.get("id"), function.get("name"), function.get("arguments"))
        if any(not isinstance(text, str | None) for text in texts):
            raise _odd()
    return calls


LEAST_LOGPROB = -9999.0
"""What OpenAI says of a token that is all but impossible; the infinity of others is no JSON."""


def _logprobs(plain: Any) -> list[float]:
    tokens = plain.get("content") if isinstance(plain, dict) else None
    found = [token.get("logprob") for token in tokens if isinstance(token, dict)] if isinstance(tokens, list) else []
    return [max(LEAST_LOGPROB, min(0.0, one)) for one in found if isinstance(one, int | float) and one == one]


def _count(value: Any) -> int:
    """A number of tokens; 0 for what is none."""
    return min(int(value), 2**53) if isinstance(value, int | float) and value > 0 and value == value // 1 else 0


def _counts(plain: dict[str, Any]) -> dict[str, Any] | None:
    found = {name: value for name, value in plain.items() if isinstance(value, int | float)}
    return {name: _count(value) for name, value in found.items()} or None


def usage_of(plain: dict[str, Any]) -> Usage:
    """OpenAI's usage object as ours; what it lacks, or says in another form, is 0."""
    details, spent = plain.get("prompt_tokens_details"), plain.get("completion_tokens_details")
    prompt = _count(plain.get("prompt_tokens"))
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=_count(plain.get("completion_tokens")),
        cached_tokens=min(cached, prompt),
        completion_tokens_details=_counts(spent) if isinstance(spent, dict) else None,
    )
