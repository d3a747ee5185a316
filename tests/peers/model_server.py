"""A real OpenAI-compatible server in a process of its own, which a test may stop, freeze and kill.

Run as a program it is llama.cpp's: `model_server.py FILE SLOTS WINDOW PORT`, until its standard input ends.
"""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from typing import Self

import httpx

from hasten.nats_server import free_port

VLLM = "HASTEN_VLLM_PYTHON"
"""The variable that names the Python which has vLLM; `make test-vllm` sets it."""
LOADS_S = 240.0


def llama(path: str, slots: int, window: int) -> list[str]:
    """The command of llama.cpp's server, without its port."""
    return [sys.executable, __file__, path, str(slots), str(window)]


def vllm(path: str, slots: int, window: int) -> list[str]:
    """The command of vLLM's server on a CPU, without its port."""
    options = {"--model": path, "--served-model-name": "m", "--max-num-seqs": str(slots), "--dtype": "float32"}
    options |= {"--max-model-len": str(window), "--host": "127.0.0.1", "--kv-cache-memory-bytes": str(2**30)}
    words = [word for pair in options.items() for word in pair]
    flags = ["--enforce-eager", "--enable-prompt-tokens-details"]
    flags += ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
    return [os.environ[VLLM], "-m", "vllm.entrypoints.openai.api_server", *flags, *words, "--port"]


class ModelServer:
    """One such server, on a port that stays its own over restarts."""

    def __init__(self, command: list[str]) -> None:
        self._command, self._port = command, free_port()
        self._process: Process | None = None

    @property
    def url(self) -> str:
        """Where it is, or will be."""
        return f"http://127.0.0.1:{self._port}/v1"

    async def start(self) -> Self:
        """Returns when it answers."""
        environment = os.environ | {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
        environment |= {"VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "WARNING"}
        self._process = await asyncio.create_subprocess_exec(
            *self._command, str(self._port), stdin=PIPE, stdout=sys.stderr, start_new_session=True, env=environment
        )
        async with asyncio.timeout(LOADS_S), httpx.AsyncClient() as client:
            while not await self._answers(client):
                assert self._process.returncode is None, "the model server has ended"
                await asyncio.sleep(0.05)
        return self

    async def _answers(self, client: httpx.AsyncClient) -> bool:
        try:
            return (await client.get(f"{self.url}/models")).status_code == 200
        except httpx.HTTPError:
            return False

    def freeze(self) -> None:
        """It stops in the middle of whatever it does, with its connections open."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on."""
        self._signal(signal.SIGCONT)

    async def kill(self) -> None:
        """It is gone without a word, and so is everything it has started."""
        self._signal(signal.SIGKILL)
        assert self._process is not None
        await self._process.wait()

    def _signal(self, which: signal.Signals) -> None:
        assert self._process is not None
        if self._process.returncode is None:
            os.killpg(self._process.pid, which)


def main(path: str, slots: int, window: int, port: int) -> None:
    """llama.cpp's server, as the embedded engine sets it up."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_parallel, params.n_ctx, params.n_batch, params.verbosity = slots, slots * window, 64, -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.use_jinja = True
    params.hostnames, params.port = ["127.0.0.1"], port
    server = xllamacpp.Server(params)
    sys.stdin.read()
    del server
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
