"""Follows one streamed answer in OpenAI's form: what each object adds, and whether the end is an end."""

from typing import Any

import msgspec
from msgspec import UNSET

from hasten.messages.chat import Usage
from hasten.worker.engines.engine import Delta, End, EngineError
from hasten.worker.engines.finish import BROKEN_OFF, finish_reason
from hasten.worker.engines.probable import LEAST_LOGPROB, entries
from hasten.worker.engines.refusal import RETRY_MS, refusal
from hasten.worker.engines.tool_call import Calls


class Answer:
    """The state of one answer. `may_be_empty` says that a stop without a word is a real answer.

    It is one when the caller gave stop sequences or a beginning, and for an engine whose word is the model's own.
    `alternatives` is how many more tokens are told of beside each that was taken, None when the caller wants no
    log-probabilities.
    """

    def __init__(self, *, may_be_empty: bool = False, alternatives: int | None = None) -> None:
        self._may_be_empty, self._alternatives = may_be_empty, alternatives
        self._told = False
        self._finish_reason = ""
        self._usage = Usage()
        self._spoken = self._calls_tools = False
        self._text, self._reasoning, self._calls = _Text(), _Text(), Calls()

    def take(self, plain: dict[str, Any]) -> list[Delta]:
        """The deltas in one object. Choices beyond the first are not ours.

        Raises EngineError for an error object and for an object of another form: a word that is not understood is
        never left out in silence.
        """
        if error := plain.get("error") or (plain.get("object") == "error" and plain):
            raise refusal(error)
        if isinstance(usage := plain.get("usage"), dict):
            self._usage = usage_of(usage)
        deltas = []
        for choice in map(_object, _list(plain.get("choices"))):
            if choice.get("index") in (0, None):
                reason = choice.get("finish_reason")
                self._finish_reason = reason if isinstance(reason, str) and reason else self._finish_reason
                deltas += [delta] if (delta := self._delta_of(choice)) else []
        self._calls_tools = self._calls_tools or any(delta.tool_calls for delta in deltas)
        self._spoken = self._spoken or self._calls_tools or any(delta.text for delta in deltas)
        return deltas

    def end(self) -> End:
        """The end of a whole answer; raises EngineError(incomplete) for one that only broke off, or is no answer."""
        reason = finish_reason(self._finish_reason, calls=self._calls_tools)
        if not reason or reason.lower() in BROKEN_OFF:
            raise EngineError("incomplete", "the answer broke off without a finish reason")
        if reason == "stop" and not self._spoken and not self._may_be_empty:
            raise EngineError("incomplete", "the answer was empty")
        return End(finish_reason=reason, usage=self._usage)

    def _delta_of(self, choice: dict[str, Any]) -> Delta | None:
        """What a streamed choice (or the `message` of a whole one) adds; None for nothing. A refusal is text."""
        piece = _object(choice.get("delta") or choice.get("message"))
        if piece.get("function_call"):
            raise EngineError("unsupported", "functions are called as tools only: ask with tools", param="tools")
        said, thought = _said(piece.get("content"))
        thought = _string(piece.get("reasoning_content")) or _string(piece.get("reasoning")) or thought
        made = Delta(
            text=self._text.add(said + _string(piece.get("refusal"))),
            reasoning=self._reasoning.add(thought),
            tool_calls=[self._calls.numbered(_call(_object(one))) for one in _list(piece.get("tool_calls"))] or None,
            logprobs=_logprobs(choice.get("logprobs")),
            tokens=[] if self._alternatives is None else entries(choice.get("logprobs"), self._alternatives),
        )
        self._told = self._told or bool(made.tokens)
        if self._alternatives is not None and made.text and not self._told:
            raise EngineError("unsupported", "the model server tells no log-probabilities", param="logprobs")
        return made if made.text or made.reasoning or made.tool_calls or made.logprobs or made.tokens else None


class _Text:
    """One kind of text. Half a surrogate pair waits for the other half; one that stays alone is no character."""

    def __init__(self) -> None:
        self._half = ""

    def add(self, piece: str) -> str:
        """What can be shown with this piece."""
        text = self._half + piece
        if text.isascii():
            self._half = ""
            return text
        self._half = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
        whole = text.removesuffix(self._half) if self._half else text
        return whole.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _said(content: Any) -> tuple[str, str]:
    """Text and thoughts: text as it is, or content parts, which some servers stream as well; raises EngineError for a
    part of another kind."""
    if content is None or isinstance(content, str):
        return content or "", ""
    said, thought = list[str](), list[str]()
    for part in map(_object, _list(content)):
        thinks = "thinking" in part
        found = part.get("thinking") if thinks else part.get("text", part.get("refusal"))
        if not thinks and not isinstance(found, str):
            raise _odd()
        (thought if thinks else said).append(_said(found)[0])
    return "".join(said), "".join(thought)


def _call(delta: dict[str, Any]) -> dict[str, Any]:
    """A delta of a tool call, its arguments as text: some servers send the object itself."""
    function = dict(_object(delta.get("function")))
    if isinstance(function.get("arguments"), dict):
        function["arguments"] = msgspec.json.encode(function["arguments"]).decode()
    for text in (delta.get("id"), function.get("name"), function.get("arguments")):
        _string(text)
    if not _is_number(delta.get("index")):
        raise _odd()
    return {**delta, "function": function}


def _is_number(index: Any) -> bool:
    return index is None or (isinstance(index, int) and not isinstance(index, bool))


def _object(value: Any) -> dict[str, Any]:
    if value is None or isinstance(value, dict):
        return value or {}
    raise _odd()


def _list(value: Any) -> list[Any]:
    if value is None or isinstance(value, list):
        return value or []
    raise _odd()


def _string(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    raise _odd()


def _odd() -> EngineError:
    return EngineError("upstream", "an object of the stream has another form than OpenAI's", retry_after_ms=RETRY_MS)


def _logprobs(plain: Any) -> list[float]:
    tokens = plain.get("content") if isinstance(plain, dict) else None
    found = [token.get("logprob") for token in tokens if isinstance(token, dict)] if isinstance(tokens, list) else []
    return [max(LEAST_LOGPROB, min(0.0, one)) for one in found if isinstance(one, int | float) and one == one]


def _count(value: Any) -> int:
    """A number of tokens; 0 for what is none."""
    return int(value) if isinstance(value, int | float) and 0 < value < 2**53 and value == value // 1 else 0


def _counts(plain: Any) -> dict[str, Any]:
    found = plain if isinstance(plain, dict) else {}
    return {name: _count(value) for name, value in found.items() if isinstance(value, int | float)}


def usage_of(plain: dict[str, Any]) -> Usage:
    """OpenAI's usage object as ours; what it lacks, or says in another form, is 0."""
    prompt, details = _count(plain.get("prompt_tokens")), _counts(plain.get("prompt_tokens_details"))
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=_count(plain.get("completion_tokens")),
        cached_tokens=min(details.pop("cached_tokens", 0) or _count(plain.get("prompt_cache_hit_tokens")), prompt),
        prompt_tokens_details=details or UNSET,
        completion_tokens_details=_counts(plain.get("completion_tokens_details")) or None,
    )
