"""Scripted peers for tests of one service: each stage answers what the test says, after the time the test says."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from patience import until

from hasten.bus import Bus
from hasten.chunks import split_text
from hasten.messages.cache import (
    CACHE_LOOKUP,
    CACHE_PUT,
    CacheHit,
    CacheLookup,
    CacheMiss,
    CachePut,
    NotStored,
    Stored,
)
from hasten.messages.chat import Chunk, Done, Turn, Usage
from hasten.messages.compress import COMPRESS, Compress, Compressed
from hasten.messages.embed import EMBED, Embed, Embedded
from hasten.messages.failure import Failure
from hasten.messages.generate import GENERATE, Generate
from hasten.messages.retrieve import RETRIEVE, Passage, Retrieve, Retrieved
from hasten.messages.route import ROUTE, Route, Routed
from hasten.service import Call, Service
from hasten.topics import Topic
from hasten.worker.confidence import Tally

ANSWER = "The tide rises twice a day."
PASSAGE = Passage(id="sea/tides#0", collection="sea", document="tides", text=ANSWER, tags=["document:sea/tides"])


class Scripted:
    """All stages but the orchestrator, as services on a bus; `log` holds (stage, "began" | "ended") in order.

    `delays` maps a stage to seconds, and `waits` to what has to hold before it ends. The cache refuses answers that
    ended for a reason in `refused`. Replies of the retriever have the fields of `retrieved`; with `truncates` each text
    is too long for the embedder. `workers` names the generators and `routed` holds fields of every route;
    `broken[worker]` is called with the call before the worker's n-th chunk and may raise or wait. `better` is the
    worker of a better model; `answers` and `reasons` are those of single workers, and `logprobs` how probable their
    words are to them. `added` turns go to every prompt. With `thinks` the first three chunks are reasoning. `real`
    topics are left to services of the test's own.
    """

    def __init__(self, bus: Bus, *, workers: tuple[str, ...] = ("w1", "w2"), real: tuple[Topic, ...] = ()) -> None:
        self.bus, self.workers = bus, workers
        self.log: list[tuple[str, str]] = []
        self.delays: dict[str, float] = {}
        self.waits: dict[str, Callable[[], bool]] = {}
        self.exact: CacheHit | None = None
        self.semantic: CacheHit | None = None
        self.entries: dict[str, CachePut] = {}
        self.puts: list[CachePut] = []
        self.refused: set[str] = {"length", "content_filter", "error"}
        self.routes: list[Route] = []
        self.windows: dict[str, int] = {}
        self.routed: dict[str, Any] = {}
        self.better = ""
        self.answers: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        self.logprobs: dict[str, float] = {}
        self.compressed: list[Compress] = []
        self.generated: list[tuple[str, Generate]] = []
        self.cancelled: list[str] = []
        self.passages: list[Passage] = []
        self.read_seq = 0
        self.embeds: list[list[str]] = []
        self.truncates = False
        self.retrieves: list[Retrieve] = []
        self.retrieved: dict[str, Any] = {}
        self.added: list[Turn] = []
        self.answer = ANSWER
        self.finish_reason = "stop"
        self.continues = True
        self.thinks = False
        self.chunk_delay_s = 0.0
        self.broken: dict[str, Any] = {}
        self.service = Service(bus, "scripted", "Scripted peers")
        for topic, handler in (
            (EMBED, self._embed),
            (CACHE_LOOKUP, self._lookup),
            (CACHE_PUT, self._put),
            (RETRIEVE, self._retrieve),
            (ROUTE, self._route),
            (COMPRESS, self._compress),
        ):
            if topic not in real:
                self.service.answer(topic, handler, limit=500)
        self.worker_services = {name: self._worker(name) for name in workers if GENERATE not in real}

    def _worker(self, name: str) -> Service:
        service = Service(self.bus, "worker", "A scripted worker")

        async def generate(request: Generate, call: Call) -> None:
            await self._generate(name, request, call)

        service.answer(GENERATE, generate, limit=500, slug="m", worker=name)
        return service

    async def start(self) -> None:
        for service in (self.service, *self.worker_services.values()):
            await service.start()

    async def close(self) -> None:
        for service in (self.service, *self.worker_services.values()):
            await service.close()

    def began(self, *stages: str) -> bool:
        """Whether all of these have begun."""
        return all((stage, "began") in self.log for stage in stages)

    async def _stage(self, name: str) -> None:
        self.log.append((name, "began"))
        try:
            await asyncio.sleep(self.delays.get(name, 0))
            if name in self.waits:
                await until(self.waits[name])
        finally:
            self.log.append((name, "ended"))

    async def _embed(self, request: Embed, _: Call) -> Embedded:
        self.embeds.append(request.texts)
        await self._stage("embed")
        count = len(request.texts)
        return Embedded(vectors=[b"\0\0\x80\x3f"] * count, dim=1, model="scripted", truncated=[self.truncates] * count)

    async def _lookup(self, request: CacheLookup, call: Call) -> CacheHit | CacheMiss:
        stage = "semantic" if request.vector else "exact"
        await self._stage(stage)
        stored = self.entries.get(call.tenant + request.key)
        if stage == "exact" and stored is not None:
            return CacheHit(
                kind="exact", entry_id="e1", answer=stored.answer, tags=stored.tags, read_seq=stored.read_seq
            )
        hit = self.semantic if stage == "semantic" else self.exact
        return hit or CacheMiss(reason="absent")

    async def _put(self, request: CachePut, call: Call) -> Stored | NotStored:
        await self._stage("put")
        self.puts.append(request)
        if request.answer.finish_reason in self.refused:
            return NotStored(reason="truncated")
        self.entries[call.tenant + request.key] = request
        return Stored(entry_id="e1")

    async def _retrieve(self, request: Retrieve, _: Call) -> Retrieved:
        self.retrieves.append(request)
        read_seq = self.read_seq
        await self._stage("retrieve")
        return Retrieved(passages=self.passages, read_seq=read_seq, **self.retrieved)

    async def _route(self, request: Route, _: Call) -> Routed | Failure:
        await self._stage("route")
        self.routes.append(request)
        names = [self.better] if request.above else self.workers
        worker = next((name for name in names if name and name not in request.exclude), None)
        if worker is None:
            return Failure(code="unavailable", detail="no worker is left")
        window = self.windows.get(worker, 4096)
        made = Routed(
            model="m", slug="m", worker=worker, reason="scripted", continues=self.continues, context_window=window
        )
        return msgspec.structs.replace(made, **self.routed, **({"model": "better"} if worker == self.better else {}))

    async def _compress(self, request: Compress, _: Call) -> Compressed:
        await self._stage("compress")
        self.compressed.append(request)
        return Compressed(
            messages=[*request.messages, *self.added],
            tokens_before=10,
            tokens_after=5,
            used=[one.id for one in request.passages],
        )

    async def _generate(self, name: str, request: Generate, call: Call) -> None:
        self.generated.append((name, request))
        try:
            pieces = split_text(self.answers.get(name, self.answer)[len(request.continues) :])
            tally = Tally(request.confidence_after)
            for seq, piece in enumerate(pieces):
                if name in self.broken:
                    await self.broken[name](seq, call)
                await asyncio.sleep(self.chunk_delay_s)
                if note := tally.add([self.logprobs[name]] if name in self.logprobs else []):
                    await call.send(note)
                thought = self.thinks and seq < 3
                await call.send(Chunk(seq=seq, reasoning=piece) if thought else Chunk(seq=seq, text=piece))
            usage = Usage(prompt_tokens=5, completion_tokens=len(pieces))
            if note := tally.note():
                await call.send(note)
            reason = self.reasons.get(name, self.finish_reason)
            await call.send(Done(finish_reason=reason, usage=usage, model="m", chunks=len(pieces)))
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
