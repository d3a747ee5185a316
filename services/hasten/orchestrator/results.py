"""Tells every router how each attempt at a worker went: the last one of a request hides those that failed before."""

import contextlib
from typing import Any

import nats.errors

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.messages.attempt import ATTEMPTED, Attempted
from hasten.messages.chat import Chunk, Done
from hasten.messages.failure import Failure
from hasten.telemetry import Stopwatch
from hasten.topics import random_id


class Results:
    """The results of one orchestrator's attempts, numbered."""

    def __init__(self, bus: Bus) -> None:
        self._bus, self._source, self._seq = bus, random_id(), 0

    def begin(self, flight: str, slug: str, worker: str, request: str = "") -> "Result":
        """The result of an attempt that begins now, for a request (`tenant/id`)."""
        return Result(self, flight, slug, worker, request)

    async def announce(self, slug: str, **fields: Any) -> None:
        """Says how an attempt went."""
        self._seq += 1
        event = Attempted(source=self._source, seq=self._seq, at_ms=now_ms(), **fields)
        with contextlib.suppress(nats.errors.Error):
            await self._bus.publish(ATTEMPTED, event, slug=slug)


class Result:
    """How one attempt goes. `heard` takes in each event of the worker; `end` announces, once, what became of it: an
    attempt that was left before its end was cancelled."""

    def __init__(self, results: Results, flight: str, slug: str, worker: str, request: str) -> None:
        self._results, self._flight, self._slug, self._worker = results, flight, slug, worker
        self._request = request
        self._watch = Stopwatch()
        self._ttft_ms = 0.0
        self._outcome = "cancelled"
        self._ended = False

    def heard(self, event: Chunk | Done | Failure) -> None:
        """Takes in an event of the worker."""
        if isinstance(event, Chunk):
            self._ttft_ms = self._ttft_ms or self._watch.elapsed_ms()
        else:
            self._outcome = "done" if isinstance(event, Done) else event.code

    async def end(self) -> None:
        """Announces the result, unless that was done before."""
        if self._ended:
            return
        self._ended = True
        await self._results.announce(
            self._slug,
            flight=self._flight,
            worker=self._worker,
            outcome=self._outcome,
            request=self._request if self._outcome not in ("done", "cancelled") else "",
            ttft_ms=round(self._ttft_ms, 3),
            total_ms=round(self._watch.elapsed_ms(), 3),
        )
