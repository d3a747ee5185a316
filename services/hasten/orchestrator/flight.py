"""One generation and everybody who reads it: what was sent is kept, so that a follower starts at the first chunk."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any

from msgspec import structs

from hasten.messages.cache import CacheMiss
from hasten.messages.chat import Chunk, Done, Note, Turn
from hasten.messages.failure import Failed, Failure
from hasten.messages.follow import Basis
from hasten.orchestrator.results import Results
from hasten.orchestrator.timeline import Observer, Timeline
from hasten.telemetry import Stopwatch, logger, where
from hasten.topics import random_id

log = logger("orchestrator")
Run = Callable[["Flight"], Awaitable[None]]


class Flight:
    """A request on its way. `say` appends an event; `events` yields all of them to each reader, then waits for more.

    `id` names the generation at the worker; `miss` is what the cache said last; `abandoned` is a flight that its last
    reader has left. `tags` and `read_seq` are what the answer depends on so far; `model`, `prompt` and `sources` are
    known when it is generated. `deadline_ms` is that of the reader with the most time; once an engine works on it that
    cannot go on from a given text, the flight is `bound` to the one it had then. `followed` says that another replica
    generates it. A `volatile` one rests on what no change event speaks of: it is not kept, and nobody joins any more.
    """

    def __init__(
        self,
        tenant: str,
        deadline_ms: float,
        *,
        tags: list[str],
        read_seq: int,
        results: Results,
        observer: Observer | None = None,
    ) -> None:
        self.results = results
        self.asked = ""
        """The id of the request that it was begun for."""
        self.tenant, self.deadline_ms, self.tags, self.read_seq = tenant, deadline_ms, tags, read_seq
        self.id = random_id()
        self.watch = Stopwatch()
        self.timeline = Timeline(self.watch.elapsed_ms, observer)
        self.model = self.slug = self.worker = ""
        self.prompt: list[Turn] = []
        self.sources: list[dict[str, Any]] = []
        self.bound = self.followed = self.volatile = False
        self.worker_ttft_ms = 0.0
        self.miss: CacheMiss | None = None
        self.chunks = 0
        self.readers = 0
        self.ended = False
        self.abandoned = False
        self.settled = asyncio.Event()
        self._events: list[Any] = []
        self._more = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, run: Run) -> None:
        """Runs the flight in a task of its own: no reader's leaving stops it while another reads."""
        self._task = asyncio.get_running_loop().create_task(self._guarded(run))

    async def _guarded(self, run: Run) -> None:
        try:
            await run(self)
            if not self.ended:
                self.say(Failure(code="incomplete", detail="the request ended without a result"))
        except asyncio.CancelledError:
            self.say(Failure(code="cancelled", detail="nobody reads the answer any more", tokens_sent=self.chunks))
        except Failed as failed:
            self.say(structs.replace(failed.failure, tokens_sent=self.chunks))
        except Exception as error:
            log.error("a request failed: %s", where(error))
            self.say(Failure(code="internal", detail=f"the orchestrator failed ({type(error).__name__})"))
        finally:
            self.settled.set()

    def say(self, event: Any) -> None:
        """Appends an event for every reader; nothing follows a Done or Failure."""
        if self.ended:
            return
        if isinstance(event, Chunk):
            self.chunks += 1
        self.ended = isinstance(event, (Done, Failure))
        if self.ended:
            self.timeline.close(event.cache if isinstance(event, Done) else None)
        self._events.append(event)
        more, self._more = self._more, asyncio.Event()
        more.set()

    def text(self, text: str = "", **deltas: Any) -> None:
        """Appends a chunk with the next sequence number."""
        self.say(Chunk(seq=self.chunks, text=text, **deltas))

    def pass_on(self, chunk: Chunk) -> None:
        """Appends a chunk of somebody else's with the next sequence number."""
        self.say(structs.replace(chunk, seq=self.chunks))

    def note(self, kind: str, data: dict[str, Any]) -> None:
        """Appends a note."""
        self.say(Note(kind=kind, data=data))

    def extend(self, deadline_ms: float) -> None:
        """Lets the flight live as long as a reader who has joined it."""
        self.deadline_ms = max(self.deadline_ms, deadline_ms)

    @property
    def basis(self) -> Basis:
        """What the answer rests on, as far as it is known."""
        return Basis(
            tags=self.tags, read_seq=self.read_seq, model=self.model, messages=self.prompt, sources=self.sources
        )

    @property
    def said(self) -> list[Chunk]:
        """The chunks so far."""
        return [event for event in self._events if isinstance(event, Chunk)]

    @property
    def failed(self) -> bool:
        """Whether it ended with a Failure."""
        return self.ended and isinstance(self._events[-1], Failure)

    async def events(self) -> AsyncGenerator[Any, None]:
        """Every event from the first on; leave the iterator to leave the flight."""
        self.join()
        try:
            index = 0
            while True:
                while index < len(self._events):
                    yield self._events[index]
                    index += 1
                if self.ended:
                    return
                await self._more.wait()
        finally:
            self.leave()

    def join(self) -> None:
        """Counts somebody who wants the answer."""
        self.readers += 1

    def leave(self) -> None:
        """Ends what `join` began; the last to leave stops the flight."""
        self.readers -= 1
        if not self.readers and not self.ended and self._task is not None:
            self.abandoned = True
            self._task.cancel()


class Flights:
    """The flights of this replica that others may join: here by tenant and plan, from elsewhere by lease."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[object, ...], Flight] = {}
        self._leading: dict[str, Flight] = {}
        self._claims: dict[str, list[asyncio.Event]] = {}
        self.all: set[Flight] = set()

    def find(self, key: tuple[object, ...]) -> Flight | None:
        """The flight of this key that is alive or not yet stored; none that its last reader has left."""
        flight = self._by_key.get(key)
        return None if flight is None or flight.abandoned else flight

    def launch(self, key: tuple[object, ...] | None, flight: Flight, run: Run) -> None:
        """Starts a flight and, with a key, lets others join it until it has settled."""
        self.all.add(flight)
        if key is not None:
            self._by_key[key] = flight

        async def run_and_forget(flight: Flight) -> None:
            try:
                await run(flight)
            finally:
                self.all.discard(flight)
                if key is not None and self._by_key.get(key) is flight:
                    del self._by_key[key]

        flight.start(run_and_forget)

    def lead(self, lease_key: str, flight: Flight) -> None:
        """Lets other replicas follow a flight until it has settled: this replica holds its lease."""
        self._leading[lease_key] = flight

    @contextlib.contextmanager
    def claiming(self, lease_key: str) -> Iterator[None]:
        """While this replica claims a lease: others may see that it has it before it does itself."""
        claim = asyncio.Event()
        self._claims.setdefault(lease_key, []).append(claim)
        try:
            yield
        finally:
            claim.set()
            self._claims[lease_key].remove(claim)
            if not self._claims[lease_key]:
                del self._claims[lease_key]

    async def led(self, lease_key: str) -> Flight | None:
        """The flight that this replica leads under a lease, after the claims of it that are on their way."""
        for claim in () if lease_key in self._leading else list(self._claims.get(lease_key, ())):
            await claim.wait()
        return self._leading.get(lease_key)

    def landed(self, lease_key: str, flight: Flight) -> None:
        """Ends what `lead` began, unless another flight has taken the place."""
        if self._leading.get(lease_key) is flight:
            del self._leading[lease_key]

    async def settle(self, timeout_s: float) -> None:
        """Waits until every flight has ended and stored what it had to."""
        waits = [asyncio.ensure_future(flight.settled.wait()) for flight in self.all]
        if waits:
            _, late = await asyncio.wait(waits, timeout=timeout_s)
            for wait in late:
                wait.cancel()
