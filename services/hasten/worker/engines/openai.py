"""Any server that speaks OpenAI's chat API; what it does wrong becomes a failure, never a shorter answer."""

import asyncio
import codecs
import contextlib
import math
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any, Self

import httpx
import msgspec

from hasten.messages.generate import Generate
from hasten.models import Model
from hasten.settings import SettingsError
from hasten.telemetry import logger
from hasten.worker.engines.answer import Answer
from hasten.worker.engines.body import alternatives, chat_body
from hasten.worker.engines.engine import Delta, End, EngineError
from hasten.worker.engines.flow import Flow, relay
from hasten.worker.engines.lane import FRESH, LaneTransport
from hasten.worker.engines.post import Post
from hasten.worker.engines.refusal import refusal, retry_after_ms, trouble
from hasten.worker.engines.secret import SecretTransport, split_url
from hasten.worker.engines.sse import LONGEST, BadStream, EventParser, objects

log = logger("worker")
DROPPED = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError, httpx.CloseError)
"""How a kept connection shows that the server has closed it meanwhile."""
PAUSES = (429, 503)
"""Statuses whose Retry-After holds for whoever comes next as well."""
END_MARK = "[DONE]"
KEPT_S = 20.0
LONGEST_ERROR = 256 * 1024
"""Bytes read of a refusal."""
LEFT_S = 1.0
"""How long a body may go on after its last event before its connection is given up."""


class OpenAIEngine:
    """One model of a server, over kept connections (HTTP/2 where the server has it), each for one exchange at a time.

    Each exchange is a task of its own that is cancelled at most once and cleans up after itself, however often and
    whenever its reader is cancelled, so no connection is left behind. There is no limit: the worker asks for no more
    than `slots` at once, and waiting for a connection is where pools lose them.
    """

    def __init__(self, model: Model) -> None:
        self._model, self._config = model, model.engine
        self.slots = model.engine.slots
        self.continues = model.engine.continues
        self.capabilities = [name for name in model.capabilities if name in ("tools", "json", "vision", "logprobs")]
        self._client: httpx.AsyncClient | None = None
        self._post: Post | None = None
        self._limit_name = "max_tokens"
        self._free_at = 0.0
        """When the server wants to be asked again, on the loop's clock."""
        self._flows: dict[str, Flow] = {}
        self._exchanges: set[asyncio.Task[None]] = set()

    @classmethod
    def from_config(cls, model: Model, data: Path) -> Self:
        """An engine for the row's `url`; raises SettingsError when that is no address."""
        if not model.engine.url.startswith(("http://", "https://")):
            raise SettingsError(f"the model {model.name} needs the url of a server (http:// or https://)")
        return cls(model)

    async def start(self) -> None:
        """Opens a connection and asks which models there are.

        Raises SettingsError for a missing key or certificate, and EngineError(unavailable) while nobody answers.
        """
        try:
            url, query, auth = split_url(self._config.url)
        except ValueError:
            raise SettingsError(f"the url of the model {self._model.name} is not an address") from None
        limits = httpx.Limits(max_connections=None, keepalive_expiry=KEPT_S)
        trusted = self._trusted()
        lanes = LaneTransport(lambda: httpx.AsyncHTTPTransport(verify=trusted, http2=True, limits=limits), KEPT_S)
        transport = SecretTransport(lanes, query)
        self._client = httpx.AsyncClient(
            base_url=url,
            transport=transport,
            auth=auth,
            headers=self._headers(),
            timeout=httpx.Timeout(None, connect=self._config.connect_timeout_s),
            trust_env=False,
        )
        self._post = Post(self._client, transport, "chat/completions", auth)
        await self._warm_up(self._client)

    def _trusted(self) -> ssl.SSLContext:
        try:
            if not self._config.ca_file:
                return httpx.create_ssl_context(trust_env=False)
            return ssl.create_default_context(cafile=self._config.ca_file)
        except (OSError, ssl.SSLError):
            where = f"the ca_file of the model {self._model.name}"
            raise SettingsError(f"{where} is no file with certificates: {self._config.ca_file}") from None

    async def _warm_up(self, client: httpx.AsyncClient) -> None:
        """The first caller finds an open connection. Whatever the server says of models, it is there; but 503 is what
        one says that is still loading."""
        try:
            async with asyncio.timeout(2 * self._config.connect_timeout_s):
                response = await client.get("models")
        except TimeoutError:
            raise EngineError("unavailable", "the model server does not answer", retry_after_ms=1000) from None
        except httpx.HTTPError as error:
            raise EngineError("unavailable", str(trouble(error)), retry_after_ms=1000) from None
        if response.status_code == 503:
            raise EngineError("unavailable", "the model server is not ready", retry_after_ms=1000)
        if response.status_code in (401, 403):
            log.warning("the server of %s refuses its key (status %d)", self._model.name, response.status_code)

    def _headers(self) -> dict[str, str]:
        plain = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}
        headers, name = {"Content-Type": "application/json", **plain}, self._config.api_key_env
        if not name:
            return headers
        if not (key := os.environ.get(name)):
            raise SettingsError(f"the model {self._model.name} needs its key in the variable {name}")
        return {**headers, "Authorization": f"Bearer {key}"}

    @property
    def pause_ms(self) -> float:
        """How long the server wants to be left alone."""
        return max(0.0, 1000 * (self._free_at - asyncio.get_running_loop().time()))

    async def generate(self, request_id: str, request: Generate) -> AsyncGenerator[Delta | End]:
        """Relays the server's deltas. An end without a finish reason, and a stop without a word, are failures."""
        if self._client is None or self._post is None:
            raise EngineError("unavailable", "the engine is not running", retry_after_ms=1000)
        if (left_ms := self.pause_ms) > 0:
            detail = "the model server has asked for a pause"
            raise EngineError("overloaded", detail, retry_after_ms=math.ceil(left_ms))
        flow = self._flows[request_id] = Flow()
        exchange = asyncio.get_running_loop().create_task(self._exchange(self._post, request, flow))
        flow.on_stop = exchange.cancel
        self._exchanges.add(exchange)
        exchange.add_done_callback(self._exchanges.discard)
        may_be_empty = bool(request.stop or request.continues)
        answer = Answer(may_be_empty=may_be_empty, alternatives=alternatives(request))
        config = self._config
        events = relay(flow, answer, config.first_token_timeout_s, config.between_tokens_timeout_s)
        try:
            async with aclosing(events):
                async for event in events:
                    yield event
        finally:
            self._flows.pop(request_id, None)

    async def _exchange(self, post: Post, request: Generate, flow: Flow) -> None:
        try:
            async with AsyncExitStack() as stack:
                await _put_objects(await self._open(post, request, stack), flow)
        except Exception as error:
            flow.put(trouble(error))

    async def _open(self, post: Post, request: Generate, stack: AsyncExitStack) -> httpx.Response:
        """The response, once its status is known to be good."""
        limit_name = self._limit_name
        response = await self._sent(post, request, limit_name, stack)
        if response.status_code == 200:
            return response
        error = await _error_of(response)
        if limit_name == "max_tokens" and _wants_other_limit(error):
            self._limit_name = "max_completion_tokens"
            return await self._open(post, request, stack)
        if response.status_code in PAUSES and (pause_ms := retry_after_ms(response.headers, error)):
            self._free_at = asyncio.get_running_loop().time() + pause_ms / 1000
        raise refusal(error, response.status_code, response.headers)

    async def _sent(self, post: Post, request: Generate, limit_name: str, stack: AsyncExitStack) -> httpx.Response:
        """Sends the request, once more and on a new connection when the kept one turns out to be dead: no byte has come
        back then."""
        raw = msgspec.json.encode(self._body(request, limit_name))
        try:
            return await post.send(raw, stack, **{FRESH: False})
        except DROPPED:
            return await post.send(raw, stack, **{FRESH: True})

    def _body(self, request: Generate, limit_name: str) -> dict[str, Any]:
        """A limit that the window does not allow anyway is none, and servers refuse some of that size."""
        body = chat_body(request)
        body["model"] = self._config.upstream_model or self._model.name
        limit = body.pop("max_tokens")
        if limit < self._model.context_window:
            body[limit_name] = limit
        if "logprobs" not in self._model.capabilities:
            body = {name: value for name, value in body.items() if name not in ("logprobs", "top_logprobs")}
        if request.continues:
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        return body

    async def abort(self, request_id: str) -> None:
        """Closes the connection of a generation, which tells the server to stop."""
        if flow := self._flows.get(request_id):
            flow.stop()

    async def drain(self) -> None:
        """Waits until no exchange is open."""
        while self._exchanges:
            await asyncio.wait(set(self._exchanges))

    async def close(self) -> None:
        """Stops the exchanges, waits until their connections are closed, then closes the pool."""
        for flow in list(self._flows.values()):
            flow.stop()
        await self.drain()
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


async def _put_objects(response: httpx.Response, flow: Flow) -> None:
    """Puts the JSON objects of a response into the flow, and its end. A server that does not stream has sent JSON; by
    what it begins with, as what servers call it is not always so."""
    body = response.aiter_bytes()
    raw = await _beginning(body)
    if raw.startswith((b"{", b"[")):
        for plain in objects(await _text_of(body, LONGEST, raw)):
            flow.put(plain)
        flow.end()
        return
    parser = EventParser()
    while raw:
        if _put_events(parser.feed(raw), flow):
            flow.end()
            await _use_up(body)
            return
        await flow.room()
        raw = await anext(body, b"")
    _put_events(parser.finish(), flow)
    flow.end()


async def _beginning(body: AsyncIterator[bytes]) -> bytes:
    """The first bytes that say something, empty when none come."""
    async for raw in body:
        if said := raw.removeprefix(codecs.BOM_UTF8).lstrip():
            return said
    return b""


def _put_events(events: Iterable[tuple[bool, str]], flow: Flow) -> bool:
    """Whether [DONE] was among them: nothing after it counts. Proxies put it into one event with the last object, and
    comments into events."""
    for is_error, data in events:
        said = data.strip()
        if is_error:
            flow.put({"error": _error_in(data)})
        elif not said.startswith(":"):
            for plain in objects(said.removesuffix(END_MARK)):
                flow.put(plain)
        if said.endswith(END_MARK) and not is_error:
            return True
    return False


async def _use_up(body: AsyncIterator[bytes]) -> None:
    """Reads to the end, without which a connection cannot be used again."""
    with contextlib.suppress(TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(LEFT_S):
            async for _ in body:
                pass


def _error_in(text: str) -> dict[str, Any]:
    """The error object in a text; one without a word when there is none."""
    with contextlib.suppress(BadStream):
        for plain in objects(text):
            error = plain.get("error", plain)
            return error if isinstance(error, dict) else {"type": "error"}
    return {"type": "error"}


async def _error_of(response: httpx.Response) -> dict[str, Any]:
    return _error_in(await _text_of(response.aiter_bytes(), LONGEST_ERROR))


async def _text_of(body: AsyncIterator[bytes], most: int, begun: bytes = b"") -> str:
    """The whole body after what was `begun` to be read; raises BadStream for one of more bytes than `most`."""
    parts, size = [begun], len(begun)
    async for raw in body:
        parts.append(raw)
        if (size := size + len(raw)) > most:
            raise BadStream("the body of the response is too long")
    return b"".join(parts).decode("utf-8", "replace")


def _wants_other_limit(error: dict[str, Any]) -> bool:
    return error.get("param") == "max_tokens" and "max_completion_tokens" in str(error.get("message"))
