"""What the orchestrator makes of what the retriever says: kept or not, joined or not, noted; and embeds a text once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from patience import until
from replica_rig import ASK, events_of, notes, patient, peers, text
from scripted_peers import ANSWER, PASSAGE, Scripted

from hasten.bus import Bus
from hasten.messages.chat import CHAT, Done
from hasten.messages.retrieve import Reranking
from hasten.orchestrator.service import Orchestrator, build
from hasten.orchestrator.settings import Settings

__all__ = ["peers"]
WITH_KNOWLEDGE = {**ASK, "knowledge": ["sea", "prices"]}
ORKA = "What does a filter swap cost for the Orka dishwasher?"


@pytest_asyncio.fixture
async def orchestrator(bus: Bus, peers: Scripted) -> AsyncIterator[Orchestrator]:
    made = patient(build(Settings(exact_wait_ms=20, silence_s=2.5, recent_s=60, again_s=0), bus))
    await made.start()
    yield made
    await made.drain()
    await made.close()


async def ask(bus: Bus, body: dict[str, Any] = WITH_KNOWLEDGE) -> list[Any]:
    return await events_of(await bus.stream(CHAT, body, tenant="acme"))


async def test_an_answer_that_no_change_event_speaks_of_is_not_stored(
    bus: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    peers.passages, peers.retrieved = [PASSAGE], {"volatile": ["prices"], "skipped": {"stock": "timeout"}}
    first, again = await ask(bus), await ask(bus)
    assert (text(first), first[-1].cache, again[-1].cache) == (ANSWER, "miss", "miss")
    assert notes(first)["cache"] == {"hit": None, "stored": False, "reason": "volatile"}
    assert notes(first)["sources"]["skipped"] == {"stock": "timeout"}
    assert (peers.puts, len(peers.generated)) == ([], 2)


async def test_nobody_joins_an_answer_that_no_change_event_speaks_of(
    bus: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    """Without `volatile` the second asker reads the first one's answer along: it is generated once."""
    go_on = asyncio.Event()

    async def wait(seq: int, _: Any) -> None:
        if seq == 1:
            await go_on.wait()

    peers.broken = dict.fromkeys(peers.workers, wait)
    for volatile, generations in ((["prices"], 2), ([], 1)):
        go_on.clear()
        peers.generated.clear()
        peers.retrieved = {"volatile": volatile}
        body = {**WITH_KNOWLEDGE, "seed": generations}
        first = asyncio.ensure_future(ask(bus, body))
        await until(lambda: len(peers.generated) == 1)
        second = asyncio.ensure_future(ask(bus, body))
        if volatile:
            await until(lambda: len(peers.generated) == 2)
        go_on.set()
        ended = [events[-1] for events in await asyncio.gather(first, second)]
        assert all(isinstance(event, Done) for event in ended)
        assert len(peers.generated) == generations


async def test_nobody_joins_it_while_a_worker_is_still_looked_for(
    bus: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    peers.retrieved = {"volatile": ["prices"]}
    peers.waits["route"] = lambda: len(peers.retrieves) >= 2
    first = asyncio.ensure_future(ask(bus))
    await until(lambda: any(flight.volatile for flight in orchestrator._flights.all))
    await asyncio.gather(first, ask(bus))
    assert len(peers.generated) == 2


async def test_tags_of_a_whole_reply_are_tags_of_the_answer(
    bus: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    peers.passages, peers.retrieved = [PASSAGE], {"tags": ["prices"]}
    await ask(bus)
    await until(lambda: bool(peers.puts))
    assert {"prices", "document:sea/tides", "collection:prices"} <= set(peers.puts[0].tags)


async def test_the_note_says_what_reranking_did_or_why_it_did_not(
    bus: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    peers.retrieved = {"reranking": Reranking(candidates=9, skipped="deadline")}
    assert notes(await ask(bus))["sources"]["rerank"] == {"candidates": 9, "skipped": "deadline"}


@pytest.mark.parametrize("truncates", [False, True])
async def test_a_question_is_embedded_once_for_everyone(
    bus: Bus, orchestrator: Orchestrator, peers: Scripted, truncates: bool
) -> None:
    """Also one that is too long for the model: its beginning serves to search, and is neither stored nor looked up."""
    peers.truncates = truncates
    await ask(bus)
    await until(lambda: bool(peers.puts))
    assert [len(texts) for texts in peers.embeds] == [1]
    assert peers.retrieves[0].vector is not None
    assert [peers.puts[0].vector is None, peers.routes[0].vector is None] == [truncates, truncates]
    assert peers.began("semantic") is not truncates


async def test_a_follow_up_is_embedded_and_searched_with_what_it_leans_on(
    bus: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    turns = [
        {"role": "user", "content": ORKA},
        {"role": "assistant", "content": "It costs 40 euro."},
        {"role": "user", "content": "And a new pump?"},
    ]
    await ask(bus, {**WITH_KNOWLEDGE, "messages": turns})
    assert peers.embeds == [[f"{ORKA}\nAnd a new pump?"]]
    assert peers.retrieves[0].query == f"{ORKA}\nAnd a new pump?"
    assert not peers.began("semantic")
    await until(lambda: bool(peers.puts))
    assert peers.puts[0].vector is None


async def test_a_bare_follow_up_is_looked_up_and_stored_by_its_key_only(
    bus: Bus, orchestrator: Orchestrator, peers: Scripted
) -> None:
    body = {**WITH_KNOWLEDGE, "messages": [{"role": "user", "content": "And a new pump?"}]}
    assert (await ask(bus, body))[-1].cache == "miss"
    await until(lambda: bool(peers.puts))
    assert not peers.began("semantic")
    assert peers.puts[0].vector is None
    assert (await ask(bus, body))[-1].cache == "exact"
