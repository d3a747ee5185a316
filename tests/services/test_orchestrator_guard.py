"""Rules on what readers are shown: in what is generated, stored, followed, gone on with, and called."""

import asyncio
import random
from typing import Any

import msgspec
import pytest
from guard_rig import ANSWER, HIDDEN, MAIL, PATIENT_MS, PHONE, ask, guarded
from patience import until
from replica_rig import ASK, Gate, notes, peers, text
from scripted_peers import Scripted

from hasten.bus import Bus
from hasten.messages.cache import Answer, CacheHit
from hasten.messages.chat import CHAT, Chunk, Done
from hasten.messages.guard import GUARD, GuardSpan, GuardVerdict, GuardWindow
from hasten.orchestrator.guard.rule import GuardRule
from hasten.orchestrator.service import build
from hasten.orchestrator.settings import Settings
from hasten.service import Call, Service
from hasten.settings import SettingsError, settings

__all__ = ["peers"]


def asking(call: str, **fields: Any) -> GuardRule:
    return GuardRule(name="names", call=f"guarding:{call}", **{"timeout_ms": PATIENT_MS, **fields})


async def test_what_a_rule_finds_is_replaced_across_chunks_and_kept_so(bus: Bus, peers: Scripted) -> None:
    peers.answer = ANSWER
    async with guarded(bus, MAIL):
        events = await ask(bus)
        assert text(events) == HIDDEN
        assert notes(events)["guard"] == {"redacted": {"mail": 1}}
        await until(lambda: peers.puts)
        assert peers.puts[0].answer.text == HIDDEN
        again = await ask(bus)
        assert (text(again), again[-1].cache) == (HIDDEN, "exact")
        assert notes(again)["guard"] == {"redacted": {"mail": 1}}


async def test_everything_else_goes_out_at_once(bus: Bus, peers: Scripted) -> None:
    """The worker waits before the word that cannot belong to a match: the reader has all before it by then."""
    peers.answer, gate = "one two three secret", Gate(peers, 3)
    async with guarded(bus, GuardRule(name="secret", pattern="secret", replacement="")):
        stream = await bus.stream(CHAT, ASK, tenant="acme")
        seen: list[Any] = []
        async for event in stream:
            seen.append(event)
            if text(seen) == "one two three":
                gate.open()
        assert text(seen) == "one two three "


async def test_a_rule_that_stops_ends_the_answer_before_the_match(bus: Bus, peers: Scripted) -> None:
    peers.answer = ANSWER + " And so on."
    async with guarded(bus, MAIL, PHONE):
        events = await ask(bus)
    assert text(events) == HIDDEN[: HIDDEN.index("555")]
    assert events[-1].finish_reason == "content_filter"
    assert notes(events)["guard"] == {"redacted": {"mail": 1}, "stopped": "phone"}
    assert "555 " not in msgspec.json.encode(events).decode()


async def test_a_stopped_answer_is_asked_of_its_worker_no_longer_and_not_served_again(
    bus: Bus, peers: Scripted
) -> None:
    peers.answer, gate = ANSWER + " And so on.", Gate(peers, 12)
    async with guarded(bus, PHONE):
        assert (await ask(bus))[-1].finish_reason == "content_filter"
        await until(lambda: peers.cancelled == ["w1"])
        gate.open()
        assert (await ask(bus))[-1].cache == "miss"


async def test_a_match_at_the_very_end_counts(bus: Bus, peers: Scripted) -> None:
    peers.answer = "call 555"
    async with guarded(bus, GuardRule(name="end", pattern=r"\d+$", replacement="")):
        events = await ask(bus)
    assert text(events) == "call "


@pytest.mark.parametrize("kind", ["exact", "semantic"])
@pytest.mark.parametrize("rule", [MAIL, asking("names", replacement="[mail]")])
async def test_a_stored_answer_that_was_made_under_other_rules_is_read_again(
    bus: Bus, peers: Scripted, kind: Any, rule: GuardRule
) -> None:
    peers.__dict__[kind] = CacheHit(kind=kind, entry_id="e1", answer=Answer(text=ANSWER, model="m"), lives_s=900)
    shown = HIDDEN if rule is MAIL else ANSWER.replace("Ann Lee", "[mail]")
    async with guarded(bus, rule):
        for _ in range(2):
            events = await ask(bus)
            assert (text(events), events[-1].cache) == (shown, kind)
    async with guarded(bus, PHONE):
        events = await ask(bus)
        assert (events[-1].finish_reason, "555" in text(events)) == ("content_filter", False)


async def test_rules_hold_for_the_tenants_that_they_name(bus: Bus, peers: Scripted) -> None:
    peers.answer = ANSWER
    async with guarded(bus, msgspec.structs.replace(MAIL, tenants=["globex"])):
        assert text(await ask(bus)) == ANSWER
        assert text(await ask(bus, tenant="globex")) == HIDDEN


async def test_reasoning_is_read_unless_a_rule_says_otherwise(bus: Bus, peers: Scripted) -> None:
    peers.answer, peers.thinks = "the secret is a secret is a secret", True

    def thought(events: list[Any]) -> str:
        return "".join(event.reasoning for event in events if isinstance(event, Chunk))

    rule = GuardRule(name="secret", pattern="secret", replacement="*")
    async with guarded(bus, rule):
        events = await ask(bus)
        assert (thought(events), text(events)) == ("the * is", " a * is a *")
    async with guarded(bus, msgspec.structs.replace(rule, of=["text"])):
        events = await ask(bus, {**ASK, "seed": 1})
        assert (thought(events), text(events)) == ("the secret is", " a * is a *")


async def test_arguments_of_tool_calls_are_read_where_a_rule_says_so(bus: Bus, peers: Scripted) -> None:
    pieces = ['{"to": "ann@exa', 'mple.org", "text": "a"}']
    first = {"index": 0, "id": "c1", "type": "function", "function": {"name": "send", "arguments": pieces[0]}}
    deltas = [first, {"index": 0, "function": {"arguments": pieces[1]}}]

    async def call(seq: int, call: Call) -> None:
        for at, delta in enumerate(deltas):
            await call.send(Chunk(seq=at, tool_calls=[delta]))
        await call.send(Done(finish_reason="tool_calls"))
        await asyncio.Event().wait()

    peers.broken = dict.fromkeys(peers.workers, call)
    quoted = msgspec.structs.replace(MAIL, replacement='"x"')
    for rule, wanted in (
        (quoted, "".join(pieces)),
        (msgspec.structs.replace(quoted, of=["tool_calls"]), '{"to": "\\"x\\"", "text": "a"}'),
    ):
        async with guarded(bus, rule):
            events = await ask(bus, {**ASK, "seed": len(wanted)})
            said = [delta for event in events if isinstance(event, Chunk) for delta in event.tool_calls or ()]
            assert "".join(delta["function"]["arguments"] for delta in said) == wanted
            assert (said[0]["id"], said[0]["function"]["name"]) == ("c1", "send")


@pytest.mark.parametrize("call", ["names", "in_a_thread"])
async def test_a_function_reads_windows_of_the_answer(bus: Bus, peers: Scripted, call: str) -> None:
    peers.answer = ANSWER
    async with guarded(bus, asking(call, replacement="[name]"), MAIL):
        events = await ask(bus)
    assert text(events) == HIDDEN.replace("Ann Lee", "[name]")
    assert notes(events)["guard"] == {"redacted": {"mail": 1, "names": 1}}


async def test_a_tool_on_a_subject_reads_them_and_may_stop(bus: Bus, peers: Scripted) -> None:
    peers.answer, heard = ANSWER, list[GuardWindow]()

    async def judge(window: GuardWindow, call: Call) -> GuardVerdict:
        heard.append(window)
        at = window.text.find("555")
        return GuardVerdict(spans=[GuardSpan(start=at, end=at + 3)] if at >= 0 else [])

    service = Service(bus, "guard", "A tool of the operator's")
    service.answer(GUARD, judge, limit=10, rule="words")
    await service.start()
    rule = GuardRule(name="words", subject=GUARD.template, action="stop", timeout_ms=PATIENT_MS)
    async with guarded(bus, rule):
        events = await ask(bus)
    await service.close()
    assert (text(events), events[-1].finish_reason) == (ANSWER[: ANSWER.index("555")], "content_filter")
    assert heard[0].new == 0
    assert all(window.text[: window.new] in ANSWER and len(window.text) > window.new for window in heard)


@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        (asking("fails"), "failed"),
        (asking("wrong"), "internal"),
        (asking("hangs", timeout_ms=20), "timeout"),
        (GuardRule(name="names", subject="nobody.{tenant}.hears", timeout_ms=PATIENT_MS), "unavailable"),
    ],
)
async def test_without_a_word_of_a_rule_nothing_is_shown_or_the_rule_is_left_out(
    bus: Bus, peers: Scripted, rule: GuardRule, outcome: str
) -> None:
    peers.answer = ANSWER
    async with guarded(bus, rule):
        events = await ask(bus)
        assert (text(events), events[-1].finish_reason) == ("", "content_filter")
        assert notes(events)["guard"] == {"stopped": "names", "reason": "unanswered"}
    async with guarded(bus, msgspec.structs.replace(rule, unanswered="open")):
        events = await ask(bus, {**ASK, "seed": 1})
        assert (text(events), events[-1].finish_reason) == (ANSWER, "stop")
        assert notes(events)["guard"] == {"unanswered": ["names"]}


async def test_a_long_stored_answer_and_a_costly_rule_leave_the_loop_to_others(bus: Bus, peers: Scripted) -> None:
    """Turns of another task are counted while the answer is read: without turns between there would be a handful."""
    long = "".join(random.Random(1).choices("ab", k=4_000))
    peers.exact = CacheHit(kind="exact", entry_id="e1", answer=Answer(text=long, model="m"), lives_s=900)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with guarded(bus, GuardRule(name="costly", pattern="[ab]*a[ab]{60}c", longest=256)):
        counting = asyncio.ensure_future(count())
        before = turns
        events = await ask(bus)
        after = turns
        counting.cancel()
    assert text(events) == long
    assert after - before > 50


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({"name": "a", "pattern": "(", "x": 1}, "no field `x`"),
        ({"name": "a b", "pattern": "x"}, "the name of a rule"),
        ({"name": "a"}, "a pattern, a call or a subject"),
        ({"name": "a", "pattern": "x", "call": "a:b"}, "one of them only"),
        ({"name": "a", "pattern": "x", "longest": 0}, "longest"),
        ({"name": "a", "pattern": "x", "of": []}, "at least one of"),
        ({"name": "a", "pattern": "("}, "unterminated"),
        ({"name": "a", "pattern": "x*"}, "nothing"),
        ({"name": "a", "call": "nowhere:at_all"}, "cannot be imported"),
        ({"name": "a", "call": "unknown"}, "no entry point"),
        ({"name": "a", "subject": "my.guard"}, "{tenant}"),
        ({"name": "a", "subject": "hasten.v1.chat.{tenant}"}, "does not begin with hasten"),
    ],
)
async def test_a_rule_that_cannot_be_kept_is_refused_at_the_start(bus: Bus, rule: dict[str, Any], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem.replace("{", r"\{")):
        build(settings(Settings, "orchestrator", {"orchestrator": {"guard": [rule]}}), bus)
