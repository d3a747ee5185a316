"""How the engine for OpenAI-compatible servers starts, what it asks for, and what it tells nobody."""

import asyncio
import logging
from pathlib import Path

import msgspec
import pytest
from upstream import QUESTION, WELL, Connect, Upstream, error_of, response, text

from hasten.models import EngineConfig, Model
from hasten.settings import SettingsError
from hasten.worker.engines import EngineError
from hasten.worker.engines.openai import OpenAIEngine


async def test_nobody_listening_is_a_start_to_try_again(tmp_path: Path) -> None:
    config = EngineConfig(kind="openai", url="http://127.0.0.1:9/v1?key=sk-test-9f3a")
    engine = OpenAIEngine.from_config(Model(name="up", slug="up", engine=config), tmp_path)
    with pytest.raises(EngineError) as caught:
        await engine.start()
    assert caught.value.code == "unavailable"
    assert "sk-test" not in str(caught.value)
    await engine.close()


async def test_the_first_caller_finds_an_open_connection(upstream: Upstream, connect: Connect) -> None:
    upstream.scripts = [WELL]
    engine = await connect("?key=k")
    assert (upstream.asked, upstream.connections) == (["/v1/models?key=k"], 1)
    assert await text(engine) == "Hello"
    assert upstream.connections == 1


@pytest.mark.parametrize("status", ["401 Unauthorized", "404 Not Found", "500 Oops"])
async def test_a_server_that_does_not_tell_its_models_is_there_all_the_same(
    upstream: Upstream, connect: Connect, status: str, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.models, upstream.scripts = response(status, {"error": {"message": "no sk-9"}}), [WELL]
    assert await text(await connect()) == "Hello"
    assert ("refuses its key (status 401)" in caplog.text) == status.startswith("401")
    assert "sk-9" not in caplog.text


async def test_a_server_that_is_loading_is_a_start_to_try_again(upstream: Upstream, connect: Connect) -> None:
    upstream.models = response("503 Busy", {"error": {"message": "Loading model"}})
    with pytest.raises(EngineError) as caught:
        await connect()
    assert (caught.value.code, caught.value.detail) == ("unavailable", "the model server is not ready")


async def _outcome(engine: OpenAIEngine) -> str | EngineError:
    try:
        return await text(engine)
    except EngineError as error:
        return error


@pytest.mark.parametrize("header", [True, False])
async def test_a_server_that_wants_a_pause_gets_it(upstream: Upstream, connect: Connect, header: bool) -> None:
    error = {} if header else {"message": "Rate limit reached. Please try again in 500ms."}
    upstream.scripts = [response("429 Too Many", {"error": error}, "retry-after: 0.5\r\n" if header else ""), WELL]
    engine = await connect()
    assert engine.pause_ms == 0
    assert (await error_of(engine))[0].retry_after_ms == 500
    assert engine.pause_ms <= 500
    while len(upstream.bodies) == 1:
        said = await _outcome(engine)
        if isinstance(said, EngineError):
            assert said.code == "overloaded"
            assert said.retry_after_ms is not None
            assert 0 < said.retry_after_ms <= 500
            await asyncio.sleep(said.retry_after_ms / 1000)
    assert said == "Hello"
    assert len(upstream.bodies) == 2


async def test_a_server_that_wants_the_other_name_of_the_limit_gets_it(upstream: Upstream, connect: Connect) -> None:
    message = "Unsupported parameter: use 'max_completion_tokens' instead."
    refused = response("400 Bad", {"error": {"param": "max_tokens", "message": message}})
    upstream.scripts = [refused, WELL]
    engine = await connect()
    assert await text(engine) == "Hello"
    assert await text(engine) == "Hello"
    assert [body.get("max_completion_tokens") for body in upstream.bodies] == [None, 40, 40]
    assert "max_tokens" not in upstream.bodies[1]


async def test_unknown_options_are_passed_on_but_replace_none_of_ours(upstream: Upstream, connect: Connect) -> None:
    upstream.scripts = [WELL]
    extra = {"min_p": 0.1, "stream": False, "messages": [], "model": "other", "n": 5, "max_tokens": 1}
    await text(await connect(), msgspec.structs.replace(QUESTION, extra=extra, stop=["x"], seed=3))
    body = upstream.bodies[0]
    assert (body["min_p"], body["stream"], body["model"], body["n"], body["max_tokens"]) == (0.1, True, "up", 1, 40)
    assert (body["stop"], body["seed"]) == (["x"], 3)
    assert len(body["messages"]) == 1


async def test_no_key_in_logs_errors_or_anywhere(
    upstream: Upstream, connect: Connect, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("UP_KEY", "sk-header-77")
    upstream.scripts = [response("404 Not Found", {"error": {"message": "no sk-test-9f3a", "param": "sk-header-77"}})]
    engine = await connect("?key=sk-test-9f3a", api_key_env="UP_KEY")
    error, _ = await error_of(engine)
    assert "POST /v1/chat/completions?key=sk-test-9f3a " in upstream.heads[0]
    assert "authorization: bearer sk-header-77" in upstream.heads[0].lower()
    seen = f"{error} {error.detail} {error.param} {error!r} {caplog.text}"
    assert "sk-test" not in seen
    assert "sk-header" not in seen
    assert "IBAN" not in seen


async def test_a_key_that_is_not_set_and_an_address_that_is_none_are_one_sentence(
    connect: Connect, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match="needs its key in the variable NO_SUCH_KEY"):
        await connect(api_key_env="NO_SUCH_KEY")
    with pytest.raises(SettingsError, match="needs the url"):
        OpenAIEngine.from_config(Model(name="up", engine=EngineConfig(kind="openai")), tmp_path)
