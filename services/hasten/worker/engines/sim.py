"""The simulator: an engine without a model, for tests, load and development; every time in it is a setting."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Self

from hasten.chunks import split_text
from hasten.messages.chat import Turn, Usage
from hasten.messages.generate import Generate
from hasten.models import Model
from hasten.worker.engines.engine import Delta, End, EngineError
from hasten.worker.engines.tail import Tail

BLOCK = 16
"""Tokens per block of the prefix cache; a block counts only whole."""
MOST_BLOCKS = 8192
SHORTEST, LONGEST = 24, 72
"""Words of an answer when none is set."""


class PrefixCache:
    """Which beginnings of prompts have been computed, in blocks, the least recently used forgotten first."""

    def __init__(self, most: int = MOST_BLOCKS) -> None:
        self._blocks: OrderedDict[bytes, None] = OrderedDict()
        self._most = most

    def reuse(self, tokens: list[str]) -> int:
        """How many leading tokens were there already, always at least one less than all; then remembers them all."""
        digest, known, growing = b"", 0, True
        for start in range(0, len(tokens) - BLOCK + 1, BLOCK):
            block = "\0".join(tokens[start : start + BLOCK]).encode("utf-8", "surrogatepass")
            digest = hashlib.blake2b(digest + block, digest_size=16).digest()
            growing = growing and digest in self._blocks
            known += BLOCK if growing else 0
            self._blocks[digest] = None
            self._blocks.move_to_end(digest)
        while len(self._blocks) > self._most:
            self._blocks.popitem(last=False)
        return min(known, len(tokens) - 1)


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
        self._cache = PrefixCache()
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
        cached = self._cache.reuse(prompt) if config.sim_prefix_cache else 0
        prefill_s = config.sim_network_ms / 1000 + (len(prompt) - cached) / config.sim_prefill_per_s
        due = asyncio.get_running_loop().time() + self._tail.first_token_s(prefill_s)
        await _until(due, stopped)
        for token in left[: request.max_tokens]:
            await _until(due, stopped)
            self.generated += 1
            yield Delta(text=token, logprobs=[config.sim_logprob] if request.confidence_after else [])
            due += 1 / config.sim_decode_per_s
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
