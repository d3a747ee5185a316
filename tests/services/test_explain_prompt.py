"""The prompt that would be generated from, explained by a real compressor and orchestrator; and what of it repeats."""

from collections.abc import AsyncIterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest_asyncio
from patience import until
from replica_rig import patient
from rich.console import Console
from scripted_peers import Scripted

from hasten.bus import Bus
from hasten.client import Hasten
from hasten.commands.explain import show
from hasten.commands.prompts import show_templates, templates_of
from hasten.compressor.service import build as build_compressor
from hasten.compressor.settings import Settings as CompressorSettings
from hasten.messages.compress import COMPRESS
from hasten.messages.explain import Explanation
from hasten.messages.retrieve import Passage, Sentence
from hasten.nats_server import NatsServer
from hasten.orchestrator.service import Orchestrator, build
from hasten.orchestrator.settings import Settings
from hasten.telemetry import REGISTRY

FACT = "The Family plan costs 9 euros per month."
FILLER = "The office of the {n}th district opens at nine and closes late. "
SECRET = "Only for the eyes of staff: the vault has two doors. "
PRICES = Passage(
    id="help/family#0",
    collection="help",
    document="family",
    title="Family",
    text=f"{FACT} {SECRET}" + "".join(FILLER.format(n=n) for n in range(40)),
    score=0.9,
    sentences=[Sentence(start=0, end=len(FACT), score=0.83)],
)
BODY: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "Answer from the passages, in one sentence, with the figure and its unit."},
        {"role": "user", "content": "What is a vault? " + FILLER.format(n=1) * 20},
        {"role": "assistant", "content": "A safe folder. " + FILLER.format(n=2) * 20},
        {"role": "user", "content": "What does the Family plan cost per month?"},
    ],
    "knowledge": ["help"],
}


@pytest_asyncio.fixture
async def peers(bus: Bus, tmp_path: Path) -> AsyncIterator[Scripted]:
    """Scripted services, but for a real compressor."""
    made = Scripted(bus, real=(COMPRESS,))
    made.passages = [PRICES]
    made.routed = {"token_budget": 320, "context_window": 2000, "max_tokens": 100}
    compressor = build_compressor(CompressorSettings(data=str(tmp_path)), bus)
    await compressor.start()
    await made.start()
    yield made
    await made.close()
    await compressor.close()


@pytest_asyncio.fixture
async def orchestrator(bus: Bus) -> AsyncIterator[Orchestrator]:
    made = patient(build(Settings(exact_wait_ms=20, again_s=0), bus))
    await made.start()
    yield made
    await made.drain()
    await made.close()


@pytest_asyncio.fixture
async def acme(nats_server: NatsServer) -> AsyncIterator[Hasten]:
    async with Hasten.connect(nats_server.url, tenant="acme") as hasten:
        yield hasten


def printed(found: Explanation, *, text: bool = False) -> str:
    out = StringIO()
    show(Console(file=out, width=200, soft_wrap=True, markup=False), found, text=text)
    return out.getvalue()


async def test_every_part_is_told_with_its_tokens_and_why(
    peers: Scripted, orchestrator: Orchestrator, acme: Hasten
) -> None:
    found = await acme.explain({**BODY, "explain": True})
    assert found.prompt is not None
    prompt, parts = found.prompt, {part.kind: part for part in found.prompt.parts}
    assert (prompt.model, prompt.token_budget, prompt.context_window, prompt.missing) == ("m", 320, 2000, {})
    assert prompt.tokens_before > 900 > 320 >= prompt.tokens_after > prompt.stable_tokens > 0
    assert set(parts) == {"system", "history", "passage", "user"}
    assert all(part.why for part in prompt.parts)
    passage = parts["passage"]
    assert (passage.before > passage.after > 0, passage.id) == (True, "help/family#0")
    first, *others = passage.pieces
    assert (first.text, first.kept) == (FACT, True)
    assert first.why.startswith("it has family, plan")
    assert first.why.endswith("(similarity 0.83)")
    assert any(not piece.kept and piece.why for piece in others)
    assert all(piece.tokens > 0 for piece in passage.pieces)
    assert [piece.text.startswith("user: What is a vault?") for piece in parts["history"].pieces] == [True]
    said = printed(found, text=True)
    assert f"+   {first.tokens:>2}  {FACT}" in said
    assert SECRET.strip() in said
    assert "the prompt:" in said


async def test_texts_are_told_only_where_they_are_asked_for(
    peers: Scripted, orchestrator: Orchestrator, acme: Hasten
) -> None:
    found = await acme.explain(BODY)
    assert found.prompt is not None
    pieces = [piece for part in found.prompt.parts for piece in part.pieces]
    assert pieces
    assert {piece.text for piece in pieces} == {""}
    assert {piece.kept for piece in pieces} == {True, False}
    said = printed(found)
    assert FACT not in said
    assert "--text" in said


async def test_nothing_is_generated_counted_as_sent_or_stored(
    peers: Scripted, orchestrator: Orchestrator, acme: Hasten
) -> None:
    await acme.explain(BODY)
    assert (peers.generated, peers.puts) == ([], [])
    assert [route.counted for route in peers.routes] == [False]
    assert orchestrator.report()["templates"] == []


async def test_services_that_do_not_answer_are_named(bus: Bus, orchestrator: Orchestrator, acme: Hasten) -> None:
    found = await acme.explain(BODY)
    assert found.prompt is not None
    assert set(found.prompt.missing) == {"retriever", "router"}
    assert found.prompt.tokens_after == 0
    assert "no router answers" in printed(found)


async def test_what_brought_no_passages_is_named(peers: Scripted, orchestrator: Orchestrator, acme: Hasten) -> None:
    peers.retrieved = {"missing": ["old"], "skipped": {"stock": "timeout"}}
    found = await acme.explain({**BODY, "knowledge": ["help", "old", "stock"]})
    assert found.prompt is not None
    assert (found.prompt.empty, found.prompt.skipped) == (["old"], {"stock": "timeout"})
    said = printed(found)
    assert "nothing found in old" in said
    assert "the look-up stock was left out (timeout)" in said


async def test_what_repeats_is_measured_for_each_template_and_shown(
    peers: Scripted, orchestrator: Orchestrator, acme: Hasten
) -> None:
    questions = ("What does the Family plan cost per month?", "How much is the Family plan in a year?", "Who may join?")
    system = {"role": "system", "content": "Answer from the passages, with the figure and its unit. " * 5}
    for question in questions:
        await acme.ask({"messages": [system, {"role": "user", "content": question}], "knowledge": ["help"]})

    await until(lambda: sum(one["prompts"] for one in orchestrator.report()["templates"]) == 3)
    (known,) = orchestrator.report()["templates"]
    assert (known["tenant"], known["model"], known["prompts"]) == ("acme", "m", 3)
    assert 0 < known["repeated"] < known["tokens"]
    assert FACT not in str(known)
    sample = {"template": known["template"], "kind": "repeated"}
    assert REGISTRY.get_sample_value("hasten_template_tokens_total", sample) == known["repeated"]
    while not (found := templates_of(await acme.services())):
        pass
    (shown,) = found
    assert (shown.prompts, shown.repeated) == (3, known["repeated"])
    out = StringIO()
    show_templates(Console(file=out, width=160), [shown])
    assert known["template"] in out.getvalue()
    assert f"{known['repeated'] / known['tokens']:.0%}" in out.getvalue()
