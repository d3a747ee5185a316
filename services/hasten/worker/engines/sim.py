"""The simulator: an engine without a model, for tests, load and development; every time in it is a setting."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Self

from hasten.chunks import split_text
from hasten.messages.chat import Turn, Usage
from hasten.messages.generate import Generate
from hasten.models import Model
from hasten.worker.engines.engine import Delta, End, EngineError
from hasten.worker.engines.prefix_cache import BLOCK, PrefixCache, blocks_of, decode_s, prefill_s
from hasten.worker.engines.tail import Tail

SHORTEST, LONGEST = 24, 72
"""Words of an answer when none is set."""


def prompt_tokens(messages: list[Turn]) -> list[str]:
    """The prompt as the simulator counts it: the role and the words of each turn."""
    return [token for turn in messages for token in (f"<{turn.role}>", *split_text(turn.text))]


def answer_tokens(request: Generate, answer: str) -> list[str]:
    """The whole answer to a request, the same each time: `answer`, or else words of its last turn."""
    if answer:
        return split_text(answer)
    words = request.messages[-1].text.split() or ["nothing"]
    asked = "\0".join([*prompt_tokens(request.messages), str(request.seed)])
    draws = hashlib.shake_128(asked.encode("utf-8", "surrogatepass")).digest(LONGEST + 1)
    count = SHORTEST + draws[0] % (LONGEST - SHORTEST + 1)
    picked = [words[draw % len(words)] for draw in draws[1 : count + 1]]
    return split_text(" ".join(picked) + ".")


def after(tokens: list[str], begun: str) -> list[str]:
    """The tokens that follow the beginning `begun`; raises EngineError if the answer does not begin so."""
    text = "".join(tokens)
    if not text.startswith(begun):
        raise EngineError("bad_request", "the simulator can only continue what it has written", param="continues")
    return split_text(text[len(begun) :])


def until_stop(tokens: list[str], stops: list[str]) -> list[str]:
    """The tokens before the first stop sequence."""
    text = "".join(tokens)
    ends = [at for stop in stops if stop and (at := text.find(stop)) >= 0]
    return split_text(text[: min(ends)]) if ends else tokens


class SimEngine:
    """Waits as long as an engine of these rates would; a slot's speed does not depend on the others."""

    continues = True

    def __init__(self, model: Model) -> None:
        self._config, self._window = model.engine, model.context_window
        self.slots = model.engine.slots
        self.capabilities: list[str] = []
        self._cache = PrefixCache(model.cache_tokens // BLOCK)
        self._tail = Tail(model.engine)
        self._running: dict[str, asyncio.Event] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self.generated = 0

    @classmethod
    def from_config(cls, model: Model, data: Path) -> Self:
        """A simulator with the `sim_*` settings of the row."""
        return cls(model)

    async def start(self) -> None:
        """Nothing to load."""

    async def generate(self, request_id: str, request: Generate) -> AsyncGenerator[Delta | End]:
        """Yields one word at a time; `generated` counts them over all requests."""
        stopped = self._running[request_id] = asyncio.Event()
        self._idle.clear()
        try:
            async for event in self._events(request, stopped):
                yield event
        finally:
            self._running.pop(request_id, None)
            if not self._running:
                self._idle.set()

    async def _events(self, request: Generate, stopped: asyncio.Event) -> AsyncGenerator[Delta | End]:
        config, begun = self._config, split_text(request.continues)
        prompt = prompt_tokens(request.messages) + begun
        if len(prompt) >= self._window:
            detail = f"the prompt has {len(prompt)} tokens, the model takes {self._window}"
            raise EngineError("context_overflow", detail)
        left = after(until_stop(answer_tokens(request, config.sim_answer), request.stop), request.continues)
        blocks = blocks_of(prompt) if config.sim_prefix_cache else []
        cached = min(BLOCK * self._cache.known(blocks), len(prompt) - 1)
        usual_s = prefill_s(config, len(prompt), cached)
        due = asyncio.get_running_loop().time() + self._tail.first_token_s(usual_s)
        await _until(due, stopped)
        self._cache.remember(blocks)
        for token in left[: request.max_tokens]:
            await _until(due, stopped)
            self.generated += 1
            yield Delta(text=token, logprobs=[config.sim_logprob] if request.confidence_after else [])
            due += decode_s(config, 1)
        said = min(len(left), request.max_tokens)
        usage = Usage(prompt_tokens=len(prompt), completion_tokens=said, cached_tokens=cached)
        yield End(finish_reason="length" if len(left) > said else "stop", usage=usage)

    async def abort(self, request_id: str) -> None:
        """Stops a generation at once."""
        if request_id in self._running:
            self._running[request_id].set()

    async def drain(self) -> None:
        """Waits until nothing is generated."""
        await self._idle.wait()

    async def close(self) -> None:
        """Stops every generation."""
        for stopped in self._running.values():
            stopped.set()


async def _until(due: float, stopped: asyncio.Event) -> None:
    """Waits for the moment `due` of the loop's clock; raises EngineError(cancelled) when stopped before."""
    left = due - asyncio.get_running_loop().time()
    if left > 0 and not stopped.is_set():
        try:
            async with asyncio.timeout(left):
                await stopped.wait()
        except TimeoutError:
            return
    elif not stopped.is_set():
        await asyncio.sleep(0)
    if stopped.is_set():
        raise EngineError("cancelled", "the generation was stopped")
