"""A second attempt at a slow first token: whoever speaks first is read, the other one stops, and both may fail."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from patience import until
from replica_rig import ASK, events_of, notes, patient, text
from scripted_peers import ANSWER, Scripted

from hasten.bus import Bus
from hasten.codec import decode
from hasten.messages.attempt import ATTEMPTED, Attempted
from hasten.messages.chat import CHAT, FINISHED, Done, Finished
from hasten.messages.failure import Failed, Failure
from hasten.nats_server import NatsServer
from hasten.orchestrator.service import Orchestrator, build
from hasten.orchestrator.settings import Settings
from hasten.service import Call


class Rig:
    """Three scripted workers that are slow at once, an orchestrator, a client, and what was announced."""

    def __init__(self, bus: Bus, client: Bus) -> None:
        self.peers = Scripted(bus, workers=("w1", "w2", "w3"))
        self.peers.routed = {"p95_ttft_ms": 20.0}
        self.bus, self.client = bus, client
        self.finished: list[Finished] = []
        self.attempted: list[Attempted] = []
        self.made: list[Orchestrator] = []

    async def orchestrator(self, hedge_share: float = 1.0) -> Orchestrator:
        made = patient(build(Settings(exact_wait_ms=20, again_s=0, hedge_share=hedge_share), self.bus))
        self.made.append(made)
        await made.start()
        return made

    async def ask(self, **options: Any) -> list[Any]:
        """The whole answer, once its end has been announced."""
        before = len(self.finished)
        events = await events_of(await self.client.stream(CHAT, ASK | options, tenant="acme"))
        await until(lambda: len(self.finished) > before)
        return events

    def asked(self, worker: str) -> bool:
        return any(name == worker for name, _ in self.peers.generated)

    def waits(self, until_true: Callable[[], bool], then: Failure | None = None) -> Any:
        """A worker that says nothing before something has happened, and may fail then."""

        async def broken(seq: int, _: Call) -> None:
            await until(until_true)
            if then is not None:
                raise Failed.of(then)

        return broken

    async def hear(self, msg: Any) -> None:
        self.finished.append(decode(Finished, msg.data))

    async def hear_attempt(self, msg: Any) -> None:
        self.attempted.append(decode(Attempted, msg.data))


async def hangs(_: int, __: Call) -> None:
    await asyncio.Event().wait()


@pytest_asyncio.fixture
async def rig(bus: Bus, nats_server: NatsServer) -> AsyncIterator[Rig]:
    client = await Bus.connect(nats_server.url, name="client")
    made = Rig(bus, client)
    await made.peers.start()
    await client.subscribe(FINISHED.pattern, made.hear)
    await client.subscribe(ATTEMPTED.pattern, made.hear_attempt)
    await client.flush()
    yield made
    for orchestrator in made.made:
        await orchestrator.drain()
        await orchestrator.close()
    await made.peers.close()
    await client.close()


BROKEN = Failure(code="upstream", detail="the engine broke")


async def test_another_worker_answers_for_one_that_is_slow_and_that_one_stops(rig: Rig) -> None:
    orchestrator = await rig.orchestrator()
    rig.peers.broken = {"w1": hangs}
    events = await rig.ask()
    assert (text(events), events[-1].chunks) == (ANSWER, len(ANSWER.split()))
    await until(lambda: rig.peers.cancelled == ["w1"])
    note = notes(events)["hedge"]
    assert (note["workers"], note["won"], note["after_ms"] >= 20) == (["w1", "w2"], "w2", True)
    (event,) = rig.finished
    assert (event.worker, event.outcome, event.timings_ms["hedge"] >= 20) == ("w2", "done", True)
    await until(lambda: len(rig.attempted) == 2)
    lost, won = sorted(rig.attempted, key=lambda attempt: attempt.worker)
    assert (lost.outcome, lost.ttft_ms, won.outcome) == ("cancelled", 0, "done"), "the router hears a lower bound"
    assert 0 < won.ttft_ms < lost.total_ms
    assert orchestrator.report()["hedges"] == {"won": 1}
    assert [(request.spare, request.exclude, request.model) for request in rig.peers.routes] == [
        (False, [], "auto"),
        (True, ["w1"], "m"),
    ]
    assert rig.peers.generated[0][1].messages == rig.peers.generated[1][1].messages


async def test_the_first_attempt_may_still_win(rig: Rig) -> None:
    orchestrator = await rig.orchestrator()
    rig.peers.broken = {"w1": rig.waits(lambda: rig.asked("w2")), "w2": hangs}
    events = await rig.ask()
    assert (text(events), notes(events)["hedge"]["won"]) == (ANSWER, "w1")
    await until(lambda: rig.peers.cancelled == ["w2"])
    assert rig.finished[0].worker == "w1"
    assert orchestrator.report()["hedges"] == {"lost": 1}


async def test_without_a_budget_a_slow_worker_is_waited_for(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    orchestrator = await rig.orchestrator(hedge_share=0.4)
    hedges = orchestrator._hedges
    looked: list[bool] = []
    spend = hedges.spend

    def seen() -> bool:
        looked.append(spend())
        return looked[-1]

    monkeypatch.setattr(hedges, "spend", seen)
    rig.peers.broken = {"w1": rig.waits(lambda: len(looked) > 1)}
    events = await rig.ask()
    assert (text(events), "hedge" in notes(events), looked[0]) == (ANSWER, False, False)
    assert (orchestrator.report()["hedges"], rig.asked("w2")) == ({"denied": 1}, False)


async def test_without_another_worker_a_slow_one_is_waited_for_and_nothing_is_spent(rig: Rig) -> None:
    orchestrator = await rig.orchestrator()
    rig.peers.workers = ("w1",)
    rig.peers.broken = {
        "w1": rig.waits(lambda: "nowhere" in orchestrator.report()["hedges"] or len(rig.peers.routes) > 1)
    }
    events = await rig.ask()
    assert (text(events), "hedge" in notes(events)) == (ANSWER, False)
    assert set(orchestrator.report()["hedges"]) <= {"nowhere", "unneeded"}
    assert orchestrator._hedges.spend()


async def test_a_second_attempt_that_fails_leaves_the_first_alone(rig: Rig) -> None:
    orchestrator = await rig.orchestrator()
    rig.peers.broken = {"w1": rig.waits(lambda: "failed" in told), "w2": rig.waits(lambda: True, BROKEN)}
    told: list[str] = []
    events_task = asyncio.create_task(rig.ask())
    await until(lambda: rig.asked("w2"))
    told.append("failed")
    events = await events_task
    assert text(events) == ANSWER
    assert rig.finished[0].worker == "w1"
    assert set(orchestrator.report()["hedges"]) <= {"failed", "lost"}


async def test_a_first_attempt_that_fails_after_the_second_has_begun_costs_nothing(rig: Rig) -> None:
    orchestrator = await rig.orchestrator()
    gone: list[str] = []
    rig.peers.broken = {
        "w1": rig.waits(lambda: rig.asked("w2"), BROKEN),
        "w2": rig.waits(lambda: bool(gone)),
    }
    asking = asyncio.create_task(rig.ask())
    await until(lambda: rig.asked("w2"))
    gone.append("w1")
    assert text(await asking) == ANSWER
    assert orchestrator.report()["hedges"] == {"won": 1}
    assert len(rig.peers.routes) == 2


async def test_when_both_fail_a_third_worker_answers(rig: Rig) -> None:
    orchestrator = await rig.orchestrator()
    both = rig.waits(lambda: rig.asked("w1") and rig.asked("w2"), BROKEN)
    rig.peers.broken = {"w1": both, "w2": both}
    events = await rig.ask()
    assert text(events) == ANSWER
    assert sorted(rig.peers.routes[-1].exclude) == ["w1", "w2"]
    assert rig.finished[0].worker == "w3"
    assert orchestrator.report()["hedges"]["failed"] == 1


async def test_a_reader_who_leaves_ends_both_attempts(rig: Rig) -> None:
    orchestrator = await rig.orchestrator()
    rig.peers.broken = {"w1": hangs, "w2": hangs}
    stream = await rig.client.stream(CHAT, ASK, tenant="acme")
    await until(lambda: rig.asked("w1") and rig.asked("w2"))
    await stream.aclose()
    await until(lambda: sorted(rig.peers.cancelled) == ["w1", "w2"])
    await until(lambda: not orchestrator.report()["flights"] and not rig.client.outstanding)
    assert sorted(name for name, _ in rig.peers.generated) == ["w1", "w2"], "nobody else was asked"


async def test_identical_requests_share_a_hedged_generation(rig: Rig) -> None:
    await rig.orchestrator()
    rig.peers.broken = {"w1": hangs, "w2": rig.waits(lambda: len(streams) == 3)}
    streams: list[Any] = []
    streams.extend([await rig.client.stream(CHAT, ASK, tenant="acme") for _ in range(3)])
    answers = await asyncio.gather(*(events_of(stream) for stream in streams))
    assert [text(events) for events in answers] == [ANSWER] * 3
    assert all(isinstance(events[-1], Done) for events in answers)
    await until(lambda: len(rig.finished) == 3)
    assert sorted(name for name, _ in rig.peers.generated) == ["w1", "w2"]
    again = await rig.ask()
    assert (again[-1].cache, text(again)) == ("exact", ANSWER)
