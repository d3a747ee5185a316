"""`hasten cache calibrate` as a process of its own, against a running embedder."""

import json
from pathlib import Path

from command_rig import said
from indexed_words import HashedWords

from hasten.bus import Bus
from hasten.nats_server import NatsServer

CALIBRATE = ("cache", "calibrate")
COLOURS = [f"shade{number}" for number in range(70)]


async def test_the_threshold_is_learnt_from_pairs_of_ones_own(
    bus: Bus, nats_server: NatsServer, tmp_path: Path
) -> None:
    file = tmp_path / "pairs.csv"
    rows = [f"How do I paint the {one} wall?,how can i paint the {one} wall,1,paint" for one in COLOURS]
    rows += [f"How do I paint the {one} wall?,How do I paint the {one} door?,0,paint" for one in COLOURS]
    rows += ["Is ticket 1 still open?,Is ticket 2 still open?,0,tickets"]
    file.write_text("\n".join(["a,b,same,collection", *rows]))
    words = HashedWords(bus)
    await words.start()
    try:
        code, text, errors = await said(nats_server, *CALIBRATE, str(file), "--max-error", "5%", "--json")
        assert code == 0, errors
        found = json.loads(text)
        everything, paint, tickets = found["results"]
        assert (everything["pairs"], everything["same"], paint["pairs"]) == (141, 70, 140)
        assert everything["found"]["wrong"] == 0
        assert everything["found"]["hits"] == 70
        assert everything["threshold"] == paint["threshold"]
        assert (tickets["threshold"], tickets["needed"]) == (None, 59)
        assert f"[cache]\nthreshold = {everything['threshold']:.3f}\n" in found["toml"]
        assert "tickets" not in found["toml"]

        code, text, errors = await said(nats_server, *CALIBRATE, str(file), "--max-error", "1%")
        assert code == 0, errors
        assert "too few pairs to prove 1.00%: it takes 299 hits" in text
        assert "nothing is proven" in text
    finally:
        await words.close()


async def test_what_a_person_can_put_right_is_one_sentence(nats_server: NatsServer, tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text("question,other\n1,2\n")
    code, _, errors = await said(nats_server, *CALIBRATE, str(file))
    assert (code, errors.strip()) == (2, f"hasten: {file} has no column a, b, same; it needs a, b and same")
    code, _, errors = await said(nats_server, *CALIBRATE, str(file), "--max-error", "none")
    assert (code, errors.count("\n")) == (2, 1)


async def test_without_an_embedder_it_says_so(bus: Bus, nats_server: NatsServer, tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text('{"a":"How are you there?","b":"How do you do?","same":true}\n')
    code, _, errors = await said(nats_server, *CALIBRATE, str(file))
    assert code != 0
    assert "Traceback" not in errors
