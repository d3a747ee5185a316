"""A whole hasten in one process: what `hasten up`, the demo and the benchmark start."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec

from hasten import address
from hasten.bus import Bus
from hasten.embedder.settings import Settings as EmbedderSettings
from hasten.gateway.server import check_free
from hasten.gateway.settings import Settings as GatewaySettings
from hasten.journal import ensure_stream
from hasten.keys import ensure_key
from hasten.models import EngineConfig, Model, ModelTable, model_table
from hasten.nats_server import NatsServer, ServerMissing, free_port
from hasten.prepare import Say, prepare
from hasten.run import host_port
from hasten.runtime import SPARED, Runtime, check, installed, whole_system
from hasten.settings import SettingsError, read_config, settings
from hasten.table_file import TableFile
from hasten.tracing import from_environment

NATS_PORT = 4222
RESTART_S = 1.0
TENANT = "demo"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to start, as the options of `hasten up` say it; `without` are services that are not started. The
    retriever starts with an embedder only."""

    http: str | None = None
    nats: str = "embedded"
    data: Path = Path(address.DEFAULT_DATA)
    engine: str = "embedded"
    config: Path | None = None
    without: tuple[str, ...] = ()


class System(msgspec.Struct, frozen=True, kw_only=True):
    """A system that has been put together: `runtime` starts it. `key` is the API key of the tenant demo, `file` where
    the model table is kept up with, if it came from one."""

    runtime: Runtime
    bus: Bus
    nats: str
    key: str
    data: Path
    file: TableFile | None = None

    @property
    def http(self) -> str:
        """Where the gateway is, once it has started."""
        return str(getattr(self.runtime.units["gateway"], "url", ""))


@contextlib.asynccontextmanager
async def system(wanted: Wanted, say: Say) -> AsyncIterator[System]:
    """Puts a system together around its NATS server; at the end closes the connection and an embedded server.

    Raises SettingsError, ServerMissing, Unreachable or WeightsMissing, each with one sentence.
    """
    if wanted.http is not None:
        host_port(wanted.http, "--http")
    if needed := ", ".join(sorted(set(wanted.without) - set(SPARED))):
        raise SettingsError(f"--without {needed}: only {', '.join(SPARED)} can be done without")
    config = await configuration(wanted)
    with _owned(wanted.data):
        check_free(settings(GatewaySettings, "gateway", config, http=wanted.http).http)
        embedder = settings(EmbedderSettings, "embedder", config)
        table = ModelTable(model_table(config))
        spared = {*wanted.without, *(["retriever"] if "embedder" in wanted.without else [])}
        await prepare(wanted.data, table, "" if "embedder" in spared else embedder.model, say)
        async with _nats(wanted, say) as url, _connected(url) as bus:
            await ensure_stream(bus)
            where = {"data": str(wanted.data), "http": wanted.http}
            runtime = whole_system(bus, config, table=table, without=spared, **where)
            key = await ensure_key(bus, TENANT, wanted.data)
            file = table_file(wanted, table)
            yield System(runtime=runtime, bus=bus, nats=url, key=key, data=wanted.data, file=file)


@contextlib.asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Bus]:
    tracing = from_environment()
    bus = await Bus.connect(url, name="hasten-up")
    bus.tracing = tracing
    try:
        yield bus
    finally:
        await bus.close()
        if tracing is not None:
            await asyncio.to_thread(tracing.close)


@contextlib.asynccontextmanager
async def _nats(wanted: Wanted, say: Say) -> AsyncIterator[str]:
    """The URL of the server: an embedded one on the usual port, or another where that is taken, or the given one."""
    if wanted.nats != "embedded":
        yield wanted.nats
        return
    server = NatsServer(wanted.data / "jetstream", port=free_port(NATS_PORT))
    if server.port != NATS_PORT:
        say(f"port {NATS_PORT} is in use: NATS is at {server.url}")
    await server.start()
    keeping = asyncio.ensure_future(_keep(server, say))
    try:
        yield server.url
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await server.stop()


async def _keep(server: NatsServer, say: Say) -> None:
    """Starts the server anew whenever it ends; who is connected to it comes back by itself."""
    while True:
        await server.wait()
        await server.stop()
        try:
            say("the NATS server has ended: starting it again")
            await server.start()
        except ServerMissing as error:
            say(str(error))
            await asyncio.sleep(RESTART_S)


@contextlib.contextmanager
def _owned(data: Path) -> Iterator[None]:
    """Holds the data folder for this process; raises SettingsError when another one has it."""
    import fcntl

    data.mkdir(parents=True, exist_ok=True)
    with (data / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingsError(f"another hasten is running in {data}: stop it, or give another --data") from None
        yield


async def configuration(wanted: Wanted) -> dict[str, Any]:
    """The config with the model table that `engine` asks for: as it is, simulated, or one upstream model."""
    config = read_config(wanted.config)
    check(config, sorted(installed()))
    if wanted.engine == "embedded":
        return config
    if wanted.engine == "sim":
        models = [simulated(model, wanted.data) for model in model_table(config)]
    elif wanted.engine.startswith("openai:"):
        models = [await upstream(wanted.engine.removeprefix("openai:"))]
    else:
        raise SettingsError("--engine must be embedded, sim or openai:URL")
    return {**config, "models": msgspec.to_builtins(models)}


def table_file(wanted: Wanted, table: ModelTable) -> TableFile | None:
    """Keeps the table up with the config, unless it did not come from there."""
    if wanted.config is None or wanted.engine not in ("embedded", "sim"):
        return None
    if wanted.engine == "embedded":
        return TableFile(wanted.config, table)
    return TableFile(wanted.config, table, lambda config: [simulated(one, wanted.data) for one in model_table(config)])


def simulated(model: Model, data: Path) -> Model:
    """The model with the simulator as its engine, which needs no weights; its tokenizer only if it is there."""
    plain = model.engine
    engine = EngineConfig(kind="sim", slots=plain.slots, queue=plain.queue)
    tokenizer = model.tokenizer if (data / "models" / model.tokenizer / "tokenizer.json").exists() else ""
    return msgspec.structs.replace(model, engine=engine, tokenizer=tokenizer)


async def upstream(url: str) -> Model:
    """The first model that an OpenAI-compatible server lists (or the one after `#`); the key is OPENAI_API_KEY.

    Raises SettingsError when the server cannot be asked.
    """
    url, _, name = url.partition("#")
    key_env = "OPENAI_API_KEY" if os.environ.get("OPENAI_API_KEY") else ""
    name = name or await _first_model(url, os.environ.get(key_env, ""))
    engine = EngineConfig(kind="openai", url=url, upstream_model=name, api_key_env=key_env)
    return Model(name=name, engine=engine, capabilities=["tools", "json", "logprobs"])


async def _first_model(url: str, key: str) -> str:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        async with httpx.AsyncClient(timeout=5, headers=headers) as client:
            answer = (await client.get(f"{url.rstrip('/')}/models")).raise_for_status().json()
        return str(answer["data"][0]["id"])
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, LookupError, TypeError):
        raise SettingsError(
            "--engine: the server does not list its models at URL/models; name one as openai:URL#MODEL"
        ) from None
