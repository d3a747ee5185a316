"""Runs services as a process: uvloop, signals, a bounded drain, and one sentence instead of a traceback."""

import argparse
import asyncio
import contextlib
import errno
import gc
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, Self

import msgspec
from prometheus_client import start_http_server

from hasten.address import DEFAULT_DATA, nats_url, without_secret
from hasten.bus import Bus
from hasten.loop_lag import LoopLag
from hasten.messages.failure import Failed
from hasten.models import ModelTable, model_table
from hasten.runtime import DRAIN_S, Runtime, Unit, build, check, reads_table
from hasten.settings import SettingsError, read_config
from hasten.table_file import TableFile
from hasten.telemetry import REGISTRY, configure_logging
from hasten.tracing import from_environment


def say(line: str) -> None:
    """A line of progress for a person: to stderr, since stdout is for results."""
    print(line, file=sys.stderr, flush=True)


def sentence(error: BaseException) -> str | None:
    """What to tell a person about an error that they can put right; None for a fault of ours.

    Exceptions of hasten's own carry such a sentence; those of the system are explained here.
    """
    if isinstance(error, Failed):
        return error.failure.detail
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return f"the port is in use ({error.strerror})"
    if isinstance(error, OSError | ImportError | SettingsError) or type(error).__module__.startswith("hasten."):
        return str(error) or type(error).__name__
    return None


def _runner() -> Callable[[Coroutine[Any, Any, int]], int]:
    """uvloop's `run`, asyncio's where there is no uvloop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    return uvloop.run


def run_loop(work: Coroutine[Any, Any, int]) -> int:
    """Runs `work` on uvloop and returns its exit code; 2 with one sentence for an error a person can put right."""
    try:
        return _runner()(work)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if (text := sentence(error)) is None:
            raise
        say(f"hasten: {text}")
        return 2


class Stop:
    """The wish to end, from SIGTERM or SIGINT: the first asks for a drain, the second for an end at once."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurried = asyncio.Event()

    def ask(self) -> None:
        """Asks to end, as a signal does."""
        (self.hurried if self.asked.is_set() else self.asked).set()

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.ask)
        return self

    def __exit__(self, *exc: object) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


@contextlib.asynccontextmanager
async def _following(file: TableFile | None, stop: Stop) -> AsyncIterator[None]:
    """Meanwhile takes edits of the model table, and SIGHUP for the wish that the file be read; but when the terminal
    has gone that this was started in, SIGHUP means to end."""
    terminal = _terminal()

    def hung_up() -> None:
        if terminal and not _terminal():
            stop.ask()
        elif file is None:
            say("SIGHUP: there is no model table in a file to read")
        else:
            file.told()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, hung_up)
    task = asyncio.ensure_future(file.follow()) if file is not None else None
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _terminal() -> bool:
    try:
        return os.isatty(0)
    except OSError:
        return False


async def serve(
    runtime: Runtime,
    stop: Stop,
    *,
    ready: Callable[[], None],
    drain_s: float = DRAIN_S,
    file: TableFile | None = None,
) -> int:
    """Starts the services, calls `ready`, waits to be stopped, drains and closes; keeps up with `file` meanwhile.

    Returns 0, or 1 when something accepted was cut off. A stop during the start ends the start.
    """
    async with _following(file, stop):
        return await _serve(runtime, stop, ready, drain_s)


async def _serve(runtime: Runtime, stop: Stop, ready: Callable[[], None], drain_s: float) -> int:
    lag = LoopLag()
    lag.start()
    try:
        if not await _before(stop.asked, runtime.start(say)):
            return 0
        _settle_heap()
        ready()
        await stop.asked.wait()
        say("draining: what was accepted is finished first (again to stop at once)")
        return 0 if await _before(stop.hurried, runtime.drain(drain_s)) else 1
    finally:
        lag.stop()
        await runtime.close()


def _settle_heap() -> None:
    """Leaves what the start has made out of later garbage collections.

    A full one takes 40 to 90 ms in `hasten up`, and every stream waits for it: the p99 of what is added to a chunk at
    200 streams goes from between 0.5 and 8 ms to 0.5 ms (`hasten bench`).
    """
    gc.collect()
    gc.freeze()


async def _before(event: asyncio.Event, work: Coroutine[Any, Any, Any]) -> bool:
    """Whether the work ended before the event, and with something other than False; cancels it otherwise."""
    task = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        return task.done() and task.result() is not False
    finally:
        for one in (task, waiting):
            one.cancel()
        await asyncio.gather(task, waiting, return_exceptions=True)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How one service is run. `model` is for a worker, `metrics` is HOST:PORT; the rest as in `hasten.address`."""

    nats: str | None = None
    data: Path | None = None
    config: Path | None = None
    model: str | None = None
    metrics: str | None = None


def host_port(given: str, what: str) -> tuple[str, int]:
    """Splits HOST:PORT; raises SettingsError naming the option."""
    host, _, port = given.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise SettingsError(f"{what} must be HOST:PORT, such as 127.0.0.1:9090")
    return host.strip("[]"), int(port)


def serve_metrics(address: str) -> None:
    """Exposes this process's metrics for Prometheus; raises OSError when the port is in use."""
    host, port = host_port(address, "--metrics")
    try:
        start_http_server(port, host, registry=REGISTRY)
    except OSError as error:
        raise OSError(f"--metrics {address} cannot be listened on: {error.strerror}") from None


async def run_service(service: str, options: Options) -> int:
    """Runs one service until it is told to stop; returns the exit code: 1 also when its last words reached nobody."""
    path = options.config or _config_of_environment()
    config = read_config(path)
    check(config, [service])
    table = ModelTable(model_table(config))
    file = TableFile(path, table) if path is not None and reads_table(service) else None
    data = options.data or Path(os.environ.get("HASTEN_DATA", DEFAULT_DATA))
    url, tracing = nats_url(options.nats, data), from_environment()
    with Stop() as stop:
        bus = await Bus.connect(url, name=f"hasten-{service}")
        bus.tracing = tracing
        try:
            unit = build(service, bus, config, table=table, data=str(data), model=options.model)
            if metrics := options.metrics or os.environ.get("HASTEN_METRICS"):
                serve_metrics(metrics)
            code = await serve(Runtime([{service: unit}]), stop, ready=lambda: _ready(service, url, unit), file=file)
        finally:
            lost = await bus.close()
            if tracing is not None:
                await asyncio.to_thread(tracing.close)
    return code or int(lost > 0)


def _ready(service: str, url: str, unit: Unit) -> None:
    model = f" model={named}" if (named := getattr(unit, "model", "")) else ""
    print(f"ready service={service} nats={without_secret(url)}{model}", flush=True)


def _config_of_environment() -> Path | None:
    given = os.environ.get("HASTEN_CONFIG")
    return Path(given) if given else None


def launch(service: str, options: Options) -> int:
    """Runs one service as this process and returns its exit code."""
    configure_logging()
    return run_loop(run_service(service, options))


def main(service: str) -> None:
    """`python -m hasten.<service>`: the same as `hasten run <service>`."""
    parser = argparse.ArgumentParser(prog=f"python -m hasten.{service}", description=f"Run the {service} of hasten.")
    parser.add_argument("--nats", metavar="URL", help="the NATS server (else HASTEN_NATS, else nats://127.0.0.1:4222)")
    parser.add_argument("--data", metavar="DIR", type=Path, help="the folder for what the service keeps")
    parser.add_argument("--config", metavar="FILE", type=Path, help="settings in TOML")
    parser.add_argument("--model", metavar="NAME", help="which model of the table a worker runs")
    parser.add_argument("--metrics", metavar="HOST:PORT", help="expose metrics for Prometheus (else HASTEN_METRICS)")
    sys.exit(launch(service, Options(**vars(parser.parse_args()))))
