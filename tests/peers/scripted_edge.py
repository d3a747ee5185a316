"""A gateway on a free port with scripted services behind it: an orchestrator, a router and an embedder that say what a
test tells them to."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import openai

from hasten.bus import Bus
from hasten.gateway.service import Gateway, build
from hasten.gateway.settings import Settings
from hasten.keys import create
from hasten.messages.chat import CHAT, ChatRequest, Chunk, Done, Note, Usage
from hasten.messages.embed import EMBED, Embed, Embedded
from hasten.messages.failure import Failed
from hasten.messages.route import MODELS, ModelInfo, ModelList, Models
from hasten.service import Call, Service

HELLO = {"model": "auto", "messages": [{"role": "user", "content": "Name two rivers"}]}
STREAM = {**HELLO, "stream": True}
USAGE = Usage(prompt_tokens=40, completion_tokens=2, cached_tokens=8)
Script = Callable[[ChatRequest, Call], Awaitable[None]]


async def two_rivers(_: ChatRequest, call: Call) -> None:
    """The answer of a miss: a route note, three chunks, done."""
    await call.send(Note(kind="route", data={"model": "small", "reason": "scripted"}))
    await say(call, "Glomma", " and", " Drava")


async def say(
    call: Call,
    *texts: str,
    finish_reason: str = "stop",
    usage: Usage = USAGE,
    model: str = "small",
    cache: Any = "miss",
) -> None:
    """Sends each text as a chunk, then done."""
    for seq, text in enumerate(texts):
        await call.send(Chunk(seq=seq, text=text))
    chunks = len(texts)
    await call.send(Done(finish_reason=finish_reason, usage=usage, model=model, cache=cache, chunks=chunks))


def fails(code: Any, after: int = 0, **more: Any) -> Script:
    """A script that fails with this code after so many chunks."""

    async def script(_: ChatRequest, call: Call) -> None:
        for seq in range(after):
            await call.send(Chunk(seq=seq, text=f"word{seq} "))
        raise Failed(code, f"it is {code}", **more)

    return script


async def chatters(_: ChatRequest, call: Call) -> None:
    """Never ends by itself."""
    seq = 0
    while True:
        await call.send(Chunk(seq=seq, text=f"{seq} "))
        seq += 1
        await asyncio.sleep(0.005)


class Edge:
    """The gateway, the URL, a key of the tenant `acme`, and what the scripted orchestrator heard."""

    def __init__(self, gateway: Gateway, key: str, http: httpx.AsyncClient) -> None:
        self.gateway, self.key, self.http = gateway, key, http
        self.orchestrator = Service(gateway.service.bus, "orchestrator", "A scripted orchestrator")
        self.script: Script = two_rivers
        self.heard: list[tuple[ChatRequest, Call]] = []
        self.stopped: list[str] = []

    @property
    def port(self) -> int:
        return int(self.gateway.url.rpartition(":")[2])

    def openai(self) -> openai.AsyncOpenAI:
        """The official client, without retries."""
        return openai.AsyncOpenAI(base_url=f"{self.gateway.url}/v1", api_key=self.key, max_retries=0)

    async def post(self, body: dict[str, Any], **headers: str) -> httpx.Response:
        """POST /v1/chat/completions."""
        return await self.http.post("/v1/chat/completions", json=body, headers=headers)

    async def chat(self, request: ChatRequest, call: Call) -> None:
        """The scripted orchestrator."""
        self.heard.append((request, call))
        try:
            await self.script(request, call)
        except asyncio.CancelledError:
            self.stopped.append(call.request_id)
            raise


async def embed(request: Embed, _: Call) -> Embedded:
    """A scripted embedder: the vector of a text is its length and its number."""
    import struct

    vectors = [struct.pack("<2f", len(text), number) for number, text in enumerate(request.texts)]
    cut = [len(text) > 1000 for text in request.texts]
    tokens = [len(text.split()) for text in request.texts]
    return Embedded(vectors=vectors, dim=2, model="org/scripted-2d", truncated=cut, tokens=tokens)


PRICED = ModelInfo(name="big", slug="big", cost_per_1k_prompt=1.0, cost_per_1k_completion=2.0)


async def models(_: Models, __: Call) -> ModelList:
    """A scripted router's table."""
    found = [ModelInfo(name="meta/Small-8B", slug="small-8b", aliases=["fast"]), PRICED]
    return ModelList(models=found)


@contextlib.asynccontextmanager
async def edge(bus: Bus, *, limit: int = 200, waiting: int = 0, **settings: Any) -> AsyncIterator[Edge]:
    """Everything started, on one bus; `limit` and `waiting` are those of the scripted orchestrator."""
    key = await create(bus, "acme", "test")
    gateway = build(Settings(http="127.0.0.1:0", **settings), bus)
    await gateway.start()
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=60) as http:
        made = Edge(gateway, key, http)
        made.orchestrator.answer(CHAT, made.chat, limit=limit, waiting=waiting)
        peers = Service(bus, "peers", "Scripted services")
        peers.answer(EMBED, embed, limit=10)
        peers.answer(MODELS, models, limit=10)
        try:
            await made.orchestrator.start()
            await peers.start()
            yield made
        finally:
            await gateway.close()
            await made.orchestrator.close()
            await peers.close()


async def eventually(condition: Callable[[], bool], timeout_s: float = 20) -> None:
    """Waits until the condition holds; raises TimeoutError."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.01)


def events(body: str) -> list[Any]:
    """The data of each event of a stream."""
    data = [line.removeprefix("data: ") for line in body.splitlines() if line.startswith("data: ")]
    return [one if one == "[DONE]" else json.loads(one) for one in data]
