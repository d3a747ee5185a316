"""Runs clients against a whole hasten of their own: `python tests/clients/run.py COMMAND…`, or openai-python alone.

A command gets the address, the key and the model names as HASTEN_URL, HASTEN_API_KEY, HASTEN_MODEL (a scripted model
that calls tools, behind its server) and HASTEN_REAL_MODEL (the embedded one).
"""

import asyncio
import os
import shlex
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

HERE = Path(__file__).parent
STATE = HERE.parents[1] / ".hasten"
sys.path[:0] = [str(HERE.parent / "peers")]

from model_server import ModelServer  # noqa: E402

CONFIG = """
[gateway]
deadline_s = 600.0
[orchestrator]
deadline_ms = 600000
max_deadline_ms = 600000

[[models]]
name = "scripted"
capabilities = ["tools", "json", "logprobs"]
quality = 0.9
[models.engine]
kind = "openai"
url = "{url}"
slots = 16

[[models]]
name = "real"
capabilities = ["json", "logprobs"]
quality = 0.4
tokenizer = "smollm2"
[models.engine]
kind = "llama"
path = "smollm2-135m-instruct-q8_0.gguf"
slots = 2
[models.defaults]
temperature = 0.0
"""


@asynccontextmanager
async def system(folder: Path) -> AsyncIterator[dict[str, str]]:
    """A running `hasten up` on free ports and the model server behind it: the environment of a client."""
    data = folder / "data"
    data.mkdir()
    (data / "models").symlink_to(STATE / "models")
    scripted = ModelServer([sys.executable, str(HERE.parent / "peers" / "scripted_model.py")])
    (folder / "hasten.toml").write_text(CONFIG.format(url=scripted.url))
    await scripted.start()
    command = [sys.executable, "-m", "hasten.cli", "up", "--http", "127.0.0.1:0"]
    options = ["--data", str(data), "--config", str(folder / "hasten.toml")]
    up = await asyncio.create_subprocess_exec(*command, *options, stdout=asyncio.subprocess.PIPE)
    try:
        assert up.stdout is not None
        async with asyncio.timeout(300):
            line = (await up.stdout.readline()).decode()
        assert line.startswith("ready "), "hasten up has not started"
        key = (data / "demo.key").read_text().strip()
        yield {
            "HASTEN_URL": line.split()[1].removeprefix("http="),
            "HASTEN_API_KEY": key,
            "HASTEN_MODEL": "scripted",
            "HASTEN_REAL_MODEL": "real",
        }
    finally:
        if up.returncode is None:
            up.terminate()
        await up.communicate()
        await scripted.kill()


async def run(commands: Sequence[Sequence[str]]) -> int:
    """How many of the commands have failed."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="hasten-clients-") as folder:
        async with system(Path(folder)) as environment:
            for command in commands:
                client = await asyncio.create_subprocess_exec(*command, env=os.environ | environment, cwd=HERE)
                failed += await client.wait() != 0
    return failed


def main() -> None:
    """Leaves with 1 when a client has failed."""
    commands = [shlex.split(one) for one in sys.argv[1:]] or [[sys.executable, "openai_client.py"]]
    sys.exit(1 if asyncio.run(run(commands)) else 0)


if __name__ == "__main__":
    main()
