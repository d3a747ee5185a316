"""What ran when in a request: what is told of stages that ended, were cut off, never ran, or found what nobody took."""

import asyncio

import pytest

from hasten.messages.cache import Answer, CacheHit, CacheMiss
from hasten.messages.chat import parse_chat
from hasten.messages.failure import Failed, Failure
from hasten.orchestrator.domain import plan_of
from hasten.orchestrator.permission import skipped
from hasten.orchestrator.timeline import ALWAYS, NOT_SERVED, Stage, Timeline, came_of, since


class Clock:
    """A clock that stands until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def named(stages: list[Stage]) -> dict[str, Stage]:
    assert len({stage.name for stage in stages}) == len(stages), "each once, in these tests"
    return {stage.name: stage for stage in stages}


def hit(kind: str = "exact") -> CacheHit:
    return CacheHit(kind=kind, entry_id="e1", answer=Answer(text="secret words"), age_s=12)  # type: ignore[arg-type]


def test_a_stage_has_its_times_its_outcome_and_its_reason(clock: Clock) -> None:
    line = Timeline(clock)
    clock.now = 1.0
    with line.begin("exact") as mark:
        clock.now = 3.5
        mark.end(*came_of(CacheMiss(reason="absent")))
    line.close("miss")
    found = named(line.stages)["exact"]
    assert (found.start_ms, found.end_ms, found.outcome, found.reason) == (1.0, 3.5, "miss", "nothing is stored")


def test_the_first_end_counts(clock: Clock) -> None:
    line = Timeline(clock)
    mark = line.begin("generate")
    mark.end("ran", "m on w1")
    clock.now = 9.0
    mark.end("cancelled", "left")
    assert (mark.end_ms, mark.outcome) == (0.0, "ran")


@pytest.mark.parametrize(
    ("error", "outcome", "reason"),
    [
        (Failed.of(Failure(code="unavailable", detail="secret")), "failed", "unavailable"),
        (ValueError("secret"), "failed", "ValueError"),
        (asyncio.CancelledError(), "cancelled", "left"),
    ],
)
def test_whatever_leaves_a_stage_ends_it_and_its_text_is_not_told(
    clock: Clock, error: BaseException, outcome: str, reason: str
) -> None:
    line = Timeline(clock)
    with pytest.raises(type(error)), line.begin("route"):
        raise error
    found = named(line.stages)["route"]
    assert (found.outcome, found.reason) == (outcome, reason)


def test_what_was_still_going_on_at_the_end_was_cancelled(clock: Clock) -> None:
    line = Timeline(clock)
    line.begin("exact").end(*came_of(hit()))
    late = line.begin("route")
    clock.now = 5.0
    line.close("exact")
    clock.now = 8.0
    late.end("ran", "too late")
    found = named(line.stages)
    assert (found["route"].outcome, found["route"].end_ms) == ("cancelled", 5.0)
    assert found["exact"].outcome == "hit"
    assert (found["compress"].outcome, found["compress"].reason) == ("skipped", "the answer was there")


def test_every_usual_stage_is_told_of(clock: Clock) -> None:
    line = Timeline(clock)
    line.close("miss")
    assert set(ALWAYS) == {stage.name for stage in line.stages}
    assert {stage.outcome for stage in line.stages if stage.name != "store"} == {"skipped"}


def test_storing_begins_after_the_end_unless_something_speaks_against_it(clock: Clock) -> None:
    stored, refused, failed = (Timeline(clock) for _ in range(3))
    refused.skip("store", "stale")
    for line, cache in ((stored, "miss"), (refused, "miss"), (failed, None)):
        line.close(cache)
        line.begin("store").end()
    assert named(stored.stages)["store"].outcome == "ran"
    assert (named(refused.stages)["store"].outcome, named(refused.stages)["store"].reason) == ("skipped", "stale")
    assert named(failed.stages)["store"].outcome == "skipped"


def test_a_hit_that_was_not_served_is_a_miss(clock: Clock) -> None:
    line = Timeline(clock)
    line.begin("exact").end(*came_of(hit()))
    line.close("miss")
    found = named(line.stages)["exact"]
    assert (found.outcome, found.reason) == ("miss", NOT_SERVED)


def test_of_two_hits_the_one_that_came_last_was_served(clock: Clock) -> None:
    line = Timeline(clock)
    line.begin("exact").end(*came_of(hit()))
    clock.now = 4.0
    line.begin("semantic").end(*came_of(hit("semantic")))
    line.close("semantic")
    found = named(line.stages)
    assert (found["exact"].outcome, found["semantic"].outcome) == ("miss", "hit")


def test_a_remembered_hit_needs_no_look_up(clock: Clock) -> None:
    line = Timeline(clock)
    line.close("exact")
    found = named(line.stages)["exact"]
    assert (found.outcome, found.end_ms) == ("hit", 0.0)
    assert "remembered" in found.reason


def test_who_joins_late_is_told_times_of_their_own(clock: Clock) -> None:
    line = Timeline(clock)
    line.begin("route").end()
    early = line.begin("generate")
    clock.now = 50.0
    line.begin("first_token").end("ran", "m on w1")
    clock.now = 80.0
    early.end()
    line.close("miss")
    found = named(since(line.stages, 30.0))
    assert (found["join"].start_ms, found["join"].end_ms) == (0.0, 0.0)
    assert (found["route"].outcome, found["route"].end_ms) == ("skipped", 0.0)
    assert (found["generate"].start_ms, found["generate"].end_ms) == (0.0, 50.0)
    assert (found["first_token"].start_ms, found["first_token"].end_ms) == (20.0, 20.0)


def test_who_began_it_is_told_the_time_from_its_own_admission(clock: Clock) -> None:
    line = Timeline(clock)
    clock.now = 1.0
    line.begin("route").end()
    line.close("miss")
    found = named(since(line.stages, -0.25))
    assert "join" not in found
    assert found["route"].start_ms == 1.25


@pytest.mark.parametrize(
    ("body", "stages"),
    [
        ({"cache": {"mode": "off"}, "model": "m"}, {"exact", "semantic", "lease", "store", "retrieve", "embed"}),
        ({"cache": {"mode": "exact"}, "model": "m"}, {"semantic", "retrieve", "embed"}),
        ({"knowledge": ["sea"]}, set()),
        ({"cache": {"store": False}}, {"store", "retrieve"}),
    ],
)
def test_a_plan_says_what_it_has_no_use_for(body: dict[str, object], stages: set[str]) -> None:
    request = parse_chat({"messages": [{"role": "user", "content": "When does the tide rise?"}], **body})
    found = skipped(request, plan_of(request))
    assert set(found) == stages
    assert all(found.values()), "each with a reason"
