"""Who asks to have it explained is told what ran when, just before the end, and nothing of the content."""

from typing import Any

import msgspec
import pytest
from patience import until
from replica_rig import ASK, Gate, Replicas, events_of, loyal, peers, replicas
from scripted_peers import ANSWER, PASSAGE, Scripted

from hasten.messages.cache import Answer, CacheHit
from hasten.messages.chat import Done, Note
from hasten.messages.failure import Failed, Failure

__all__ = ["loyal", "peers", "replicas"]
pytestmark = pytest.mark.usefixtures("loyal")
EXPLAIN = ASK | {"explain": True}


def timeline(events: list[Any]) -> dict[str, dict[str, Any]]:
    """The stages by name, of the one note that stands before the end."""
    told = [event for event in events if isinstance(event, Note) and event.kind == "timeline"]
    assert told == [events[-2]], "one, just before the end"
    stages = told[0].data["stages"]
    assert all(0 <= stage["start_ms"] <= stage["end_ms"] for stage in stages)
    assert [stage["start_ms"] for stage in stages] == sorted(stage["start_ms"] for stage in stages)
    return {stage["name"]: stage for stage in stages}


def outcomes(events: list[Any]) -> dict[str, str]:
    return {name: stage["outcome"] for name, stage in timeline(events).items()}


async def test_a_generated_answer(replicas: Replicas, peers: Scripted) -> None:
    peers.passages = [PASSAGE]
    replica = await replicas.add()
    events = await replicas.ask(replica, EXPLAIN | {"knowledge": ["sea"]})
    found = timeline(events)
    assert {name: stage["outcome"] for name, stage in found.items()} == {
        "exact": "miss",
        "embed": "ran",
        "semantic": "miss",
        "retrieve": "ran",
        "route": "ran",
        "lease": "ran",
        "compress": "ran",
        "generate": "ran",
        "first_token": "ran",
        "checks": "ran",
        "store": "ran",
    }
    assert found["embed"]["end_ms"] <= found["semantic"]["start_ms"]
    assert found["route"]["end_ms"] <= found["compress"]["start_ms"]
    assert found["compress"]["end_ms"] <= found["generate"]["start_ms"]
    assert found["first_token"]["end_ms"] <= found["generate"]["end_ms"] <= events[-1].timings_ms["total"]
    said = msgspec.json.encode(events[-2]).decode()
    assert not [text for text in ("tide", ANSWER) if text in said]


async def test_who_does_not_ask_is_told_nothing(replicas: Replicas) -> None:
    events = await replicas.ask(await replicas.add())
    assert isinstance(events[-1], Done)
    assert "timeline" not in {event.kind for event in events if isinstance(event, Note)}


async def test_a_stored_answer_and_then_a_remembered_one(replicas: Replicas, peers: Scripted) -> None:
    peers.exact = CacheHit(kind="exact", entry_id="e1", answer=Answer(text=ANSWER), lives_s=600)
    replica = await replicas.add()
    looked_up, remembered = [await replicas.ask(replica, EXPLAIN) for _ in range(2)]
    assert [events[-1].cache for events in (looked_up, remembered)] == ["exact", "exact"]
    assert outcomes(looked_up)["exact"] == outcomes(remembered)["exact"] == "hit"
    assert "remembered" in timeline(remembered)["exact"]["reason"]
    assert (outcomes(looked_up)["compress"], outcomes(looked_up)["generate"]) == ("skipped", "skipped")
    rest = {name: stage for name, stage in timeline(remembered).items() if name != "exact"}
    assert {stage["outcome"] for stage in rest.values()} == {"skipped"}
    assert all(stage["reason"] for stage in rest.values())


async def test_a_hit_by_meaning_cancels_what_runs_beside_it(replicas: Replicas, peers: Scripted) -> None:
    peers.semantic = CacheHit(kind="semantic", entry_id="e1", answer=Answer(text=ANSWER), similarity=0.97)
    peers.waits = {"semantic": lambda: peers.began("route", "retrieve")}
    peers.delays = {"route": 600, "retrieve": 600}
    events = await replicas.ask(await replicas.add(), EXPLAIN | {"knowledge": ["sea"]})
    found = outcomes(events)
    assert (found["semantic"], found["route"], found["retrieve"]) == ("hit", "cancelled", "cancelled")
    assert (found["compress"], found["generate"]) == ("skipped", "skipped")
    assert "0.970" in timeline(events)["semantic"]["reason"]


async def test_who_joins_here_and_who_follows_elsewhere(replicas: Replicas, peers: Scripted) -> None:
    leader, other = await replicas.add(), await replicas.add()
    gate = Gate(peers, 3)
    first = await replicas.stream(leader, EXPLAIN)
    await until(lambda: leader.unit._flights.all and max(one.chunks for one in leader.unit._flights.all) == 3)
    joining = await replicas.stream(leader, EXPLAIN)
    following = await replicas.stream(other, EXPLAIN)
    await until(lambda: sum(flight.readers for one in replicas.all for flight in one.unit._flights.all) == 4)
    gate.open()
    led, joined, followed = [await events_of(stream) for stream in (first, joining, following)]
    assert "join" not in outcomes(led)
    assert (outcomes(joined)["join"], outcomes(joined)["first_token"]) == ("ran", "skipped")
    assert timeline(joined)["generate"]["start_ms"] == 0
    assert (outcomes(followed)["follow"], outcomes(followed)["lease"]) == ("ran", "ran")
    assert outcomes(followed)["generate"] == "skipped"


async def test_a_worker_that_failed_and_the_one_that_went_on(replicas: Replicas, peers: Scripted) -> None:
    async def breaks(seq: int, _: Any) -> None:
        raise Failed.of(Failure(code="upstream", detail="the engine broke"))

    peers.broken = {"w1": breaks}
    events = await replicas.ask(await replicas.add(), EXPLAIN)
    note = events[-2]
    tries = [stage for stage in note.data["stages"] if stage["name"] == "generate"]
    assert [(stage["outcome"], stage["reason"]) for stage in tries] == [
        ("failed", "m on w1: upstream"),
        ("ran", "m on w2"),
    ]


async def test_a_failure_is_explained_as_well(replicas: Replicas, peers: Scripted) -> None:
    peers.routed = {"worker": "nobody"}
    peers.workers = ()
    events = await replicas.ask(await replicas.add(), EXPLAIN)
    assert isinstance(events[-1], Failure)
    assert timeline(events)["route"]["reason"] == "unavailable"
    assert outcomes(events)["store"] == "skipped"
