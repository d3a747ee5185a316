"""All of hasten that answers a question over the bus, each service as a process, in front of the simulated provider."""

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec

from hasten.client import Hasten
from hasten.journal import ensure_stream
from hasten.messages.cache import Invalidate
from hasten.messages.retrieve import RETRIEVE, Document, Retrieve, Retrieved
from hasten.models import EngineConfig, Model
from hasten.nats_server import NatsServer, free_port
from loadtest.crew import ready
from loadtest.price import Prices, prices
from loadtest.provider import Record
from loadtest.stages import COMPLETION_TIMES, LARGE, SMALL, Stack
from loadtest.staleness.fleet import Member
from loadtest.toml_text import written
from loadtest.workload import Question

TENANT, COLLECTION = "loadtest", "data"
SERVICES = ("embedder", "cache", "retriever", "router", "compressor", "orchestrator")
WINDOW = 16_384
QUALITY = {SMALL: 0.4, LARGE: 0.8}
INGESTED_AT_ONCE = 64
DEADLINE_S = 120.0


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What a run sets that is not hasten's default: the tokens to aim for in a prompt, and the passages that are
    retrieved (0: hasten's own number)."""

    token_budget: int
    passages: int = 0


def rows(stack: Stack, url: str, slots: int, setup: Setup) -> list[Model]:
    """The model table: both models at the provider, which has `slots` for the two together."""
    return [
        Model(
            name=name,
            slug=name,
            engine=EngineConfig(kind="openai", url=url, slots=slots, queue=512),
            quality=QUALITY[name],
            cost_per_1k_prompt=stack.prompt_price(name),
            cost_per_1k_completion=COMPLETION_TIMES * stack.prompt_price(name),
            context_window=WINDOW,
            token_budget=setup.token_budget,
            tokenizer="smollm2",
        )
        for name in (SMALL, LARGE)
    ]


def config_of(models: Sequence[Model], setup: Setup) -> str:
    """The configuration file."""
    tables: dict[str, Any] = {"models": msgspec.to_builtins(models)}
    return written({**tables, "orchestrator": {"passages": setup.passages}} if setup.passages else tables)


class ProviderProcess:
    """The simulated provider, as a process of its own."""

    def __init__(self, port: int) -> None:
        self._root = f"http://127.0.0.1:{port}"
        self.url = f"{self._root}/v1"

    async def records(self) -> list[Record]:
        """What it has been asked since this was asked last."""
        async with httpx.AsyncClient(trust_env=False) as client:
            response = await client.get(f"{self._root}/records")
        return msgspec.json.decode(response.content, type=list[Record])


@contextlib.asynccontextmanager
async def provider(
    stack: Stack, slots: int, questions: Sequence[Question], weights: Path
) -> AsyncIterator[ProviderProcess]:
    """A provider that knows these questions."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        port, told = free_port(), Path(name) / "questions.json"
        told.write_bytes(msgspec.json.encode(list(questions)))
        options = ["--stack", stack.name, "--slots", str(slots), "--port", str(port), "--questions", str(told)]
        command = [sys.executable, "-m", "loadtest.provider", *options, "--models", str(weights)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(one for one in sys.path if one)}
        process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        try:
            if not (await process.stdout.readline()).startswith(b"ready"):
                raise RuntimeError("the provider did not start")
            yield ProviderProcess(port)
        finally:
            process.kill()
            await process.wait()


class WholeSystem:
    """The services on a server of their own, and a tenant's client."""

    def __init__(self, server: NatsServer, hasten: Hasten, folder: Path, models: Sequence[Model]) -> None:
        self.server, self.hasten, self._folder, self._models = server, hasten, folder, list(models)
        self._members: dict[str, Member] = {}

    @property
    def prices(self) -> Prices:
        """The model table's."""
        return prices(self._models)

    @property
    def pids(self) -> dict[str, int]:
        """The processes by what they run."""
        return {name: member.pid for name, member in self._members.items()}

    async def start(self, config: str, *, workers: bool = True) -> None:
        """Starts everything; returns when both models have a worker, if they are to have one."""
        self._configure(config)
        await ensure_stream(self.hasten.bus)
        await asyncio.gather(*(self._add(name) for name in SERVICES))
        if not workers:
            return
        await asyncio.gather(*(self._add("worker", one.slug) for one in self._models))
        await ready(self.hasten, len(self._models), DEADLINE_S)

    async def configure(self, config: str) -> None:
        """Starts anew what reads the budgets and the number of passages."""
        self._configure(config)
        for name in ("orchestrator", "router"):
            await self._members[name].stop(kill=False)
        await asyncio.gather(self._add("orchestrator"), self._add("router"))
        await ready(self.hasten, len(self._models), DEADLINE_S)

    def _configure(self, config: str) -> None:
        (self._folder / "hasten.toml").write_text(config)

    async def _add(self, service: str, model: str = "") -> None:
        name = f"{service}-{model}" if model else service
        where = ["--config", str(self._folder / "hasten.toml"), "--data", str(self._folder)]
        environment = {"HASTEN_WORKER_MODEL": model, "HASTEN_WORKER_WORKER": model} if model else {}
        command = [sys.executable, "-m", f"hasten.{service}", *where]
        member = Member(service, command, environment, self.server.url, self._folder / f"{name}.log")
        await member.start()
        self._members[name] = member

    async def ingest(self, documents: Sequence[Document]) -> None:
        """Stores the documents and returns when all can be found."""
        limit = asyncio.Semaphore(INGESTED_AT_ONCE)

        async def one(document: Document) -> None:
            async with limit:
                await self.hasten.ingest(COLLECTION, document, timeout_s=600.0)

        await asyncio.gather(*map(one, documents))

    async def passages(self, question: str, limit: int) -> list[str]:
        """The texts that the retriever ranks first."""
        body = Retrieve(query=question, knowledge=[COLLECTION], limit=limit)
        found = await self.hasten.bus.request(RETRIEVE, body, tenant=TENANT)
        if not isinstance(found, Retrieved):
            raise RuntimeError(f"nothing was retrieved: {found}")
        return [f"{one.title}\n{one.text}" for one in found.passages]

    async def forget(self) -> None:
        """Empties the cache."""
        await self.hasten.invalidate(Invalidate(everything=True))

    async def close(self) -> None:
        """Ends every process."""
        await asyncio.gather(*(member.stop() for member in self._members.values()))


@contextlib.asynccontextmanager
async def whole_system(
    models: Sequence[Model], setup: Setup, weights: Path, *, workers: bool = True
) -> AsyncIterator[WholeSystem]:
    """A system for these models, in a folder that goes with it; `weights` is the whole path of a folder with
    the models."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "models").symlink_to(weights)
        server = await NatsServer(folder / "jetstream").start()
        async with Hasten.connect(server.url, tenant=TENANT) as hasten:
            made = WholeSystem(server, hasten, folder, models)
            try:
                await made.start(config_of(models, setup), workers=workers)
                yield made
            finally:
                await made.close()
                await server.stop(kill=True)
