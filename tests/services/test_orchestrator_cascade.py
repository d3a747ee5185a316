"""The draft of a small model is shown, or given up for a better one's answer before anybody has read it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from patience import until
from replica_rig import ASK, events_of, first_chunk, notes, patient, text
from scripted_peers import ANSWER, Scripted

from hasten.bus import Bus
from hasten.messages.chat import CHAT, Chunk
from hasten.messages.failure import Failed, Failure
from hasten.nats_server import NatsServer
from hasten.orchestrator.service import Orchestrator, build
from hasten.orchestrator.settings import Settings
from hasten.service import Call

BETTER = "Twice a day, when the moon is high and when it is low."
BROKEN = Failure(code="upstream", detail="the engine broke")


class Rig:
    """A small model at w1 and w2, a better one at w9, and an orchestrator whose router doubts all it decides."""

    def __init__(self, bus: Bus, client: Bus) -> None:
        self.peers = Scripted(bus, workers=("w1", "w2", "w9"))
        self.peers.routed, self.peers.better = {"cascade": True}, "w9"
        self.peers.answers = {"w9": BETTER}
        self.bus, self.client = bus, client
        self.made: list[Orchestrator] = []

    async def orchestrator(self, cascade: Any = "hold", **settings: Any) -> Orchestrator:
        made = patient(build(Settings(exact_wait_ms=20, again_s=0, cascade=cascade, **settings), self.bus))
        self.made.append(made)
        await made.start()
        return made

    async def stream(self, **options: Any) -> Any:
        return await self.client.stream(CHAT, ASK | options, tenant="acme")

    async def ask(self, **options: Any) -> list[Any]:
        return await events_of(await self.stream(**options))

    @property
    def asked(self) -> list[str]:
        return [name for name, _ in self.peers.generated]


@pytest_asyncio.fixture
async def rig(bus: Bus, nats_server: NatsServer) -> AsyncIterator[Rig]:
    client = await Bus.connect(nats_server.url, name="client")
    made = Rig(bus, client)
    await made.peers.start()
    yield made
    for orchestrator in made.made:
        await orchestrator.drain()
        await orchestrator.close()
    await made.peers.close()
    await client.close()


def small_says(rig: Rig, answer: str, reason: str = "stop", logprob: float | None = None) -> None:
    for name in ("w1", "w2"):
        rig.peers.answers[name], rig.peers.reasons[name] = answer, reason
        if logprob is not None:
            rig.peers.logprobs[name] = logprob


@pytest.mark.parametrize(
    ("answer", "reason", "logprob", "why"),
    [
        ("I don't know.", "stop", None, "refusal"),
        ("The tide rises", "length", None, "truncated"),
        ("", "stop", None, "empty"),
        (ANSWER, "stop", -2.5, "unsure"),
    ],
)
async def test_a_draft_that_something_speaks_against_is_never_shown(
    rig: Rig, answer: str, reason: str, logprob: float | None, why: str
) -> None:
    await rig.orchestrator()
    small_says(rig, answer, reason, logprob)
    events = await rig.ask()
    done, note = events[-1], notes(events)["cascade"]
    assert (text(events), done.model, done.chunks) == (BETTER, "better", len(BETTER.split()))
    assert (note["model"], note["escalated"], note["reason"]) == ("m", True, why)
    assert note.get("mean_logprob") == logprob
    assert rig.asked == ["w1", "w9"]
    assert rig.peers.routes[-1].above == "m"
    spent = done.usage.completion_tokens_details["cascade"]
    assert (spent["model"], spent["completion_tokens"]) == ("m", len(answer.split()))
    await until(lambda: rig.peers.puts)
    assert (rig.peers.puts[0].answer.text, rig.peers.puts[0].answer.model) == (BETTER, "better")
    again = await rig.ask()
    assert (again[-1].cache, text(again)) == ("exact", BETTER)
    assert "cascade" not in again[-1].usage.completion_tokens_details, "a hit costs nothing"


async def test_a_form_that_is_not_met_is_escalated(rig: Rig) -> None:
    await rig.orchestrator()
    small_says(rig, "Sure! The city is Rome.")
    rig.peers.answers["w9"] = '{"city": "Rome"}'
    events = await rig.ask(response_format={"type": "json_object"})
    assert (text(events), notes(events)["cascade"]["reason"]) == ('{"city": "Rome"}', "format")


@pytest.mark.parametrize("cascade", ["hold", "first_tokens"])
async def test_a_draft_that_nothing_speaks_against_is_shown_whole(rig: Rig, cascade: str) -> None:
    await rig.orchestrator(cascade, cascade_first_tokens=3)
    small_says(rig, ANSWER, logprob=-0.25)
    events = await rig.ask()
    assert (text(events), events[-1].model, rig.asked) == (ANSWER, "m", ["w1"])
    note = notes(events)["cascade"]
    assert (note["escalated"], note["mean_logprob"]) == (False, -0.25)
    assert events[-1].usage.completion_tokens_details is None
    assert {"cascade", "first_token"} <= set(events[-1].timings_ms)


async def test_nothing_is_shown_before_the_end_is_known(rig: Rig) -> None:
    await rig.orchestrator()
    gate, said = asyncio.Event(), asyncio.Event()

    async def late(seq: int, _: Call) -> None:
        if seq == 4:
            said.set()
            await gate.wait()

    rig.peers.broken = {"w1": late}
    stream = await rig.stream()
    reading = asyncio.create_task(first_chunk(stream))
    await said.wait()
    assert not reading.done(), "four chunks are there"
    gate.set()
    assert (await reading).text == ANSWER.split()[0]
    await events_of(stream)


async def test_after_its_first_tokens_a_draft_is_read_as_it_comes(rig: Rig) -> None:
    await rig.orchestrator("first_tokens", cascade_first_tokens=3)
    small_says(rig, ANSWER, "length", logprob=-0.25)
    gate = asyncio.Event()

    async def late(seq: int, _: Call) -> None:
        if seq == 4:
            await gate.wait()

    rig.peers.broken = {"w1": late}
    stream = await rig.stream()
    first = await first_chunk(stream)
    gate.set()
    events = [first, *await events_of(stream)]
    assert (text(events), events[-1].finish_reason, rig.asked) == (ANSWER, "length", ["w1"]), "too late to contradict"


async def test_first_tokens_that_are_unlikely_are_given_up_and_their_worker_stops(rig: Rig) -> None:
    await rig.orchestrator("first_tokens", cascade_first_tokens=3)
    small_says(rig, ANSWER, logprob=-2.5)

    async def hangs(seq: int, _: Call) -> None:
        if seq == 3:
            await asyncio.Event().wait()

    rig.peers.broken = {"w1": hangs}
    events = await rig.ask()
    assert (text(events), notes(events)["cascade"]["tokens"]) == (BETTER, 3)
    await until(lambda: rig.peers.cancelled == ["w1"])
    assert events[-1].usage.completion_tokens_details["cascade"] == {"model": "m", "completion_tokens": 3}


async def test_without_a_better_model_the_draft_is_the_answer(rig: Rig) -> None:
    await rig.orchestrator()
    rig.peers.better = ""
    small_says(rig, "I don't know.")
    events = await rig.ask()
    assert (text(events), events[-1].model) == ("I don't know.", "m")
    assert notes(events)["cascade"] == {"model": "m", "escalated": False, "reason": "refusal"}


async def test_a_better_model_that_fails_leaves_the_draft(rig: Rig) -> None:
    await rig.orchestrator()
    small_says(rig, "I don't know.")

    async def fails(_: int, __: Call) -> None:
        raise Failed.of(BROKEN)

    rig.peers.broken = {"w9": fails}
    events = await rig.ask()
    assert (text(events), events[-1].model, rig.asked) == ("I don't know.", "m", ["w1", "w9"])
    assert (rig.peers.routes[-1].above, rig.peers.routes[-1].exclude) == ("m", ["w9"])
    assert notes(events)["cascade"] == {"model": "m", "escalated": False, "reason": "failed"}
    assert events[-1].usage.completion_tokens_details is None, "the draft is the answer, not an extra"


async def test_half_a_draft_that_was_given_up_is_made_anew_when_the_better_model_fails(rig: Rig) -> None:
    await rig.orchestrator("first_tokens", cascade_first_tokens=3)
    small_says(rig, ANSWER, logprob=-2.5)

    async def fails(_: int, __: Call) -> None:
        raise Failed.of(BROKEN)

    rig.peers.broken = {"w9": fails}
    events = await rig.ask()
    assert (text(events), events[-1].model, rig.asked) == (ANSWER, "m", ["w1", "w9", "w1"])


async def test_a_worker_that_is_lost_while_its_draft_is_held_is_replaced_by_any(rig: Rig) -> None:
    await rig.orchestrator()

    async def breaks(seq: int, _: Call) -> None:
        if seq == 3:
            raise Failed.of(BROKEN)

    rig.peers.continues = False
    rig.peers.broken = {"w1": breaks}
    events = await rig.ask()
    assert (text(events), rig.asked) == (ANSWER, ["w1", "w2"])
    assert rig.peers.generated[1][1].continues == ""


async def test_only_what_the_router_doubts_is_held(rig: Rig) -> None:
    await rig.orchestrator()
    rig.peers.routed = {}
    small_says(rig, "I don't know.")
    events = await rig.ask()
    assert (text(events), "cascade" in notes(events)) == ("I don't know.", False)
    assert rig.peers.generated[0][1].confidence_after == 0


async def test_it_is_off_by_default(rig: Rig) -> None:
    await rig.orchestrator(Settings().cascade)
    small_says(rig, "I don't know.")
    events = await rig.ask()
    assert (text(events), rig.asked) == ("I don't know.", ["w1"])


async def test_everyone_who_shares_a_generation_reads_the_better_answer(rig: Rig) -> None:
    await rig.orchestrator()
    small_says(rig, "I don't know.")
    streams: list[Any] = []

    async def waits(_: int, __: Call) -> None:
        await until(lambda: len(streams) == 3)

    rig.peers.broken = {"w1": waits}
    streams.extend([await rig.stream() for _ in range(3)])
    answers = await asyncio.gather(*(events_of(stream) for stream in streams))
    assert [text(events) for events in answers] == [BETTER] * 3
    assert [[event.seq for event in events if isinstance(event, Chunk)] for events in answers] == [
        list(range(len(BETTER.split())))
    ] * 3
    assert rig.asked == ["w1", "w9"]
