"""What vLLM generates as the objects of OpenAI's stream: text, tool calls, an end and usage."""

from typing import Any

from hasten.worker.engines.engine import EngineError
from hasten.worker.engines.forced import Reader

ENDS = ("stop", "length")
"""What vLLM calls a finish; anything else is none."""


class Output:
    """Follows one generation of a prompt of `prompt_tokens`."""

    def __init__(self, prompt_tokens: int, reader: Reader) -> None:
        self._prompt_tokens, self._reader = prompt_tokens, reader
        self._tokens = 0

    def take(self, output: Any) -> list[dict[str, Any]]:
        """The objects for one RequestOutput of kind DELTA; raises EngineError for an end that is none."""
        (piece,) = output.outputs
        self._tokens += len(piece.token_ids)
        deltas, probable = self._reader.read(piece.text, list(piece.token_ids)), _probable(piece)
        if piece.finish_reason is None:
            return [*probable, *(_object(delta) for delta in deltas)]
        if piece.finish_reason not in ENDS:
            raise EngineError("upstream", f"vLLM ended the generation ({piece.finish_reason})", retry_after_ms=1000)
        deltas += self._reader.finish()
        reason = "tool_calls" if self._reader.calls and piece.finish_reason == "stop" else piece.finish_reason
        end = _object({}, reason) | {"usage": self._usage(output)}
        return [*probable, *(_object(delta) for delta in deltas), end]

    def _usage(self, output: Any) -> dict[str, Any]:
        cached = {"cached_tokens": output.num_cached_tokens or 0}
        return {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": self._tokens,
            "prompt_tokens_details": cached,
        }


def _probable(piece: Any) -> list[dict[str, Any]]:
    """How probable the tokens of a piece were, where that was asked."""
    if not piece.logprobs:
        return []
    found = [{"logprob": each[token].logprob} for token, each in zip(piece.token_ids, piece.logprobs, strict=True)]
    return [{"choices": [{"index": 0, "delta": {}, "logprobs": {"content": found}}]}]


def _object(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


class TextReader:
    """All of it is text."""

    calls = False

    def read(self, text: str, tokens: list[int]) -> list[dict[str, Any]]:
        """The text as it is."""
        return [{"content": text}] if text else []

    def finish(self) -> list[dict[str, Any]]:
        """Nothing is held back."""
        return []
