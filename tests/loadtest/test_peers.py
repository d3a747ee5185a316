"""The comparison with other gateways: its arithmetic, and a small one of hasten with the model server itself."""

import asyncio
import math
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from loadtest.http_lane import Told
from loadtest.marked import put
from loadtest.peer import RECIPES, NotThere, Recipe, installed
from loadtest.peer_comparison import Sizes
from loadtest.peer_figure import Row, Search, added, ages_ms, behind, data_of, figures, table, texts
from loadtest.peers import compare, html, markdown
from loadtest.processor_time import cost_us, per_core

ROOT = Path(__file__).parents[2]
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked"


def piece(raw: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(raw), raw)


def test_events_are_dated_by_the_piece_that_ends_them() -> None:
    first, half = (
        b'data: {"choices":[{"delta":{"content":"1.0 "}}]}\n\ndata: {"choices":',
        b'[{"delta":{"content":"2.0 "}}]}\n\n',
    )
    parts = [piece(first), piece(half), piece(b"data: [DONE]\n\n") + b"0\r\n\r\n"]
    body = b"".join(parts)
    ends = [len(parts[0]), len(parts[0]) + len(parts[1]), len(body)]
    told = Told(status=200, head=CHUNKED, body=body, pieces=list(zip([1.5, 2.25, 9.0], ends, strict=True)))
    assert texts(told) == [(1.5, "1.0 "), (2.25, "2.0 ")]
    assert ages_ms(texts(told)) == [500.0, 250.0]
    assert data_of(told).endswith(b"data: [DONE]\n\n")


def test_what_is_added_is_the_difference_of_percentiles_and_never_below_nothing() -> None:
    found = added([10.0] * 98 + [100.0] * 2, [4.0] * 100)
    assert (found.p50, found.p99, found.samples) == (6.0, 96.0, 100)
    assert added([1.0], [2.0]).p50 == 0.0


def test_a_rate_is_doubled_until_it_breaks_and_then_halved_towards() -> None:
    search, tried = Search(20, steps=7), list[float]()
    while not search.over:
        tried.append(search.rate)
        search.tell(kept=search.rate <= 100)
    assert tried == [20, 40, 80, 160, 120, 100, 110]
    assert search.as_json() == {"per_s": 100, "broke_at": 110}
    search = Search(20, steps=2)
    search.tell(kept=False)
    assert search.rate == 10
    search = Search(20, steps=1)
    search.tell(kept=True)
    assert (search.as_json()["broke_at"], math.isinf(search.rate)) == (None, False)


def test_costs_are_without_what_an_idle_process_takes() -> None:
    found = cost_us({"a": 0.5, "b": 0.1}, {"a": 0.02}, took_s=5.0, count=1000)
    assert found == {"a": 400, "b": 100}
    assert per_core(found) == 2000
    assert per_core({"a": 0}) == 0


def test_a_row_says_where_it_is_behind_and_why_it_is_not_there() -> None:
    direct = Row(name="direct", what="", first=[1.0], ages=[0.1], rate={"per_s": 500, "broke_at": None})
    ours = Row(
        name="hasten gateway", what="", first=[4.0], ages=[0.5], hit=[1.0] * 20, rate={"per_s": 90}, resident_mb=300
    )
    theirs = Row(
        name="other",
        what="",
        first=[3.0],
        ages=[0.9],
        hit=[2.0] * 20,
        hits_asked=20,
        rate={"per_s": 50},
        resident_mb=400,
    )
    lost = Row(name="lost", what="", failed="cannot be installed: npm is not here")
    rows = [figures(row, direct) for row in (direct, ours, theirs, lost)]
    assert behind(rows, "hasten gateway", "other") == [
        "added_ttft_ms p50: 3.00 against 2.00",
        "added_ttft_ms p99: 3.00 against 2.00",
    ]
    cells = table(rows)
    assert cells[3][4] == "none: the model is asked"
    assert cells[4][1] == "cannot be installed: npm is not here"


def test_a_table_is_put_where_a_page_has_a_place_for_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- figures -->\nold\n<!-- end of figures -->\nafter\n")
    put(page, "figures", "| new |\n")
    assert page.read_text() == "before\n<!-- figures -->\n| new |\n<!-- end of figures -->\nafter\n"
    with pytest.raises(ValueError, match="has no <!-- other -->"):
        put(page, "other", "x")


async def test_one_that_cannot_be_installed_says_why(tmp_path: Path) -> None:
    def recipe(*command: str) -> Recipe:
        return Recipe(name="X", what="", install=lambda _: [command], made="x", command=lambda *_: [])

    with pytest.raises(NotThere, match="no-such-command-here is not here"):
        await installed(recipe("no-such-command-here"), tmp_path, lambda _: None)
    with pytest.raises(NotThere, match="cannot be installed: no package"):
        await installed(recipe("sh", "-c", "echo no package >&2; exit 3"), tmp_path, lambda _: None)
    with pytest.raises(NotThere, match="without x"):
        await installed(recipe("true"), tmp_path, lambda _: None)


def test_every_peer_writes_its_configuration_where_it_is_installed(tmp_path: Path) -> None:
    for recipe in RECIPES:
        folder = tmp_path / recipe.name
        folder.mkdir()
        command = recipe.command(folder, 4321, "http://127.0.0.1:9/v1")
        assert str(folder) in " ".join(command)
        assert "4321" in " ".join(command)


@pytest.mark.timeout(300)
async def test_hasten_is_compared_with_the_model_server_itself(tmp_path: Path) -> None:
    sizes = Sizes(rounds=12, blocks=1, idle_s=0.1, streams=2, slow_rounds=1, steps=1, seconds=0.5, rate=10)
    found = await compare(tmp_path, ["nobody"], sizes, lambda _: None)
    rows = {row["name"]: row for row in found["rows"]}
    assert list(rows) == ["direct", "hasten gateway", "hasten bus"]
    for name in ("hasten gateway", "hasten bus"):
        row = rows[name]
        assert row["errors"] == 0
        assert row["ttft_ms"].samples == 12
        assert row["hits_that_asked_the_model"] < 12, "a late store may lose an answer, not each of them"
        assert row["chunk_ms"].samples == 2 * 40
        assert row["proportional_mb"] > 0
        assert row["miss_cpu_ms"] > 0
    assert "| hasten bus |" in markdown(found)
    assert "<table" in html(found)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_whatever_it_started_ends_with_it(tmp_path: Path, number: int) -> None:
    command = [sys.executable, "-m", "loadtest.peers", "--data", str(tmp_path), "--only", "nobody"]
    path = {"PYTHONPATH": os.pathsep.join(one for one in sys.path if one)}
    process = await asyncio.create_subprocess_exec(
        *command, stderr=asyncio.subprocess.PIPE, env={**os.environ, **path}, cwd=ROOT
    )
    assert process.stderr is not None
    while (line := await process.stderr.readline()) and not line.startswith(b"first tokens"):
        pass
    started = psutil.Process(process.pid).children(recursive=True)
    assert {"nats-server"} <= {one.name() for one in started}
    process.send_signal(number)
    said, _ = await asyncio.gather(process.stderr.read(), process.wait())
    assert process.returncode == 128 + number, said.decode()
    assert not [one for one in started if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
