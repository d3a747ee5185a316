"""The commands of an operator on real services: ask, explain, reject and watch, each as its own process."""

import asyncio
import json
from pathlib import Path

from command_rig import PATIENCE_S, said, start
from path_rig import OTHER, QUESTION, SAME, Rig

from hasten.nats_server import NatsServer


async def test_a_wrong_hit_is_found_explained_and_rejected(rig: Rig, nats_server: NatsServer, tmp_path: Path) -> None:
    await rig.stored(QUESTION)
    code, _, errors = await said(nats_server, "ask", SAME)
    assert (code, "semantic hit" in errors, "similarity 1.000" in errors) == (0, True, True), errors
    request_id = errors.strip().rpartition("request ")[2]

    code, text, errors = await said(nats_server, "explain", SAME)
    assert code == 0, errors
    assert text.startswith("hit by meaning: entry ")
    assert QUESTION in text
    text = (await said(nats_server, "explain", OTHER))[1]
    assert text.startswith("miss: guard (")
    assert "guard words: only asked: boots; only stored: shoes" in text
    text = (await said(nats_server, "explain", QUESTION, "--system", "Be brief."))[1]
    assert "differs in system text" in text
    assert "prompt:" in text

    body = tmp_path / "request.json"
    body.write_text(json.dumps({"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 9}))
    found = json.loads((await said(nats_server, "explain", "--request", str(body), "--json"))[1])
    assert [one["differs"] for one in found["lookup"]["elsewhere"]] == [["sampling"]]

    code, text, errors = await said(nats_server, "cache", "reject", request_id, "--reason", "wrong")
    assert (code, text.startswith("the entry is gone and the pair is remembered")) == (0, True), errors
    code, _, errors = await said(nats_server, "cache", "reject", "never-asked")
    assert (code, "no hit by meaning is known" in errors) == (2, True), errors
    await rig.stored(QUESTION)
    assert (await said(nats_server, "explain", SAME))[1].startswith("miss: rejected (")


async def test_watching_shows_hits_misses_and_evictions_with_their_reasons(rig: Rig, nats_server: NatsServer) -> None:
    plain = await start(nats_server, "watch", "--events", "4")
    coded = await start(nats_server, "watch", "--events", "4", "--json")
    for watching in (plain, coded):
        assert watching.stderr is not None
        assert (await watching.stderr.readline()).startswith(b"watching acme")
    await rig.stored(QUESTION)
    await rig.ask(OTHER, cache={"store": False})
    await rig.ask(SAME)
    await said(nats_server, "invalidate", "--everything", "--reason", "spring \x1b[2J cleaning")
    async with asyncio.timeout(PATIENCE_S):
        (text, _), (lines, _) = await plain.communicate(), await coded.communicate()
    first, missed, hit, gone = text.decode().splitlines()
    assert "miss      absent" in first
    assert "miss      guard words · similarity" in missed
    assert "semantic  similarity 1.000 · entry" in hit
    assert "evicted   1 entry · spring ?[2J cleaning" in gone
    events = [json.loads(one) for one in lines.splitlines()]
    assert [one["event"] for one in events] == ["finished"] * 3 + ["invalidated"]
    assert {one["tenant"] for one in events} == {"acme"}
    assert b"shoes" not in lines + text
