"""A whole system as separate processes, as in production: it answers, survives the loss of a process, and drains.

The engine is the simulator. Cache and retriever run once each, because the embedded store belongs to one process.
"""

import asyncio
import json
import os
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from otlp_receiver import Receiver
from patience import until

from hasten import keys
from hasten.answered import Answered
from hasten.bus import Bus
from hasten.client import Hasten
from hasten.embedder import export
from hasten.messages.change import Change
from hasten.messages.chat import Chunk, Done
from hasten.messages.retrieve import Document
from hasten.nats_server import NatsServer, free_port

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]
STATE = Path(__file__).parents[2] / ".hasten"
"""The checkout's own data folder: models that were prepared there once are not prepared again for the tests."""
REPLICAS = {
    "gateway": 1,
    "embedder": 1,
    "cache": 1,
    "retriever": 1,
    "compressor": 1,
    "router": 2,
    "orchestrator": 2,
    "worker": 2,
}
CONFIG = """
[gateway]
http = "127.0.0.1:{http}"
[[models]]
name = "sim"
engine = {{ kind = "sim", slots = 4, sim_decode_per_s = 60.0, sim_answer = "{answer}" }}
"""
ANSWER = " ".join(f"word{at}" for at in range(40))


class System:
    """The processes of one system by service."""

    def __init__(self, server: NatsServer, http: int, folder: Path, receiver: Receiver) -> None:
        self.server, self.http, self._folder, self.receiver = server, f"http://127.0.0.1:{http}", folder, receiver
        self.processes: dict[str, list[asyncio.subprocess.Process]] = {service: [] for service in REPLICAS}
        (folder / "hasten.toml").write_text(CONFIG.format(http=http, answer=ANSWER))
        (folder / "models").symlink_to(STATE / "models")

    async def start(self) -> None:
        for service, replicas in REPLICAS.items():
            for _ in range(replicas):
                self.processes[service].append(await self._run(service))
        await asyncio.gather(*(self._ready(one) for running in self.processes.values() for one in running))

    async def _run(self, service: str) -> asyncio.subprocess.Process:
        common = ["--nats", self.server.url, "--config", str(self._folder / "hasten.toml"), "--data", str(self._folder)]
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "hasten.cli", "run", service, *common),
            stdout=asyncio.subprocess.PIPE,
            env=os.environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": self.receiver.url, "OTEL_BSP_SCHEDULE_DELAY": "200"},
        )

    async def _ready(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async with asyncio.timeout(120):
            assert (await process.stdout.readline()).startswith(b"ready ")

    async def lose(self, service: str) -> None:
        """Kills one replica, which gets no chance to say goodbye."""
        lost = self.processes[service].pop()
        lost.kill()
        await lost.wait()

    async def stop(self) -> list[int]:
        """Asks every process to end, callers first; returns their exit codes."""
        codes: list[int] = []
        for service in ("gateway", "orchestrator", "worker", "router", "compressor", "cache", "retriever", "embedder"):
            running = self.processes[service]
            for process in running:
                process.send_signal(signal.SIGTERM)
            codes += [await process.wait() for process in running]
            running.clear()
        return codes

    async def kill(self) -> None:
        for process in (one for running in self.processes.values() for one in running):
            if process.returncode is None:
                process.kill()
            await process.communicate()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def system(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[System]:
    await asyncio.to_thread(export.prepare, STATE, print)
    folder = tmp_path_factory.mktemp("system")
    server = await NatsServer(folder / "jetstream").start()
    with Receiver() as receiver:
        made = System(server, free_port(), folder, receiver)
        try:
            await made.start()
            yield made
        finally:
            await made.kill()
            await server.stop(kill=True)


@pytest_asyncio.fixture(loop_scope="module")
async def hasten(system: System) -> AsyncIterator[Hasten]:
    async with Hasten.connect(system.server.url, tenant="acme") as made:
        yield made


async def test_every_replica_is_seen(hasten: Hasten) -> None:
    services = [running.name for running in await hasten.services()]
    assert {name: services.count(name) for name in services} == REPLICAS


async def remembered(hasten: Hasten, question: str, **options: Any) -> Answered:
    """The answer from memory: a replica that was not let run for a second serves nothing for a moment."""
    for _ in range(20):
        if (answered := await hasten.ask(question, **options)).cache == "exact":
            break
    assert answered.cache == "exact"
    return answered


async def test_a_question_is_generated_once_and_then_remembered(system: System, hasten: Hasten) -> None:
    first = await hasten.ask("How do I return a parcel that I did not order?")
    again = await remembered(hasten, "How do I return a parcel that I did not order?")
    assert first.cache == "miss"
    assert first.text.split() == again.text.split() == ANSWER.split()
    async with Hasten.connect(system.server.url, tenant="globex") as other:
        assert (await other.ask("How do I return a parcel that I did not order?")).cache == "miss"


async def test_a_change_of_the_source_takes_the_answer_away(hasten: Hasten) -> None:
    document = Document(id="fees", title="Fees", text="# Fees\n\nReturning a lamp costs 4 euros.", tags=["prices:7"])
    await hasten.ingest("help", document)
    question = "What does it cost to return a lamp to the shop?"
    first = await hasten.ask(question, knowledge=["help"])
    assert [passage["document"] for passage in first.notes["sources"]["passages"]] == ["fees"]
    await remembered(hasten, question, knowledge=["help"])
    await hasten.change(Change(table="prices", key=7))
    async with asyncio.timeout(60):
        while (await hasten.ask(question, knowledge=["help"])).cache != "miss":
            await asyncio.sleep(0.05)


def post(url: str, key: str, body: object, **more: str) -> tuple[int, bytes]:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", **more}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


async def test_the_gateway_answers_who_has_a_key(system: System, hasten: Hasten) -> None:
    bus = await Bus.connect(system.server.url)
    key = await keys.create(bus, "acme")
    await bus.close()
    body = {
        "model": "auto",
        "messages": [{"role": "user", "content": "Is there a shop in Bergen, and when is it open?"}],
    }
    url = f"{system.http}/v1/chat/completions"
    async with asyncio.timeout(60):
        while (await asyncio.to_thread(post, url, key, body))[0] == 401:
            await asyncio.sleep(0.1)  # the gateway hears of a key a moment after it was made
    status, answer = await asyncio.to_thread(post, url, key, body)
    assert status == 200
    assert json.loads(answer)["choices"][0]["message"]["content"].split() == ANSWER.split()
    status, _ = await asyncio.to_thread(post, url, "hk-nobody", body)
    assert status == 401


async def test_a_request_is_one_tree_of_spans_through_every_process(system: System, hasten: Hasten) -> None:
    await hasten.ingest("hours", Document(id="bergen", text="The shop in Bergen is open from nine to five."))
    bus = await Bus.connect(system.server.url)
    key = await keys.create(bus, "acme")
    await bus.close()
    body = {
        "model": "auto",
        "messages": [{"role": "user", "content": "When is Bergen's open?"}],
        "knowledge": ["hours"],
    }
    url, traces = f"{system.http}/v1/chat/completions", iter(range(1, 1000))
    async with asyncio.timeout(60):
        while True:
            trace = f"{next(traces):032x}"
            asked = {"traceparent": f"00-{trace}-00000000000000ab-01"}
            if (await asyncio.to_thread(post, url, key, body, **asked))[0] != 401:
                break
            await asyncio.sleep(0.1)
    tree = [
        ("hasten-gateway", "POST /v1/chat/completions", ""),
        ("hasten-orchestrator", "chat", "hasten-gateway POST /v1/chat/completions"),
        *(
            ("hasten-orchestrator", stage, "hasten-orchestrator chat")
            for stage in ("exact", "embed", "semantic", "retrieve", "route", "lease", "compress", "generate", "store")
        ),
        ("hasten-cache", "cache.lookup", "hasten-orchestrator exact"),
        ("hasten-cache", "cache.lookup", "hasten-orchestrator semantic"),
        ("hasten-cache", "cache.put", "hasten-orchestrator store"),
        ("hasten-embedder", "embed", "hasten-orchestrator embed"),
        ("hasten-retriever", "retrieve", "hasten-orchestrator retrieve"),
        ("hasten-router", "route", "hasten-orchestrator route"),
        ("hasten-compressor", "compress", "hasten-orchestrator compress"),
        ("hasten-worker", "generate", "hasten-orchestrator generate"),
        ("hasten-worker", "chat sim", "hasten-worker generate"),
    ]

    def seen() -> list[tuple[str, str, str]]:
        found = {one.id: one for one in system.receiver.of(trace)}
        names = {"": ""} | {one.id: f"{one.service} {one.name}" for one in found.values()}
        return [(one.service, one.name, names.get(one.parent, "")) for one in found.values()]

    def roots() -> list[tuple[str, str]]:
        found = {one.id: one for one in system.receiver.of(trace)}
        return [(one.name, one.parent) for one in found.values() if one.parent not in found]

    await until(lambda: set(tree) <= set(seen()) and roots() == [("POST /v1/chat/completions", "00000000000000ab")])
    assert system.receiver.paths == {"/v1/traces"}
    (chat,) = [one for one in system.receiver.of(trace) if one.name == "chat sim"]
    assert chat.attributes["gen_ai.request.model"] == chat.attributes["gen_ai.response.model"] == "sim"
    assert chat.attributes["gen_ai.usage.output_tokens"] == len(ANSWER.split())
    said = b"".join(one.span.SerializeToString() for one in system.receiver.of(trace))
    assert not [secret for secret in ("Bergen", "word7", "nine to five", key) if secret.encode() in said]


async def test_losing_an_orchestrator_and_a_worker_loses_no_later_request(system: System, hasten: Hasten) -> None:
    await system.lose("orchestrator")
    await system.lose("worker")
    asked = (hasten.ask(f"Question number {at} about returning a parcel?", cache={"mode": "off"}) for at in range(6))
    answers = await asyncio.gather(*asked)
    assert [answer.text.split() for answer in answers] == [ANSWER.split()] * 6


async def test_losing_a_router_loses_no_later_request(system: System, hasten: Hasten) -> None:
    await system.lose("router")
    answer = await hasten.ask("And what about returning two parcels at once?", cache={"mode": "off"})
    assert answer.text.split() == ANSWER.split()


async def test_sigterm_finishes_what_was_accepted(system: System, hasten: Hasten) -> None:
    stopping: asyncio.Future[list[int]] | None = None
    text = ""
    last: object = None
    async for event in hasten.chat("And what if I have lost the receipt for it?", cache={"mode": "off"}):
        last = event
        if isinstance(event, Chunk):
            text += event.text
            stopping = stopping or asyncio.ensure_future(system.stop())
    assert isinstance(last, Done)
    assert text.split() == ANSWER.split()
    assert stopping is not None
    assert set(await stopping) == {0}
