"""A collector of spans that is away or says nothing costs no request, and the process ends none the less."""

import asyncio
import os
import socket
import sys
from pathlib import Path

import pytest

from hasten.bus import Bus
from hasten.deadline import TENANT
from hasten.messages.chat import Done, Turn
from hasten.messages.generate import GENERATE, Generate
from hasten.nats_server import NatsServer

CONFIG = """
[worker]
worker = "w1"
[[models]]
name = "sim"
engine = { kind = "sim", sim_decode_per_s = 1000.0, sim_answer = "one two three" }
"""
SMALL = {"OTEL_BSP_SCHEDULE_DELAY": "50", "OTEL_BSP_MAX_QUEUE_SIZE": "8", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "4"}


@pytest.mark.parametrize("listens", [True, False], ids=["silent", "away"])
async def test_every_request_is_answered(bus: Bus, nats_server: NatsServer, tmp_path: Path, listens: bool) -> None:
    (tmp_path / "hasten.toml").write_text(CONFIG)
    with socket.socket() as collector:
        collector.bind(("127.0.0.1", 0))
        if listens:
            collector.listen(64)
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.getsockname()[1]}"}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hasten.worker", "--nats", nats_server.url, "--data", str(tmp_path)),
            *("--config", str(tmp_path / "hasten.toml")),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=os.environ | endpoint | SMALL,
        )
        try:
            assert process.stdout is not None
            assert (await process.stdout.readline()).startswith(b"ready ")
            for _ in range(20):
                stream = await bus.stream(
                    GENERATE,
                    Generate(messages=[Turn(role="user", content="Count.")]),
                    slug="sim",
                    worker="w1",
                    headers={TENANT: "acme"},
                )
                assert isinstance([event async for event in stream][-1], Done)
            process.terminate()
            _, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == 0
    assert "Traceback" not in errors.decode()
