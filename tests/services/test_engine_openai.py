"""The engine for OpenAI-compatible servers against a server that does everything wrong, byte for byte."""

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from hasten.messages.chat import Turn
from hasten.messages.generate import Generate
from hasten.models import EngineConfig, Model
from hasten.settings import SettingsError
from hasten.worker.engines import Delta, End, EngineError
from hasten.worker.engines.openai import OpenAIEngine

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
QUESTION = Generate(messages=[Turn(role="user", content="My IBAN is NO00 1234")], max_tokens=40)


def _piece(raw: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(raw), raw)


def _data(plain: dict[str, Any]) -> bytes:
    return _piece(b"data: " + json.dumps(plain).encode() + b"\n\n")


def _said(text: str, finish_reason: str | None = None) -> bytes:
    delta = {"content": text} if text else {}
    return _data({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})


DONE = _piece(b"data: [DONE]\n\n")
LAST = b"0\r\n\r\n"
WELL = EVENTS + _said("Hel") + _said("lo") + _said("", "stop") + DONE + LAST


def _response(status: str, plain: dict[str, Any], headers: str = "") -> bytes:
    raw = json.dumps(plain).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{headers}Content-Length: {len(raw)}\r\n\r\n"
    return head.encode() + raw


class Upstream:
    """An HTTP/1.1 server that answers each request with the next of `scripts`: bytes, or a function that writes.

    A question for its models is answered with `models`.
    """

    def __init__(self) -> None:
        self.scripts: list[bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]] = []
        self.bodies: list[dict[str, Any]] = []
        self.heads: list[str] = []
        self.models = _response("200 OK", {"object": "list", "data": []})
        self.asked: list[str] = []
        """The paths of what was asked without a body."""
        self.open = self.connections = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                if head.startswith("GET "):
                    self.asked.append(head.split()[1])
                    writer.write(self.models)
                    await writer.drain()
                    continue
                length = next(line for line in head.lower().split("\r\n") if line.startswith("content-length"))
                self.bodies.append(json.loads(await reader.readexactly(int(length.split(":")[1]))))
                self.heads.append(head)
                script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
                if isinstance(script, bytes):
                    writer.write(script)
                    await writer.drain()
                else:
                    await script(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()


@pytest_asyncio.fixture
async def upstream() -> AsyncIterator[Upstream]:
    """The server, not yet told what to answer."""
    made = Upstream()
    yield made
    await made.close()


MakeEngine = Callable[..., Awaitable[OpenAIEngine]]


@pytest_asyncio.fixture
async def make(upstream: Upstream, tmp_path: Path) -> AsyncIterator[MakeEngine]:
    """Makes a started engine for that server."""
    address, made = await upstream.start(), []

    async def engine(suffix: str = "", **options: Any) -> OpenAIEngine:
        config = EngineConfig(kind="openai", url=address + suffix, slots=10, **options)
        one = OpenAIEngine.from_config(Model(name="up", slug="up", engine=config), tmp_path)
        made.append(one)
        await one.start()
        return one

    yield engine
    for one in made:
        await one.close()


async def _text(engine: OpenAIEngine, request: Generate = QUESTION, request_id: str = "r") -> str:
    return "".join([event.text async for event in engine.generate(request_id, request) if isinstance(event, Delta)])


async def _error(engine: OpenAIEngine, request: Generate = QUESTION) -> tuple[EngineError, str]:
    """The error that a generation ends with, and what was said before."""
    said = ""
    try:
        async for event in engine.generate("r", request):
            said += event.text if isinstance(event, Delta) else ""
    except EngineError as error:
        return error, said
    pytest.fail(f"no error after {said!r}")


async def test_a_good_answer_over_a_kept_connection(upstream: Upstream, make: MakeEngine) -> None:
    upstream.scripts = [WELL]
    engine = await make(upstream_model="gpt-x")
    for _ in range(3):
        assert await _text(engine) == "Hello"
        await engine.drain()
    assert upstream.connections == 1
    body = upstream.bodies[0]
    assert body["model"] == "gpt-x"
    assert body["messages"] == [{"role": "user", "content": "My IBAN is NO00 1234"}]
    assert (body["max_tokens"], body["stream"], body["stream_options"]) == (40, True, {"include_usage": True})
    assert "temperature" not in body


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (_piece(b": still working\n\n") + _said("ok") + _said("", "stop") + DONE + LAST, "ok"),
        (_said("a") + _said("", "stop") + LAST, "a"),
        (
            _piece(b'data: {"choices":[{"delta":{"content":"a}{b"}}]}{"choices":[{"delta":{"content":"c"}}]}\n\n')
            + _said("", "stop")
            + LAST,
            "a}{bc",
        ),
        (
            _piece('data: {"choices":[{"delta":{"content":"Ö"}'.encode()[:-3])
            + _piece('data: {"choices":[{"delta":{"content":"Ö"}'.encode()[-3:] + b',"finish_reason":"stop"}]}\r\n\r\n')
            + LAST,
            "Ö",
        ),
        (_said("a", "stop") + DONE + _said("never") + LAST, "a"),
        (_said("x", "length") + _data({"choices": [], "usage": None}) + DONE + LAST, "x"),
    ],
)
async def test_odd_but_whole_streams_are_read_whole(
    upstream: Upstream, make: MakeEngine, stream: bytes, said: str
) -> None:
    upstream.scripts = [EVENTS + stream]
    assert await _text(await make()) == said


@pytest.mark.parametrize(
    ("stream", "code", "said"),
    [
        (_said("Half an ans") + LAST, "incomplete", "Half an ans"),
        (_said("Half an ans") + DONE + LAST, "incomplete", "Half an ans"),
        (_said("", "stop") + DONE + LAST, "incomplete", ""),
        (LAST, "incomplete", ""),
        (_said("a") + _data({"error": {"message": "overloaded"}}) + DONE + LAST, "upstream", "a"),
        (_said("a") + _piece(b"event: error\ndata: all is lost\n\n") + LAST, "upstream", "a"),
        (_said("a") + _piece(b'data: {"choices":[{"del\n\n') + LAST, "upstream", "a"),
        (_said("a") + _piece(b"data: \xff\n\n") + LAST, "upstream", "a"),
    ],
)
async def test_broken_answers_are_failures_with_what_was_said(
    upstream: Upstream, make: MakeEngine, stream: bytes, code: str, said: str
) -> None:
    upstream.scripts = [EVENTS + stream]
    error, heard = await _error(await make())
    assert (error.code, heard) == (code, said)
    upstream.scripts = [WELL]
    assert await _text(await make()) == "Hello"


async def test_a_budget_spent_on_thinking_is_an_empty_answer_of_finish_length(
    upstream: Upstream, make: MakeEngine
) -> None:
    upstream.scripts = [EVENTS + _said("", "length") + DONE + LAST]
    events = [event async for event in (await make()).generate("r", QUESTION)]
    assert [event.finish_reason for event in events if isinstance(event, End)] == ["length"]


async def test_a_connection_cut_in_the_middle_is_upstream(upstream: Upstream, make: MakeEngine) -> None:
    async def cut(writer: asyncio.StreamWriter) -> None:
        writer.write(EVENTS + _said("Half"))
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.transport.abort()

    upstream.scripts = [cut]
    error, heard = await _error(await make())
    assert (error.code, heard, len(upstream.bodies)) == ("upstream", "Half", 1)


async def test_a_server_that_does_not_stream_is_understood(upstream: Upstream, make: MakeEngine) -> None:
    whole = {"choices": [{"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop"}]}
    upstream.scripts = [_response("200 OK", whole)]
    assert await _text(await make()) == "Hello"


@pytest.mark.parametrize(
    ("answer", "code", "retry_after_ms"),
    [
        (_response("429 Too Many", {"error": {}}, "Retry-After: 7\r\n"), "overloaded", 7000),
        (_response("503 Busy", {"error": {}}, "Retry-After: 2\r\n"), "upstream", 2000),
        (_response("502 Bad Gateway", {}), "upstream", 1000),
        (_response("400 Bad", {"error": {"type": "invalid_request_error", "param": "top_p"}}), "bad_request", None),
        (_response("400 Bad", {"error": {"code": "context_length_exceeded"}}), "context_overflow", None),
        (_response("404 Not Found", {"error": {}}), "upstream", 1000),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 9\r\n\r\n<html>hi\n", "incomplete", None),
    ],
)
async def test_refusals_have_the_right_code(
    upstream: Upstream, make: MakeEngine, answer: bytes, code: str, retry_after_ms: int | None
) -> None:
    upstream.scripts = [answer]
    error, _ = await _error(await make())
    assert (error.code, error.retry_after_ms) == (code, retry_after_ms)


async def test_a_kept_connection_that_was_dropped_is_tried_once_more(upstream: Upstream, make: MakeEngine) -> None:
    async def drop(writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    engine = await make()
    upstream.scripts = [WELL, drop, WELL]
    assert await _text(engine) == "Hello"
    assert await _text(engine) == "Hello"
    assert len(upstream.bodies) == 3
    upstream.scripts = [drop]
    error, _ = await _error(engine)
    assert error.code == "upstream"
    assert len(upstream.bodies) == 5


async def test_waiting_has_an_end_at_every_stage(upstream: Upstream, make: MakeEngine) -> None:
    def stuck(first: bytes) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
        async def script(writer: asyncio.StreamWriter) -> None:
            writer.write(first)
            await asyncio.sleep(60)

        return script

    engine = await make(first_token_timeout_s=0.3, between_tokens_timeout_s=0.3)
    for first, said in ((b"", ""), (EVENTS, ""), (EVENTS + _said("a"), "a")):
        upstream.scripts = [stuck(first)]
        error, heard = await _error(engine)
        assert (error.code, heard) == ("upstream", said)
    async with asyncio.timeout(20):
        await engine.drain()


async def test_nobody_listening_is_a_start_to_try_again(tmp_path: Path) -> None:
    config = EngineConfig(kind="openai", url="http://127.0.0.1:9/v1?key=sk-test-9f3a")
    engine = OpenAIEngine.from_config(Model(name="up", slug="up", engine=config), tmp_path)
    with pytest.raises(EngineError) as caught:
        await engine.start()
    assert caught.value.code == "unavailable"
    assert "sk-test" not in str(caught.value)
    await engine.close()


async def test_the_first_caller_finds_an_open_connection(upstream: Upstream, make: MakeEngine) -> None:
    upstream.scripts = [WELL]
    engine = await make("?key=k")
    assert (upstream.asked, upstream.connections) == (["/v1/models?key=k"], 1)
    assert await _text(engine) == "Hello"
    assert upstream.connections == 1


@pytest.mark.parametrize("status", ["401 Unauthorized", "404 Not Found", "500 Oops"])
async def test_a_server_that_does_not_tell_its_models_is_there_all_the_same(
    upstream: Upstream, make: MakeEngine, status: str, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.models, upstream.scripts = _response(status, {"error": {"message": "no sk-9"}}), [WELL]
    assert await _text(await make()) == "Hello"
    assert ("refuses its key (status 401)" in caplog.text) == status.startswith("401")
    assert "sk-9" not in caplog.text


async def test_a_server_that_is_loading_is_a_start_to_try_again(upstream: Upstream, make: MakeEngine) -> None:
    upstream.models = _response("503 Busy", {"error": {"message": "Loading model"}})
    with pytest.raises(EngineError) as caught:
        await make()
    assert (caught.value.code, caught.value.detail) == ("unavailable", "the model server is not ready")


async def _outcome(engine: OpenAIEngine) -> str | EngineError:
    try:
        return await _text(engine)
    except EngineError as error:
        return error


@pytest.mark.parametrize("header", [True, False])
async def test_a_server_that_wants_a_pause_gets_it(upstream: Upstream, make: MakeEngine, header: bool) -> None:
    error = {} if header else {"message": "Rate limit reached. Please try again in 500ms."}
    upstream.scripts = [_response("429 Too Many", {"error": error}, "retry-after: 0.5\r\n" if header else ""), WELL]
    engine = await make()
    assert (await _error(engine))[0].retry_after_ms == 500
    while len(upstream.bodies) == 1:
        said = await _outcome(engine)
        if isinstance(said, EngineError):
            assert said.code == "overloaded"
            assert said.retry_after_ms is not None
            assert 0 < said.retry_after_ms <= 500
            await asyncio.sleep(said.retry_after_ms / 1000)
    assert said == "Hello"
    assert len(upstream.bodies) == 2


async def test_a_server_that_wants_the_other_name_of_the_limit_gets_it(upstream: Upstream, make: MakeEngine) -> None:
    message = "Unsupported parameter: use 'max_completion_tokens' instead."
    refused = _response("400 Bad", {"error": {"param": "max_tokens", "message": message}})
    upstream.scripts = [refused, WELL]
    engine = await make()
    assert await _text(engine) == "Hello"
    assert await _text(engine) == "Hello"
    assert [body.get("max_completion_tokens") for body in upstream.bodies] == [None, 40, 40]
    assert "max_tokens" not in upstream.bodies[1]


async def test_unknown_options_are_passed_on_but_replace_none_of_ours(upstream: Upstream, make: MakeEngine) -> None:
    upstream.scripts = [WELL]
    extra = {"min_p": 0.1, "stream": False, "messages": [], "model": "other", "n": 5, "max_tokens": 1}
    await _text(await make(), msgspec.structs.replace(QUESTION, extra=extra, stop=["x"], seed=3))
    body = upstream.bodies[0]
    assert (body["min_p"], body["stream"], body["model"], body["n"], body["max_tokens"]) == (0.1, True, "up", 1, 40)
    assert (body["stop"], body["seed"]) == (["x"], 3)
    assert len(body["messages"]) == 1


async def test_no_key_in_logs_errors_or_anywhere(
    upstream: Upstream, make: MakeEngine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("UP_KEY", "sk-header-77")
    upstream.scripts = [_response("404 Not Found", {"error": {"message": "no sk-test-9f3a", "param": "sk-header-77"}})]
    engine = await make("?key=sk-test-9f3a", api_key_env="UP_KEY")
    error, _ = await _error(engine)
    assert "POST /v1/chat/completions?key=sk-test-9f3a " in upstream.heads[0]
    assert "authorization: bearer sk-header-77" in upstream.heads[0].lower()
    seen = f"{error} {error.detail} {error.param} {error!r} {caplog.text}"
    assert "sk-test" not in seen
    assert "sk-header" not in seen
    assert "IBAN" not in seen


async def test_a_key_that_is_not_set_and_an_address_that_is_none_are_one_sentence(
    make: MakeEngine, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match="needs its key in the variable NO_SUCH_KEY"):
        await make(api_key_env="NO_SUCH_KEY")
    with pytest.raises(SettingsError, match="needs the url"):
        OpenAIEngine.from_config(Model(name="up", engine=EngineConfig(kind="openai")), tmp_path)


async def _slow(writer: asyncio.StreamWriter) -> None:
    writer.write(EVENTS)
    for _ in range(40):
        writer.write(_said("word "))
        await writer.drain()
        await asyncio.sleep(0.005)
    writer.write(_said("", "stop") + DONE + LAST)
    await writer.drain()


async def test_cancelling_twice_in_a_row_leaves_no_connection_behind(upstream: Upstream, make: MakeEngine) -> None:
    upstream.scripts = [_slow]
    engine = await make()
    for at in range(30):
        task = asyncio.create_task(_text(engine, request_id=f"r{at}"))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    upstream.scripts = [WELL]
    assert await _text(engine) == "Hello"
    await engine.drain()
    async with asyncio.timeout(20):
        while upstream.open > 1:
            await asyncio.sleep(0.01)


async def test_cancelling_at_random_leaves_no_connection_behind(upstream: Upstream, make: MakeEngine) -> None:
    chance, upstream.scripts = random.Random(3), [_slow]
    engine = await make()
    slots = asyncio.Semaphore(10)
    finished = 0

    async def ask(at: int) -> None:
        nonlocal finished
        async with slots:
            task = asyncio.create_task(_text(engine, request_id=f"r{at}"))
            if chance.random() < 0.5:
                await asyncio.sleep(chance.random() * 0.2)
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            finished += not task.cancelled()

    await asyncio.gather(*(ask(at) for at in range(100)))
    assert finished > 30
    async with asyncio.timeout(20):
        await engine.drain()
        assert await asyncio.gather(*(_text(engine, request_id=f"s{at}") for at in range(10))) == ["word " * 40] * 10
        await engine.close()
        while upstream.open:
            await asyncio.sleep(0.01)
