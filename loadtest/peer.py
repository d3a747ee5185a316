"""The gateways that hasten is compared with: how each is installed, started and asked, every one as its makers say."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from hasten.nats_server import free_port
from loadtest.http_lane import HttpLanes
from loadtest.peer_upstream import MODEL

KEY = "sk-compared-0123456789abcdef0123456789abcdef"
START_S = 120.0


class NotThere(Exception):
    """Why a gateway cannot be compared here, in a sentence."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """One gateway. `install` are commands, `made` the file that is there after them; `command` is given its folder, the
    port and the model server's URL, and writes what it needs; `headers` and `environment` likewise."""

    name: str
    what: str
    install: Callable[[Path], Sequence[Sequence[str]]]
    made: str
    command: Callable[[Path, int, str], Sequence[str]]
    headers: Callable[[str], dict[str, str]] = lambda upstream: {}
    environment: Mapping[str, str] = {}


def _venv(package: str) -> Callable[[Path], Sequence[Sequence[str]]]:
    def commands(folder: Path) -> Sequence[Sequence[str]]:
        python = str(folder / "bin" / "python")
        return [[sys.executable, "-m", "venv", str(folder)], [python, "-m", "pip", "install", "-q", package]]

    return commands


def _npm(folder: Path) -> Sequence[Sequence[str]]:
    folder.mkdir(parents=True, exist_ok=True)
    pinned = {"@portkey-ai/gateway": "1.15.2", "@hono/node-server": "1.13.8"}
    package = {"dependencies": pinned, "overrides": {"@hono/node-server": pinned["@hono/node-server"]}}
    (folder / "package.json").write_text(json.dumps(package))
    return [["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts"]]


def _litellm(folder: Path, port: int, upstream: str) -> Sequence[str]:
    row = {"model_name": MODEL, "litellm_params": {"model": f"openai/{MODEL}", "api_base": upstream, "api_key": "none"}}
    settings = {"cache": True, "cache_params": {"type": "local"}}
    config = folder / "compared.yaml"
    made = {"model_list": [row], "litellm_settings": settings, "general_settings": {"master_key": KEY}}
    config.write_text(json.dumps(made))
    where = ["--host", "127.0.0.1", "--port", str(port)]
    return [str(folder / "bin" / "litellm"), "--config", str(config), "--num_workers", "1", *where]


def _mlflow(folder: Path, port: int, upstream: str) -> Sequence[str]:
    model = {"provider": "openai", "name": MODEL, "config": {"openai_api_key": "none", "openai_api_base": upstream}}
    config = folder / "compared.yaml"
    config.write_text(json.dumps({"endpoints": [{"name": MODEL, "endpoint_type": "llm/v1/chat", "model": model}]}))
    where = ["--host", "127.0.0.1", "--port", str(port)]
    return [
        *(str(folder / "bin" / "mlflow"), "gateway", "start", "--config-path", str(config), "--workers", "1"),
        *where,
    ]


def _portkey(folder: Path, port: int, upstream: str) -> Sequence[str]:
    script = folder / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js"
    return ["node", str(script), f"--port={port}", "--headless"]


def _portkey_headers(upstream: str) -> dict[str, str]:
    host = upstream.replace("127.0.0.1", "localhost")
    config = {"provider": "openai", "api_key": "none", "custom_host": host, "cache": {"mode": "simple"}}
    return {"x-portkey-config": json.dumps(config)}


RECIPES = (
    Recipe(
        name="LiteLLM proxy",
        what="Python, one worker, local cache, a master key",
        install=_venv("litellm[proxy]"),
        made="bin/litellm",
        command=_litellm,
        headers=lambda upstream: {"Authorization": f"Bearer {KEY}"},
        environment={"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"},
    ),
    Recipe(
        name="MLflow gateway",
        what="Python, one worker, no cache, no keys",
        install=_venv("mlflow[gateway]"),
        made="bin/mlflow",
        command=_mlflow,
    ),
    Recipe(
        name="Portkey gateway",
        what="Node, one process, simple cache, no keys of its own",
        install=_npm,
        made="node_modules/@portkey-ai/gateway/build/start-server.js",
        command=_portkey,
        headers=_portkey_headers,
    ),
)


async def installed(recipe: Recipe, data: Path, say: Callable[[str], None]) -> Path:
    """The folder it is in, after installing it there if it is not; raises NotThere with the reason."""
    folder = data / recipe.name.partition(" ")[0].lower()
    if (folder / recipe.made).exists():
        return folder
    say(f"installing {recipe.name} in {folder}")
    for command in recipe.install(folder):
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            raise NotThere(f"cannot be installed: {command[0]} is not here ({error.strerror})") from None
        try:
            _, errors = await process.communicate()
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
        if process.returncode:
            last = [line for line in errors.decode(errors="replace").splitlines() if line.strip()][-1:]
            raise NotThere(f"cannot be installed: {' '.join(last)[:200] or command[0]}")
    if not (folder / recipe.made).exists():
        raise NotThere(f"was installed without {recipe.made}")
    return folder


@contextlib.contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """What is started meanwhile, and all it starts, runs on that core alone."""
    before = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.asynccontextmanager
async def process(
    command: Sequence[str], log: Path, environment: Mapping[str, str], *, reads: bool = False
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that is ended with all of its group; its standard output can be read if `reads`."""
    with log.open("ab") as target:
        made = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE if reads else target,
            stderr=target,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    try:
        yield made
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(made.pid, number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(15):
                    await made.wait()


@contextlib.asynccontextmanager
async def running(recipe: Recipe, folder: Path, upstream: str) -> AsyncIterator[tuple[HttpLanes, int]]:
    """The gateway in front of a model server: how it is asked, and its process; raises NotThere."""
    port, log = free_port(), folder / "compared.log"
    command = recipe.command(folder, port, upstream)
    async with process(command, log, recipe.environment) as made:
        lanes = HttpLanes(f"http://127.0.0.1:{port}/v1", recipe.headers(upstream))
        body = {"model": MODEL, "max_tokens": 2, "messages": [{"role": "user", "content": "Are you there?"}]}
        last = "it does not listen"
        for _ in range(round(START_S / 0.5)):
            if made.returncode is not None:
                raise NotThere(f"does not start: {_last_line(log)}")
            with contextlib.suppress(OSError):
                told = await lanes.post("/chat/completions", {**body, "stream": True})
                if told.status == 200:
                    break
                last = f"status {told.status}: {told.body[:120].decode(errors='replace')}"
            await asyncio.sleep(0.5)
        else:
            raise NotThere(f"does not answer: {last}")
        yield lanes, made.pid
        lanes.close()


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it says nothing"
