"""Brings what an engine produces, in whatever thread or task, to the one who reads it."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Any

from hasten.worker.engines.answer import Answer
from hasten.worker.engines.engine import Delta, End, EngineError

MOST = 4096
"""Objects that wait for a reader before a producer that can be slowed down is."""


class Flow:
    """Events of one generation: the producer's `put` and `end`, the reader's `get`, and `stop` for either to give up.

    `put` may be called in any thread and wakes the loop once for all events that have come meanwhile. `on_stop` is
    called at most once, by the first `stop`.
    """

    def __init__(self, on_stop: Callable[[], object] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._events: deque[Any] = deque()
        self._there, self._taken = asyncio.Event(), asyncio.Event()
        self._waking = False
        self.on_stop = on_stop
        self.stopped = self.ended = False

    def put(self, event: Any) -> bool:
        """Hands over an object, or an exception for the reader to raise; returns whether to stop."""
        self._events.append(event)
        if not self._waking:
            self._waking = True
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake)
        return self.stopped

    def end(self) -> None:
        """Says that nothing more comes."""
        self.put(None)

    def _wake(self) -> None:
        self._waking = False
        self._there.set()

    @property
    def waiting(self) -> bool:
        """Whether something is there to be read now."""
        return bool(self._events)

    async def get(self) -> Any:
        """The next object, None at the end; raises the exceptions that were put."""
        while not self._events:
            self._there.clear()
            await self._there.wait()
        event = self._events.popleft()
        self._taken.set()
        if isinstance(event, Exception):
            raise event
        self.ended = event is None
        return event

    async def room(self) -> None:
        """Waits, in the loop of the reader, while that is far behind."""
        while len(self._events) >= MOST and not self.stopped:
            self._taken.clear()
            await self._taken.wait()

    def stop(self) -> None:
        """Gives up: the producer hears of it by `put` or `on_stop`, the reader by EngineError(cancelled)."""
        if self.stopped or self.ended:
            return
        self.stopped = True
        self._events.clear()
        self._taken.set()
        self.put(EngineError("cancelled", "the generation was stopped"))
        if self.on_stop is not None:
            self.on_stop()


async def relay(
    flow: Flow, answer: Answer, first_s: float | None = None, between_s: float | None = None
) -> AsyncGenerator[Delta | End]:
    """Yields what `answer` makes of the objects of a flow, and its End; stops the flow when it is left early.

    Waits `first_s` seconds for each object before the first delta and `between_s` for each after it, for ever by
    default; raises EngineError(upstream) when that was not enough.
    """
    patience = first_s
    try:
        while (plain := await _soon(flow, patience)) is not None:
            for delta in answer.take(plain):
                patience = between_s
                yield delta
        yield answer.end()
    finally:
        flow.stop()


async def _soon(flow: Flow, seconds: float | None) -> Any:
    if flow.waiting:
        return await flow.get()
    try:
        async with asyncio.timeout(seconds):
            return await flow.get()
    except TimeoutError:
        raise EngineError("upstream", f"the engine sent nothing for {seconds:g} s", retry_after_ms=1000) from None
