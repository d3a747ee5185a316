"""A chat answer in OpenAI's form: streamed by `sse`, or whole, put together here from the events of its stream."""

from typing import Any

from hasten.chunks import merge_tool_calls
from hasten.gateway.choices import Chosen
from hasten.gateway.head import Head
from hasten.messages.chat import Chunk, Done, Usage


def completion_id(request_id: str) -> str:
    """The `id` of the completion of a request."""
    return f"chatcmpl-{request_id}"


def usage_object(usage: Usage) -> dict[str, Any]:
    """OpenAI's usage; the details of an answer from the cache are those of its first generation."""
    prompt = usage.prompt_tokens_details or {}
    details = {"completion_tokens_details": usage.completion_tokens_details} if usage.completion_tokens_details else {}
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {**prompt, "cached_tokens": usage.cached_tokens},
        **details,
    }


class Said:
    """Gathers the chunks of one answer."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._tool_calls: list[dict[str, Any]] = []
        self._logprobs: list[dict[str, Any]] = []
        self.finish_reason: str | None = None

    def add(self, chunk: Chunk) -> None:
        """Takes in one chunk."""
        self._text.append(chunk.text)
        self._reasoning.append(chunk.reasoning)
        self._tool_calls += chunk.tool_calls or []
        self._logprobs += chunk.logprobs or []

    @property
    def logprobs(self) -> dict[str, Any] | None:
        """OpenAI's object, None where nobody has told any."""
        return {"content": self._logprobs, "refusal": None} if self._logprobs else None

    def message(self) -> dict[str, Any]:
        """The message. An empty answer is an answer."""
        text, reasoning = "".join(self._text), "".join(self._reasoning)
        calls = merge_tool_calls(self._tool_calls)
        message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else ""), "refusal": None}
        if reasoning:
            message["reasoning_content"] = reasoning
        if calls:
            message["tool_calls"] = calls
        return message


class Completion:
    """Gathers the events of one stream (`see`), whose answers are told apart by their number."""

    def __init__(self) -> None:
        self._said: dict[int, Said] = {}

    def see(self, event: Any) -> None:
        """Takes in one event."""
        choice, event = (event.choice, event.event) if isinstance(event, Chosen) else (0, event)
        if isinstance(event, Chunk | Done):
            said = self._said.setdefault(choice, Said())
            if isinstance(event, Chunk):
                said.add(event)
            else:
                said.finish_reason = said.finish_reason or event.finish_reason

    def body(self, done: Done, head: Head, created: int) -> dict[str, Any]:
        """The `chat.completion` object."""
        self.see(done)
        choices = [
            {
                "index": at,
                "message": said.message(),
                "logprobs": said.logprobs,
                "finish_reason": said.finish_reason,
            }
            for at, said in sorted(self._said.items())
        ]
        return {
            "id": completion_id(head.request_id),
            "object": "chat.completion",
            "created": created,
            "model": head.model,
            "choices": choices,
            "usage": usage_object(done.usage),
        }
