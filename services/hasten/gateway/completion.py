"""A whole answer in OpenAI's form, put together from the events of its stream."""

from typing import Any

from hasten.chunks import merge_tool_calls
from hasten.gateway.head import Head
from hasten.messages.chat import Chunk, Done, Usage
from hasten.messages.failure import Failure


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


class Completion:
    """Gathers the events of one stream (`see`) until it has `ended`."""

    def __init__(self) -> None:
        self.ended: Done | Failure | None = None
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._tool_calls: list[dict[str, Any]] = []

    def see(self, event: Any) -> None:
        """Takes in one event."""
        if isinstance(event, Chunk):
            self._text.append(event.text)
            self._reasoning.append(event.reasoning)
            self._tool_calls += event.tool_calls or []
        elif isinstance(event, (Done, Failure)):
            self.ended = event

    def body(self, done: Done, head: Head, created: int) -> dict[str, Any]:
        """The `chat.completion` object. An empty answer is an answer."""
        choice = {"index": 0, "message": self._message(), "logprobs": None, "finish_reason": done.finish_reason}
        return {
            "id": completion_id(head.request_id),
            "object": "chat.completion",
            "created": created,
            "model": head.model,
            "choices": [choice],
            "usage": usage_object(done.usage),
        }

    def _message(self) -> dict[str, Any]:
        text, reasoning = "".join(self._text), "".join(self._reasoning)
        calls = merge_tool_calls(self._tool_calls)
        message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "")}
        if reasoning:
            message["reasoning_content"] = reasoning
        if calls:
            message["tool_calls"] = calls
        return message
