"""The files of deploy/ that join Debezium Server to hasten fit together. No container is started here."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from debezium import PREFIX, ROOT, SHIPPED, embedded, shipped

from hasten.bus import Bus
from hasten.changes.settings import changes
from hasten.journal import ensure_stream
from hasten.messages.change import STREAM
from hasten.runtime import check_sections
from hasten.settings import read_config

CONFIG = ROOT / "deploy" / "hasten.toml"


def block(name: str) -> dict[str, Any]:
    made: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"][name]
    return made


def test_the_stream_captures_what_debezium_publishes() -> None:
    check_sections(read_config(CONFIG))
    assert changes(read_config(CONFIG)).sources == [f"{PREFIX}.>"]


async def test_the_stream_stores_rows_transactions_and_heartbeats(bus: Bus) -> None:
    """A subject that no stream captures would stop Debezium Server at its first message there."""
    await ensure_stream(bus, changes(read_config(CONFIG)).sources)
    beats = embedded(shipped())["topic.heartbeat.prefix"]
    for subject in (f"{PREFIX}.public.prices", f"{PREFIX}.transaction", f"{PREFIX}.message", f"{beats}.{PREFIX}"):
        await bus.store_raw(subject, b"{}")
    assert (await bus.js.stream_info(STREAM)).state.messages == 4


def test_the_sink_publishes_to_our_nats_and_makes_no_stream() -> None:
    found = shipped()
    assert found["debezium.sink.type"] == "nats-jetstream"
    assert found["debezium.sink.nats-jetstream.create-stream"] == "false"
    host, port = found["debezium.sink.nats-jetstream.url"].removeprefix("nats://").split(":")
    assert (host, block(host)["command"][0]) == ("nats", "--jetstream")
    assert f"{port}:{port}" in block(host)["ports"]
    assert {name.split(".")[1] for name in found if name.startswith("debezium.")} == {"sink", "source", "format"}


def test_truncates_are_sent_and_deletes_come_in_the_envelope() -> None:
    source = embedded(shipped())
    assert source["skipped.operations"] == "none"
    assert source["topic.prefix"] == PREFIX
    assert not any("transforms" in name for name in shipped())


def test_debezium_reads_our_postgres_and_neither_starts_without_the_profile() -> None:
    source, database, debezium = embedded(shipped()), block("postgres"), block("debezium")
    assert database["profiles"] == debezium["profiles"] == ["cdc"]
    assert "wal_level=logical" in database["command"]
    assert source["database.dbname"] == database["environment"]["POSTGRES_DB"]
    password = debezium["environment"]["DEBEZIUM_SOURCE_DATABASE_PASSWORD"]
    assert password == database["environment"]["POSTGRES_PASSWORD"]
    assert set(debezium["depends_on"]) == {source["database.hostname"], "nats", "cache"}


@pytest.mark.parametrize(("name", "ours"), [("debezium", SHIPPED), ("cache", CONFIG), ("retriever", CONFIG)])
def test_the_files_are_where_the_containers_look(name: str, ours: Path) -> None:
    mounted = {str(ROOT / volume.split(":")[0]): volume.split(":")[1] for volume in block(name)["volumes"]}
    assert str(ours) in mounted
    if ours == CONFIG:
        assert block(name)["environment"]["HASTEN_CONFIG"] == mounted[str(ours)]


def test_debezium_keeps_its_place_in_a_volume() -> None:
    volumes = [volume.split(":") for volume in block("debezium")["volumes"]]
    named = yaml.safe_load((ROOT / "compose.yaml").read_text())["volumes"]
    assert [place for name, place, *_ in volumes if name in named] == ["/debezium/data"]
    assert embedded(shipped())["offset.storage.file.filename"].startswith("data/")


def test_without_java_the_target_fails_with_one_sentence(tmp_path: Path) -> None:
    """Not a skip: who asks for real Debezium wants to know that there was none."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/cdc/live_debezium.py"]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 2
    assert "make test-cdc needs Java 17 or newer" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
