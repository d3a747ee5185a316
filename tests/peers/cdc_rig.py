"""What the live tests of change events stand on: a whole hasten, a PostgreSQL, and Debezium between the two."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from debezium import Debezium, Mode, Record, missing
from postgres import Postgres
from shop import TABLES, Step

from hasten.bus import Bus
from hasten.client import Hasten
from hasten.embedder import export

ROOT = Path(__file__).parents[2]
STATE = ROOT / ".hasten"
MORE = """
[[models]]
name = "small"
engine = { kind = "sim", sim_answer = "So it is.", sim_decode_per_s = 1000.0 }

[[changes.tables]]
table = "public.articles"
key = ["id"]
document = { collection = "articles", tenant = "demo", id = "{id}", title = "{title}", text = "{body}" }
"""
QUESTIONS = {
    "prices:7": "How much is the Family plan?",
    "prices:8": "How much is the Solo plan?",
    "prices:9": "How much is the Team plan?",
    "prices": "Which plans are there?",
    "articles:1": "How do I send a parcel back?",
    "articles:2": "How do parcels travel?",
    "stock:31,2": "How many blue lamps are left?",
    "stock:32,2": "How many red chairs are left?",
    "visits": "Which page do people look at?",
    "weather": "Does it rain in Lyon?",
}
ACTIVE = "SELECT count(*) FROM pg_replication_slots WHERE active"


@pytest.fixture(scope="module")
def machine() -> None:
    if sentence := missing():
        pytest.exit(sentence, returncode=2)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def postgres(machine: None) -> AsyncIterator[Postgres]:
    made = Postgres()
    try:
        yield await made.start()
    finally:
        await made.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nats(machine: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The NATS address of a `hasten up` with the settings that compose.yaml gives to its services."""
    data = tmp_path_factory.mktemp("hasten")
    export.prepare(STATE, print)
    (data / "models").symlink_to(STATE / "models")
    config = data / "hasten.toml"
    config.write_text((ROOT / "deploy" / "hasten.toml").read_text() + MORE)
    command = ("-m", "hasten.cli", "up", "--http", "127.0.0.1:0", "--data", str(data), "--config", str(config))
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(120):
            line = (await process.stdout.readline()).decode()
        assert line.startswith("ready "), line
        yield line.rpartition("nats=")[2].strip()
    finally:
        process.terminate()
        await process.wait()


class Rig:
    """What a test uses: the database, the engine, and a tenant who asks."""

    def __init__(self, postgres: Postgres, bus: Bus, tenant: Hasten, mode: Mode) -> None:
        self.postgres, self.tenant, self.mode = postgres, tenant, mode
        self.debezium = Debezium(bus, postgres.port, mode)
        self._marks = 0
        self._read = 0

    async def begin(self) -> None:
        """Fresh tables, and a first answer to everything."""
        await self.postgres.sql(TABLES + self.mode.sql)
        for tag in QUESTIONS:
            await self.warm(tag)

    async def start(self) -> None:
        """Returns when Debezium has taken its snapshot and reads the log."""
        await self.debezium.start()
        await until(lambda: self.postgres.sql(ACTIVE), ["1"], "Debezium does not read the log")

    async def end(self) -> None:
        await self.debezium.stop()
        await until(lambda: self.postgres.sql(ACTIVE), ["0"])
        await self.postgres.sql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
        await self.postgres.sql("DROP PUBLICATION IF EXISTS hasten")

    async def source(self, tag: str) -> str:
        """Where the answer to the tag's question comes from now."""
        policy = {"tags": [tag], "mode": "exact"}
        return (await self.tenant.ask(QUESTIONS[tag], cache=policy)).cache

    async def warm(self, tag: str) -> None:
        await until(lambda: self.source(tag), "exact")

    async def settled(self) -> list[Record]:
        """What Debezium has sent for everything committed since the last call; all of it is stored in the stream."""
        self._marks += 1
        mark = f"mark {self._marks}"
        await self.postgres.sql(f"SELECT pg_logical_emit_message(false, '{mark}', '')")
        await self.debezium.seen(lambda record: record.marker == mark)
        records = self.debezium.records
        at = next(index for index, record in enumerate(records) if record.marker == mark)
        since, self._read = records[self._read : at], at + 1
        return [record for record in since if "heartbeat" not in record.destination]

    async def check(self, step: Step) -> list[Record]:
        """Does a step, and sees the stale answers go and the others stay; returns what Debezium sent for it."""
        kept = step.staying(self.mode)
        for tag in {*step.stale, *kept}:
            await self.warm(tag)
        await (self.postgres.sql(step.sql) if step.sql else self.start())
        records = await self.settled()
        if not step.heard(self.mode):
            return records
        for tag in step.stale:
            await until(lambda tag=tag: self.source(tag), "miss", f"{step.name}: the answer from {tag} is still given")
        for tag in kept:
            assert await self.source(tag) == "exact", f"{step.name}: the answer from {tag} is gone"
        return records


async def until(ask: Any, wanted: Any, otherwise: str = "", timeout_s: float = 20.0) -> None:
    """Returns when `ask` returns what is wanted."""
    deadline = time.monotonic() + timeout_s
    while (found := await ask()) != wanted:
        assert time.monotonic() < deadline, f"{otherwise or wanted}: {found}"
        await asyncio.sleep(0.01)


@pytest_asyncio.fixture(loop_scope="module")
async def rig(request: pytest.FixtureRequest, postgres: Postgres, nats: str) -> AsyncIterator[Rig]:
    bus = await Bus.connect(nats, name="pipeline")
    async with Hasten.connect(nats, tenant="demo") as tenant:
        made = Rig(postgres, bus, tenant, request.param)
        try:
            await made.begin()
            yield made
        finally:
            await made.end()
            await bus.close()
