"""`hasten bench` runs against a system that it starts itself, and says everything it should."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from hasten import address
from hasten.embedder import export

STATE = Path(__file__).parents[2] / ".hasten"


@pytest.mark.timeout(300)
async def test_every_budget_that_can_be_measured_has_a_row(tmp_path: Path) -> None:
    await asyncio.to_thread(export.prepare, STATE, print)
    (tmp_path / "models").symlink_to(STATE / "models")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "hasten.cli", "bench", "--quick", "--entries", "50", "--engine", "sim", "--json"),
        *("--data", str(tmp_path)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    report = json.loads(out)
    rows = {row["what"].strip(): row for row in report["figures"]}
    assert set(rows) == {
        "bare NATS request-reply",
        "embedding",
        "exact hit, publish to first chunk",
        "whole cached answer",
        "semantic hit at 50 entries",
        "of which the lookup",
        "of which the search (at most)",
        "exact hits, 32 at once",
        "lookups by meaning, 32 at once",
        "put",
        "puts, 32 at once",
        "invalidation by tag, one entry",
        "invalidation by tag, 100 entries",
        "engine's own time to first token",
        "miss, added to it",
        "route, given the vector",
        "added per chunk, 20 streams at once",
        "change published, to refused everywhere",
        "to deleted",
    }
    assert rows["added per chunk, 20 streams at once"]["samples"] > 20 * 20
    assert all(row["p50_ms"] > 0 and row["p99_ms"] >= row["p50_ms"] for row in rows.values())
    assert rows["exact hit, publish to first chunk"]["ratio"] > 1
    assert all(rows[what]["per_s"] > 1 for what in rows if what.endswith(", 32 at once"))
    assert report["loop_samples"] > 0
    held = {row["what"]: row for row in report["held"]}
    assert held["services and client of the bus"]["own_mb"] > 10
    assert held["vector engine of cache"]["own_mb"] > 1
    assert held["collection cache on disk"]["disk_mb"] > 0
    assert report["remarks"] == []
    assert address.read(tmp_path) is None, "the system that it started has ended"
