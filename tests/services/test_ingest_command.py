"""`hasten ingest` as a process on a real retriever: what it says, how it ends, and that it goes on after any end."""

import json
import os
import signal
from asyncio.subprocess import Process
from pathlib import Path

import pytest
from command_rig import said, start
from patience import until
from retriever_rig import Rig, running

from hasten.bus import Bus
from hasten.nats_server import NatsServer

MANY = 200


def write(folder: Path, count: int) -> Path:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        (folder / f"{number:03}.md").write_text(f"The fee number {number}.")
    return folder


async def told(server: NatsServer, *arguments: str) -> tuple[int, dict[str, object], str]:
    code, out, errors = await said(server, "ingest", *arguments, "-c", "help", "--json")
    return code, json.loads(out) if out else {}, errors


async def begun(server: NatsServer, rig: Rig, folder: Path) -> Process:
    """An ingestion that has come some way and has a long one to go."""
    rig.words.delay_s = 0.2
    process = await start(server, "ingest", str(folder), "-c", "help", "--json")
    await until(lambda: len(rig.heard) >= 8)
    return process


async def test_everything_it_reads_and_everything_it_refuses(bus: Bus, nats_server: NatsServer, tmp_path: Path) -> None:
    folder = write(tmp_path / "files", 2)
    (folder / "rows.csv").write_text("id,text\nr1,The fee of one.\nr2,\n")
    (folder / "more.jsonl").write_text('{"text": "The fee of a line."}\n{broken\n')
    (folder / "latin.txt").write_bytes("Gebühr".encode("latin-1"))
    (folder / "empty.md").write_text("")
    (folder / "000.txt").write_text("The same id as the other.")
    (folder / os.fsdecode(b"sch\xf6n.md")).write_text("The fee of a name.")
    async with running(bus, tmp_path / "store") as rig:
        code, done, errors = await told(nats_server, str(folder), "--prune")
        assert (code, done["files"], done["ingested"], done["refused"]) == (1, 8, 4, 6)
        for sentence in (
            "rows.csv, line 3, has no text in text",
            "more.jsonl, line 2, is not JSON",
            "latin.txt is not UTF-8 text: name its encoding with --encoding",
            "empty.md holds no text",
            "has its id '000'",
            r"sch\xf6n.md has a name that is not UTF-8",
            "nothing was removed, because not everything could be read",
        ):
            assert sentence in errors
            assert any(sentence in one for one in done["reasons"])  # type: ignore[attr-defined]
        assert {one.document for one in await rig.found("fee", limit=20)} == {"000", "001", "r1", "more/1"}
        for gone in ("empty.md", "more.jsonl", "rows.csv", "001.md", "000.txt", os.fsdecode(b"sch\xf6n.md")):
            (folder / gone).unlink()
        code, out, errors = await said(
            nats_server, "ingest", str(folder), "-c", "help", "--prune", "--encoding", "latin-1"
        )
        assert code == 0, errors
        assert "2 of 2 documents are in help: 1 ingested (1 chunks" in out
        assert out.strip().endswith("1 unchanged, 3 removed, 0 refused")
        assert {one.document for one in await rig.found("fee", limit=20)} == {"000", "latin"}


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
async def test_whatever_ends_it_it_goes_on_from_there(
    bus: Bus, nats_server: NatsServer, tmp_path: Path, end: signal.Signals
) -> None:
    folder = write(tmp_path / "files", MANY)
    async with running(bus, tmp_path / "store") as rig:
        process = await begun(nats_server, rig, folder)
        process.send_signal(end)
        out, errors = await process.communicate()
        rig.words.delay_s = 0.0
        before = len(rig.heard)
        assert before < MANY
        if end == signal.SIGINT:
            assert process.returncode == 130
            assert json.loads(out)["ingested"] < MANY
            assert "interrupted: the same command goes on from here" in errors.decode()
        code, done, errors_again = await told(nats_server, str(folder))
        assert code == 0, errors_again
        assert int(str(done["ingested"])) + int(str(done["unchanged"])) == MANY
        assert int(str(done["unchanged"])) >= before


async def test_what_kept_it_from_beginning_is_one_sentence(nats_server: NatsServer, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path, sentence in (("absent", "is not there"), ("empty", ".pdf, .text, .tsv, .txt files in")):
        code, out, errors = await said(nats_server, "ingest", str(tmp_path / path), "-c", "help")
        assert (code, out) == (2, "")
        assert sentence in errors
        assert "Traceback" not in errors
