"""The engine for OpenAI-compatible servers over HTTP/2: kept connections, and nobody generates for who has left."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from engine_rig import PATIENCE_S, asked, refused, text
from h2_server import H2Server, certificate
from patience import until

from hasten.models import EngineConfig, Model
from hasten.settings import SettingsError
from hasten.worker.engines import EngineError
from hasten.worker.engines.openai import OpenAIEngine

SLOTS = 10
MakeEngine = Callable[..., Awaitable[OpenAIEngine]]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The server's certificate and key."""
    return certificate(tmp_path_factory.mktemp("certificates"))


@pytest_asyncio.fixture
async def server(certificates: tuple[Path, Path]) -> AsyncIterator[H2Server]:
    """The server, listening."""
    made = await H2Server().start(*certificates)
    yield made
    await made.close()


@pytest_asyncio.fixture
async def make(server: H2Server, certificates: tuple[Path, Path]) -> AsyncIterator[MakeEngine]:
    """Makes a started engine for that server."""
    made: list[OpenAIEngine] = []

    async def engine(**options: Any) -> OpenAIEngine:
        trusted: dict[str, Any] = {"ca_file": str(certificates[0]), "url": server.url, **options}
        config = EngineConfig(kind="openai", slots=SLOTS, **trusted)
        made.append(OpenAIEngine.from_config(Model(name="up", slug="up", engine=config), Path()))
        await made[-1].start()
        return made[-1]

    yield engine
    for one in made:
        await one.close()


async def test_connections_are_kept_one_for_each_that_runs_at_once(server: H2Server, make: MakeEngine) -> None:
    engine = await make()
    assert server.connections == 1
    for _ in range(3):
        assert await text(engine, asked()) == "Hello"
        await engine.drain()
    assert server.connections == 1
    for _ in range(3):
        said = await asyncio.gather(*(text(engine, asked(), f"acme/{at}") for at in range(SLOTS)))
        assert said == ["Hello"] * SLOTS
        await engine.drain()
    assert server.connections == SLOTS


async def test_an_abort_stops_its_generation_and_no_other(server: H2Server, make: MakeEngine) -> None:
    engine = await make()
    server.endless = True
    async with aclosing(engine.generate("acme/stays", asked())) as stays:
        await anext(stays)
        async with aclosing(engine.generate("acme/goes", asked())) as goes:
            await anext(goes)
            assert server.open_streams == 2
            await engine.abort("acme/goes")
            with pytest.raises(EngineError):
                await anext(goes)
        await until(lambda: server.open_streams == 1)
        server.endless = False
        assert await text(engine, asked(), "acme/next") == "Hello"
        assert server.open_streams == 1


@pytest.mark.parametrize("twice", [False, True])
async def test_cancels_at_any_moment_leave_no_stream_and_no_connection(
    server: H2Server, make: MakeEngine, twice: bool
) -> None:
    engine = await make()
    server.endless = True
    for at in range(150):
        task = asyncio.create_task(text(engine, asked(), f"acme/{at}"))
        for _ in range(at % 30):
            await asyncio.sleep(0)
        task.cancel()
        if twice:
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    async with asyncio.timeout(PATIENCE_S):
        await engine.drain()
    await until(lambda: server.open_streams == 0)
    server.endless = False
    said = await asyncio.gather(*(text(engine, asked(), f"acme/after{at}") for at in range(SLOTS)))
    assert said == ["Hello"] * SLOTS
    await until(lambda: len(server.live) == SLOTS)


async def test_a_connection_that_the_server_has_ended_is_made_anew(server: H2Server, make: MakeEngine) -> None:
    engine = await make()
    await asyncio.gather(*(text(engine, asked(), f"acme/{at}") for at in range(SLOTS)))
    for _ in range(3):
        await server.say_goodbye()
        assert await text(engine, asked()) == "Hello"


async def test_a_certificate_that_nobody_vouches_for_is_refused_in_one_sentence(make: MakeEngine) -> None:
    with pytest.raises(EngineError, match="its certificate is not trusted: see ca_file"):
        await make(ca_file="")
    with pytest.raises(SettingsError, match="is no file with certificates"):
        await make(ca_file="/nowhere/ca.pem")


async def test_a_server_that_has_gone_is_a_failure_to_try_again(make: MakeEngine, server: H2Server) -> None:
    engine = await make()
    await server.close()
    error = await refused(engine, asked())
    assert (error.code, error.retry_after_ms) == ("upstream", 1000)
