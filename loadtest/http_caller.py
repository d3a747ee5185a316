"""Asks one request over HTTP and reads its server-sent events: hasten's gateway, or any OpenAI-compatible server."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, Self

import httpx
import msgspec

from hasten.topics import random_id
from loadtest.price import Prices, charge
from loadtest.sample import DONE, Sample
from loadtest.stopwatch import Stopwatch

_CODES = {400: "bad_request", 401: "unauthorized", 429: "overloaded", 503: "unavailable", 504: "deadline"}


class HttpCaller:
    """A program with an API key. Make it with `async with HttpCaller.connect(url, key)`; `texts` keeps the answers."""

    def __init__(self, client: httpx.AsyncClient, prices: Prices, *, texts: bool = False) -> None:
        self._client, self._prices, self._texts = client, prices, texts

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(
        cls, url: str, key: str = "", prices: Prices | None = None, *, timeout_s: float = 60.0, texts: bool = False
    ) -> AsyncIterator[Self]:
        """Keeps as many connections open as there are requests at once; `url` is without the `/v1`."""
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        async with httpx.AsyncClient(base_url=url, headers=headers, limits=limits, timeout=timeout_s) as client:
            yield cls(client, prices or {}, texts=texts)

    async def ask(self, body: Mapping[str, Any], due: float) -> Sample:
        """Asks a chat body that was due at a moment of `time.perf_counter`, and reads the answer to its end."""
        sample, watch = Sample(request_id=random_id()), Stopwatch(due)
        asked = {"model": "auto", **body, "stream": True, "stream_options": {"include_usage": True}}
        headers = {"x-request-id": sample.request_id}
        try:
            async with self._client.stream("POST", "/v1/chat/completions", json=asked, headers=headers) as answer:
                await self._read(answer, sample, watch)
        except httpx.TimeoutException:
            sample.outcome = "timeout"
        except httpx.HTTPError:
            sample.outcome = "disconnected"
        return watch.stop(sample)

    async def _read(self, answer: httpx.Response, sample: Sample, watch: Stopwatch) -> None:
        sample.cache = answer.headers.get("x-hasten-cache", "")
        if answer.status_code != 200:
            sample.outcome, sample.detail = _refusal(answer.status_code, await answer.aread())
            return
        sample.outcome = "incomplete"
        async for line in answer.aiter_lines():
            if line == "data: [DONE]":
                sample.outcome = DONE if sample.outcome == "incomplete" else sample.outcome
            elif line.startswith("data: "):
                self._see(msgspec.json.decode(line[6:]), sample, watch)
        if sample.ok:
            charge(sample, self._prices)

    def _see(self, frame: dict[str, Any], sample: Sample, watch: Stopwatch) -> None:
        if error := frame.get("error"):
            sample.outcome, sample.detail = str(error.get("code") or "failed"), str(error.get("message") or "")
            return
        sample.model = frame.get("model") or sample.model
        for choice in frame.get("choices") or []:
            delta = choice.get("delta") or {}
            if delta.get("content") or delta.get("tool_calls") or delta.get("reasoning_content"):
                watch.chunk()
                if self._texts:
                    sample.text += delta.get("content") or ""
        if usage := frame.get("usage"):
            sample.prompt_tokens = usage.get("prompt_tokens") or 0
            sample.completion_tokens = usage.get("completion_tokens") or 0
            sample.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0


def _refusal(status: int, body: bytes) -> tuple[str, str]:
    """The code and the message that an error object gives, or else a code for its status."""
    with contextlib.suppress(msgspec.DecodeError, AttributeError, TypeError, KeyError):
        error = msgspec.json.decode(body)["error"]
        if isinstance(code := error.get("code"), str):
            return code, str(error.get("message") or "")
    return _CODES.get(status, f"http_{status}"), ""
