"""The naive pipeline: one stage after the other, one big model, the whole retrieval in the prompt, no stream, a new
connection for each call, and one worker that is busy with one request for the whole time.

Its own stages (retrieval, construction of the prompt, queue, post-processing) take the published times; its model call
is a real HTTP request to the simulated provider.
"""

import asyncio
import contextlib
import heapq
import json
from collections.abc import Callable, Sequence

import httpx

from hasten.compressor.tokens import TokenCounter
from hasten.messages.chat import Turn
from loadtest.provider import ASKED
from loadtest.sample import Sample
from loadtest.stages import LARGE, Stack
from loadtest.stopwatch import Stopwatch

Connect = Callable[[], httpx.AsyncClient]
INSTRUCTION = "Read the text and answer the question."


class WholePrompt:
    """Puts passages into a prompt, in their order and whole, until it has the tokens of the stack."""

    def __init__(self, counter: TokenCounter, tokens: int) -> None:
        self._counter, self._tokens = counter, tokens

    def of(self, question: str, passages: Sequence[str]) -> list[Turn]:
        """The messages; raises ValueError when the passages are too few to fill the prompt."""
        text = "\n\n".join(passages)
        if (most := self._counter.prompt(messages_of(question, text))) < self._tokens:
            raise ValueError(f"the prompt has {most} tokens with all passages, {self._tokens} are needed")
        fits, too_long = 0, len(text)
        while too_long - fits > 1:
            middle = (fits + too_long) // 2
            if self._counter.prompt(messages_of(question, text[:middle])) <= self._tokens:
                fits = middle
            else:
                too_long = middle
        return messages_of(question, text[:fits])


def messages_of(question: str, passages: str) -> list[Turn]:
    """The prompt as it is usually written."""
    said = f"{passages}\n\n{ASKED}{question}"
    return [Turn(role="system", content=INSTRUCTION), Turn(role="user", content=said)]


class Naive:
    """`workers` of them; a request waits for one that is free. With `streamed` it differs in nothing but that the
    tokens are shown as they come."""

    def __init__(
        self, stack: Stack, url: str, workers: int, *, streamed: bool = False, connect: Connect | None = None
    ) -> None:
        self._stack, self._url, self._streamed = stack, url, streamed
        self._connect = connect or (lambda: httpx.AsyncClient(timeout=60.0, trust_env=False))
        self._free = asyncio.Semaphore(workers)

    async def ask(self, messages: Sequence[Turn], due: float) -> Sample:
        """One request that was due at a moment of `time.perf_counter`."""
        stack, watch, sample = self._stack, Stopwatch(due), Sample(cache="miss", model=LARGE)
        body = {"model": LARGE, "stream": self._streamed, "messages": [_plain(turn) for turn in messages]}
        async with self._free:
            for stage_ms in (stack.retrieval_ms, stack.construction_ms, stack.queue_ms):
                await asyncio.sleep(stage_ms / 1000)
            async with self._connect() as client:
                if self._streamed:
                    await self._stream(client, body, watch, sample)
                else:
                    response = await client.post(f"{self._url}/chat/completions", json=body)
                    sample.text = response.raise_for_status().json()["choices"][0]["message"]["content"]
            await asyncio.sleep(stack.post_ms / 1000)
        if not self._streamed:
            watch.chunk()
        return watch.stop(sample)

    async def _stream(self, client: httpx.AsyncClient, body: dict[str, object], watch: Stopwatch, to: Sample) -> None:
        async with client.stream("POST", f"{self._url}/chat/completions", json=body) as response:
            async for line in response.aiter_lines():
                with contextlib.suppress(ValueError, LookupError):
                    to.text += json.loads(line.removeprefix("data: "))["choices"][0]["delta"]["content"]
                    watch.chunk()


def _plain(turn: Turn) -> dict[str, str]:
    return {"role": turn.role, "content": turn.text}


def waits_ms(arrivals: Sequence[float], workers: int, service_ms: float) -> list[float]:
    """How long each of these arrivals (seconds) would take, its wait in line included: every worker takes `service_ms`
    for a request, and they come first in line first. It is exact, since the naive stages do not vary."""
    free = [0.0] * workers
    taken = []
    for at in arrivals:
        end = max(at, heapq.heappop(free)) + service_ms / 1000
        heapq.heappush(free, end)
        taken.append(1000 * (end - at))
    return taken
