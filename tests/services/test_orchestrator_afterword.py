"""What follows the text of an answer: verified citations, checks and corrections; and what of it is kept."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from patience import until
from replica_rig import events_of, notes, peers, running, serving, text
from scripted_peers import PASSAGE, Scripted

from hasten.bus import Bus
from hasten.messages.chat import CHAT, Chunk, Done, Note
from hasten.messages.check import CHECK, Check, Checked
from hasten.nats_server import NatsServer
from hasten.orchestrator.guard.rule import GuardRule
from hasten.orchestrator.service import Orchestrator, build
from hasten.orchestrator.settings import Settings
from hasten.orchestrator.verification.checks import CheckSettings
from hasten.service import Call, Service
from hasten.settings import SettingsError, settings

__all__ = ["peers"]
ASK = {"messages": [{"role": "user", "content": "When does the tide rise?"}], "knowledge": ["sea"]}
GOOD, BAD, SILENT = "The tide rises twice a day [1].", "The tide rises 3 times a day [1].", "It rises at noon, I think."
PATIENT_MS = 30_000.0


@contextlib.asynccontextmanager
async def afterwards(bus: Bus, peers: Scripted, *calls: str, **fields: Any) -> AsyncIterator[Orchestrator]:
    peers.passages = [PASSAGE]
    checks = [CheckSettings(name=call, call=f"checking:{call}", timeout_ms=PATIENT_MS) for call in calls]
    fields = {"verify_ms": PATIENT_MS, "checks": checks, **fields}
    async with serving(bus, Settings(exact_wait_ms=20, recent_s=60, again_s=0, **fields)) as made:
        yield made


async def ask(bus: Bus, **fields: Any) -> list[Any]:
    return await events_of(await bus.stream(CHAT, {**ASK, **fields}, tenant="acme"))


def said_by(events: list[Any], by: str, kind: str = "verification") -> list[dict[str, Any]]:
    return [
        event.data for event in events if isinstance(event, Note) and (event.kind, event.data.get("by")) == (kind, by)
    ]


async def test_a_cited_answer_is_verified_after_its_text_and_the_note_is_kept(bus: Bus, peers: Scripted) -> None:
    peers.answer = GOOD
    async with afterwards(bus, peers):
        events = await ask(bus)
        (note,) = said_by(events, "citations")
        assert (note["passed"], note["supported"], note["unsupported"], note["uncited"]) == (True, 1, 0, 0)
        (sentence,) = note["sentences"]
        assert GOOD[sentence["start"] : sentence["end"]] == GOOD
        assert PASSAGE.text[slice(*sentence["span"])] == PASSAGE.text
        kinds = [event.kind if isinstance(event, Note) else type(event) for event in events]
        assert (
            kinds.index("verification")
            == kinds.index(Done) - 1
            > max(at for at, kind in enumerate(kinds) if kind is Chunk)
        )
        await until(lambda: peers.puts)
        hit = await ask(bus)
        assert hit[-1].cache == "exact"
        assert said_by(hit, "citations") == [note]


@pytest.mark.parametrize(
    ("answer", "stored", "kept"),
    [
        (GOOD, "cited", True),
        (BAD, "cited", False),
        (SILENT, "cited", True),
        (SILENT, "all", False),
        (BAD, "off", True),
    ],
)
async def test_what_fails_is_not_stored_and_a_note_says_so(
    bus: Bus, peers: Scripted, answer: str, stored: Any, kept: bool
) -> None:
    peers.answer = answer
    async with afterwards(bus, peers, verify_stored=stored):
        events = await ask(bus)
        assert text(events) == answer
        assert ("cache" in notes(events)) is not kept
        if not kept:
            assert notes(events)["cache"] == {"hit": None, "stored": False, "reason": "verification"}
        assert (await ask(bus))[-1].cache == ("exact" if kept else "miss")


async def test_checks_are_asked_with_the_answer_and_may_correct_it(bus: Bus, peers: Scripted) -> None:
    peers.answer = GOOD
    async with afterwards(bus, peers, "tides", "fails"):
        events = await ask(bus)
        assert said_by(events, "tides") == [
            {"by": "tides", "passed": True, "data": {"question": "When does the tide rise?", "passages": 1}}
        ]
        assert said_by(events, "fails") == [{"by": "fails", "outcome": "failed"}]
        (correction,) = said_by(events, "tides", "correction")
        assert GOOD[correction["start"] : correction["end"]] == "twice"
        assert (correction["text"], text(events)) == ("two times", GOOD)
        await until(lambda: peers.puts)
        hit = await ask(bus)
        assert said_by(hit, "tides", "correction") == [correction]


async def test_a_check_that_does_not_pass_keeps_the_answer_out_of_the_cache(bus: Bus, peers: Scripted) -> None:
    async with afterwards(bus, peers, "refuses"):
        events = await ask(bus)
        assert said_by(events, "refuses") == [{"by": "refuses", "passed": False, "detail": "not in our voice"}]
        assert isinstance(events[-1], Done)
        assert (await ask(bus))[-1].cache == "miss"


@pytest.mark.parametrize("required", [False, True])
async def test_the_end_waits_no_longer_than_its_deadline(bus: Bus, peers: Scripted, required: bool) -> None:
    """A check that never answers holds up neither the end nor, unless it is required, the store."""
    hanging = CheckSettings(name="hangs", call="checking:hangs", timeout_ms=PATIENT_MS, required=required)
    async with afterwards(bus, peers, checks=[hanging], verify_ms=100.0):
        events = await ask(bus)
        assert said_by(events, "hangs") == [{"by": "hangs", "outcome": "timeout"}]
        assert isinstance(events[-1], Done)
        assert (await ask(bus))[-1].cache == ("miss" if required else "exact")


async def test_a_correction_has_its_place_in_the_answer_and_passes_the_guard(bus: Bus, peers: Scripted) -> None:
    rule = GuardRule(name="secret", pattern="secret", replacement="***")
    async with afterwards(bus, peers, "corrects_nowhere", guard=[rule]):
        events = await ask(bus)
    assert said_by(events, "corrects_nowhere", "correction") == [
        {"by": "corrects_nowhere", "start": 0, "end": 0, "text": "***"}
    ]


async def test_what_no_reader_can_be_told_spoils_neither_the_answer_nor_the_other_checks(
    bus: Bus, peers: Scripted
) -> None:
    outcomes = {"rambles": "too_large", "odd": "internal", "odder": "internal", "gives_up": "failed"}
    peers.answer = GOOD
    async with afterwards(bus, peers, *outcomes, "tides"):
        events = await ask(bus)
        assert {by: said_by(events, by)[0]["outcome"] for by in outcomes} == outcomes
        assert said_by(events, "tides")[0]["passed"]
        assert (text(events), isinstance(events[-1], Done)) == (GOOD, True)
        await until(lambda: peers.puts)
        assert (await ask(bus))[-1].cache == "exact"


async def test_functions_that_never_return_take_no_thread_from_anything_else(bus: Bus, peers: Scripted) -> None:
    hanging = CheckSettings(name="sleeps", call="checking:sleeps", timeout_ms=PATIENT_MS)
    async with afterwards(bus, peers, checks=[hanging], verify_ms=20.0):
        for at in range(40):
            events = await ask(bus, seed=at)
            assert said_by(events, "sleeps") == [{"by": "sleeps", "outcome": "timeout"}]
        async with asyncio.timeout(60):
            assert await asyncio.to_thread(lambda: "here") == "here"


async def test_an_answer_of_thousands_of_citations_is_told_of_within_a_message(bus: Bus, peers: Scripted) -> None:
    peers.answer = "tide[1].\n" * 2200
    async with afterwards(bus, peers, verify_ms=PATIENT_MS):
        events = await ask(bus)
    (note,) = said_by(events, "citations")
    assert isinstance(events[-1], Done)
    assert (note["supported"] + note["unsupported"], len(note["sentences"])) == (2200, 200)


async def test_a_check_on_a_subject(bus: Bus, peers: Scripted) -> None:
    heard: list[Check] = []

    async def judge(asked: Check, call: Call) -> Checked:
        heard.append(asked)
        return Checked()

    service = Service(bus, "check", "A tool of the operator's")
    service.answer(CHECK, judge, limit=10, check="tone")
    await service.start()
    tone = CheckSettings(name="tone", subject=CHECK.template, timeout_ms=PATIENT_MS)
    async with afterwards(bus, peers, checks=[tone]):
        events = await ask(bus)
    await service.close()
    assert said_by(events, "tone") == [{"by": "tone", "passed": True}]
    assert (heard[0].text, heard[0].passages[0].id) == (text(events), PASSAGE.id)


async def test_without_passages_and_checks_nothing_is_added(bus: Bus, peers: Scripted) -> None:
    async with afterwards(bus, peers):
        peers.passages = []
        assert "verification" not in notes(await ask(bus))
    async with afterwards(bus, peers, verify_ms=0.0):
        assert "verification" not in notes(await ask(bus, seed=1))


async def test_followers_are_told_the_same(nats_server: NatsServer, peers: Scripted) -> None:
    peers.answer, peers.passages = GOOD, [PASSAGE]
    peers.waits["route"] = lambda: len(streams) == 2
    streams: list[Any] = []
    async with running(nats_server, 2, verify_ms=PATIENT_MS) as replicas:
        streams.extend([await replicas.stream(replica, ASK) for replica in replicas.all])
        first, second = [await events_of(stream) for stream in streams]
        assert said_by(first, "citations") == said_by(second, "citations") != []


@pytest.mark.parametrize(
    ("check", "problem"),
    [
        ({"name": "a b", "call": "checking:tides"}, "the name of a check"),
        ({"name": "a"}, "a call or a subject"),
        ({"name": "citations", "call": "checking:tides"}, "taken"),
        ({"name": "a", "call": "checking:nothing"}, "cannot be imported"),
        ({"name": "a", "subject": "hasten.v1.chat.{tenant}"}, "does not begin with hasten"),
        ({"name": "a", "call": "checking:tides", "timeout_ms": 0}, "timeout_ms"),
    ],
)
async def test_a_check_that_cannot_be_asked_is_refused_at_the_start(
    bus: Bus, check: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SettingsError, match=problem):
        build(settings(Settings, "orchestrator", {"orchestrator": {"checks": [check]}}), bus)
