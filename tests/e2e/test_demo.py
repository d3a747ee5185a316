"""The demo as a person runs it: the real model, embeddings and store, judged by its own exit code and by its rows."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from hasten import weights
from hasten.demo.script import CALLERS, STEPS, documents
from hasten.embedder import export

pytestmark = pytest.mark.timeout(600)
STATE = Path(__file__).parents[2] / ".hasten"


def test_the_help_centre_is_worth_asking() -> None:
    articles = documents()
    assert len(articles) >= 40
    assert len({article.id for article in articles}) == len(articles)
    assert all(article.title for article in articles)


async def test_the_demo_shows_what_it_says(tmp_path: Path) -> None:
    weights.prepare(STATE, print)
    export.prepare(STATE, print)
    (tmp_path / "models").symlink_to(STATE / "models")
    command = (sys.executable, "-m", "hasten.cli", "demo", "--json", "--data", str(tmp_path))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    shown = json.loads(out)
    assert [row["problems"] for row in shown["rows"]] == [[]] * len(STEPS)
    assert (process.returncode, shown["ok"]) == (0, True)
    first, again, _, twin, crowd, changed = shown["rows"]
    assert (first["source"], again["source"], twin["source"]) == ("miss", "exact", "miss")
    assert crowd["source"] == f"1 miss, {CALLERS - 1} shared"
    assert first["tokens_after"] < first["tokens_before"]
    assert again["ttft_ms"] < first["ttft_ms"]
    assert changed["answer"] != first["answer"]
