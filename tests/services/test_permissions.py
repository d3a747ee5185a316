"""deploy/permissions.conf on a real server: the subject is the boundary between tenants, whatever a client tries."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import nats
import pytest
import pytest_asyncio
from nats.aio.client import Client

from hasten.asyncapi import topics
from hasten.bus import Bus
from hasten.client import Hasten
from hasten.journal import ensure_stream, stream_state
from hasten.messages.cache import SERVED
from hasten.messages.chat import CHAT, STOP, ChatRequest, Chunk, Done
from hasten.messages.check import CHECK
from hasten.messages.failure import Failed
from hasten.messages.guard import GUARD
from hasten.messages.lookup import LOOKUP
from hasten.messages.retrieve import DOCUMENT, Document
from hasten.messages.streamed import STREAMED, TAKEN
from hasten.nats_server import NatsServer
from hasten.service import Call, Service

PERMISSIONS = Path(__file__).parents[2] / "deploy" / "permissions.conf"
SERVICES_ONLY = (SERVED, STOP, LOOKUP, GUARD, CHECK, STREAMED, TAKEN)
USERS = {"services": "s-secret", "pipeline": "p-secret", "acme": "a-secret", "globex": "g-secret"}


@pytest_asyncio.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[NatsServer]:
    for user, password in USERS.items():
        monkeypatch.setenv(f"HASTEN_{user.upper()}_PASSWORD", password)
    made = await NatsServer(tmp_path / "jetstream", config=PERMISSIONS.read_text()).start()
    yield made
    await made.stop(kill=True)


def url(server: NatsServer, user: str) -> str:
    return f"nats://{user}:{USERS[user]}@127.0.0.1:{server.port}"


class Intruder:
    """A connection that remembers what the server refused and what it got."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.heard: list[str] = []
        self.client: Client

    async def connect(self, address: str) -> "Intruder":
        async def on_error(error: Exception) -> None:
            self.refused.append(str(error).lower())

        self.client = await nats.connect(address, error_cb=on_error, max_reconnect_attempts=1)
        return self

    async def listen(self, *subjects: str) -> None:
        async def on_message(msg: object) -> None:
            self.heard.append(repr(msg))

        for subject in subjects:
            await self.client.subscribe(subject, cb=on_message)
        await self.client.flush()

    async def said(self) -> list[str]:
        """What the server refused, after a round trip."""
        await self.client.flush()
        await asyncio.sleep(0.05)
        return self.refused


@pytest_asyncio.fixture
async def orchestrator(server: NatsServer) -> AsyncIterator[list[tuple[str, str]]]:
    """A service that answers chats as the `services` user; yields (tenant, question) of what it heard."""
    bus = await Bus.connect(url(server, "services"))
    heard: list[tuple[str, str]] = []

    async def answer(request: ChatRequest, call: Call) -> None:
        heard.append((call.tenant, request.messages[-1].text))
        await call.send(Chunk(seq=0, text="42 kronor"))
        await call.send(Done(finish_reason="stop", chunks=1))

    service = Service(bus, "orchestrator", "for the test")
    service.answer(CHAT, answer, limit=10)
    await service.start()
    await ensure_stream(bus)
    yield heard
    await service.drain()
    await service.close()
    await bus.close()


async def test_a_tenant_asks_and_reads_its_answer(server: NatsServer, orchestrator: list[tuple[str, str]]) -> None:
    async with Hasten.connect(url(server, "acme"), tenant="acme") as hasten:
        answered = await hasten.ask("what does it cost?")
    assert answered.text == "42 kronor"
    assert orchestrator == [("acme", "what does it cost?")]


async def test_a_tenant_stores_documents_of_its_own(server: NatsServer, orchestrator: list[tuple[str, str]]) -> None:
    async with Hasten.connect(url(server, "acme"), tenant="acme") as hasten:
        assert await hasten.bus.store(DOCUMENT, Document(id="a"), tenant="acme", collection="help") == 1
        with pytest.raises(Failed):
            async with asyncio.timeout(20):
                await hasten.bus.store(DOCUMENT, Document(id="a"), tenant="globex", collection="help")


async def test_a_tenant_cannot_read_the_inbox_of_another(
    server: NatsServer, orchestrator: list[tuple[str, str]]
) -> None:
    intruder = await Intruder().connect(url(server, "globex"))
    await intruder.listen("_INBOX.>", "_INBOX.*.>", "_INBOX.acme.>", ">")
    async with Hasten.connect(url(server, "acme"), tenant="acme") as hasten:
        assert (await hasten.ask("a secret?")).text == "42 kronor"
    refused = await intruder.said()
    assert len([line for line in refused if "permissions violation" in line]) == 4
    assert intruder.heard == []
    await intruder.client.close()


async def test_a_tenant_cannot_ask_as_another(server: NatsServer, orchestrator: list[tuple[str, str]]) -> None:
    async with Hasten.connect(url(server, "globex"), tenant="acme") as pretender:
        with pytest.raises(Failed):
            await pretender.ask("what do the others ask?", timeout_s=1)
    async with Hasten.connect(url(server, "globex"), tenant="globex") as honest:
        assert (await honest.ask("and mine?")).text == "42 kronor"
    assert orchestrator == [("globex", "and mine?")]


@pytest.mark.parametrize(
    "subject",
    [
        "hasten.v1.chat.acme",
        "hasten.v1.cache.lookup.acme",
        "hasten.v1.invalidate.acme",
        "hasten.v1.cancel.acme.r1",
        "hasten.v1.change._tenant.acme",
        "hasten.v1.change.shop",
        "hasten.v1.generate.smollm2-135m-q8.w1",
        "hasten.v1.status.smollm2-135m-q8.w1",
        "hasten.v1.invalidated.globex",
        "hasten.v1.follow.0123456789abcdef",
        "$JS.API.STREAM.DELETE.HASTEN_CHANGES",
        "$JS.API.STREAM.PURGE.HASTEN_CHANGES",
        "$SRV.STATS",
        "$KV.keys.x",
        "_INBOX.acme.guess",
        "_INBOX.globex.mine",
    ],
)
async def test_a_tenant_publishes_nowhere_else(
    server: NatsServer, orchestrator: list[tuple[str, str]], subject: str
) -> None:
    intruder = await Intruder().connect(url(server, "globex"))
    await intruder.client.publish(subject, b"{}")
    assert any("permissions violation for publish" in line for line in await intruder.said())
    await intruder.client.close()
    assert orchestrator == []


async def test_a_pipeline_says_changes_and_nothing_else(
    server: NatsServer, orchestrator: list[tuple[str, str]]
) -> None:
    pipeline = await Intruder().connect(url(server, "pipeline"))
    await pipeline.client.publish("hasten.v1.change.shop.public.prices", b"{}")
    await pipeline.client.flush()
    assert pipeline.refused == []
    await pipeline.client.publish("hasten.v1.chat.acme", b"{}")
    await pipeline.listen("hasten.v1.>")
    assert len(await pipeline.said()) == 2
    await pipeline.client.close()
    services = await Bus.connect(url(server, "services"))
    assert (await stream_state(services)).messages == 1
    await services.close()


def test_the_sample_names_every_topic_that_a_tenant_may_use() -> None:
    """A topic added later has to be added to the sample, or to what is for services only."""
    sample = set(re.findall(r'"(hasten\.v1\.[^"]+)"', PERMISSIONS.read_text()))
    for tenant in ("acme", "globex"):
        tokens = {"tenant": tenant}
        theirs = [one for one in topics() if "tenant" in one.tokens and one not in SERVICES_ONLY]
        assert {one.narrowed(**tokens) for one in theirs} <= sample


async def test_the_sample_config_is_one_that_the_server_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    from hasten.nats_server import find_binary

    for user, password in USERS.items():
        monkeypatch.setenv(f"HASTEN_{user.upper()}_PASSWORD", password)
    config = str(PERMISSIONS.with_name("nats.conf"))
    process = await asyncio.create_subprocess_exec(find_binary(), "-t", "-c", config, stderr=asyncio.subprocess.PIPE)
    _, errors = await process.communicate()
    assert process.returncode == 0, errors
