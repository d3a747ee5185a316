"""What is decided when not all that is wanted can be had, or too little is known."""

from collections import Counter

import pytest
from decision_rig import EASY, HARD, LARGE, POLICY, SMALL, choose, facts, known, model, refuse
from msgspec import structs

from hasten.messages.route import Route
from hasten.router.decision import cooldown_ms
from hasten.router.difficulty import Difficulty
from hasten.router.settings import Settings
from hasten.router.workers import Load


def test_nothing_within_the_budget_means_the_fastest_and_says_so() -> None:
    snapshot = facts(SMALL, LARGE, small=known(5000), large=known(2000))
    decided = choose(snapshot, latency_budget_ms=100)
    assert (decided.option.model, decided.kind) == (LARGE, "over_budget")
    assert "budget" in decided.reason
    assert decided.confidence < choose(snapshot).confidence


def test_unmeasured_and_stale_models_get_a_small_share() -> None:
    """What has no samples is found out about, and never gets more than the share."""
    cheap = {"cost_per_1k_completion": 0.01}
    snapshot = facts(model("a"), model("b", **cheap), model("c", **cheap), a=known(300, 400))
    counts = Counter(
        choose(snapshot, key=str(number), latency_budget_ms=1500).option.model.name for number in range(3000)
    )
    for name in "bc":
        assert 0.02 < counts[name] / 3000 < 0.08, counts
    probes = [choose(snapshot, key=str(number)) for number in range(300)]
    assert {one.kind for one in probes if one.option.model.name != "a"} == {"probe"}


def test_a_burst_does_not_all_go_to_an_unmeasured_model() -> None:
    """No more probes at once than allowed, even when chance would have it."""
    policy = Settings(probe_share=1.0, max_probes=2)
    in_flight = 0
    for number in range(100):
        loads = {"new": [Load(name="new-1", slots=64, in_flight=in_flight)]}
        snapshot = facts(model("a"), model("new"), a=known(300), loads=loads)
        in_flight += choose(snapshot, key=str(number), policy=policy).option.model.name == "new"
    assert in_flight == 2


def test_a_prior_over_the_budget_does_not_keep_a_model_unknown_for_ever() -> None:
    """A probe finds out what the operator's guess was worth."""
    snapshot = facts(model("a"), model("b", ttft_prior_ms=9000.0), a=known(300, 400))
    counts = Counter(choose(snapshot, key=str(number), latency_budget_ms=1500).kind for number in range(2000))
    assert 0.02 < counts["probe"] / 2000 < 0.08
    waits = {"b": [Load(name="b-1", slots=4, in_flight=1, oldest_ms=20_000)]}
    hangs = facts(model("a"), model("b"), a=known(300, 400), loads=waits)
    assert {choose(hangs, key=str(number)).option.model.name for number in range(300)} == {"a"}, "the last one waits"


def test_probes_on_their_way_count_before_a_worker_knows_of_them() -> None:
    policy = Settings(probe_share=1.0, max_probes=2)
    snapshot = facts(model("a"), model("new"), a=known(300))
    assert choose(snapshot, policy=policy).kind == "probe"
    assert choose(structs.replace(snapshot, probes={"new": 2}), policy=policy).option.model.name == "a"


def test_there_are_no_probes_before_anything_is_measured() -> None:
    policy = Settings(probe_share=1.0)
    assert choose(facts(SMALL, LARGE), policy=policy).kind == "cheapest"
    assert choose(facts(SMALL, LARGE, small=known(300)), policy=policy).option.model == LARGE


def test_an_unmeasured_model_takes_everything_when_nothing_else_can() -> None:
    loads = {"new": [Load(name="new-1", slots=64, in_flight=50)]}
    assert choose(facts(model("new"), loads=loads)).kind == "cheapest"


def test_a_choice_that_will_be_late_says_so() -> None:
    """Also one that was asked for by name."""
    snapshot = facts(SMALL, LARGE, small=known(5000), large=known(2000))
    assert choose(snapshot, latency_budget_ms=100).over_budget
    assert choose(snapshot, latency_budget_ms=100, model="small").over_budget
    assert not choose(snapshot, latency_budget_ms=3000).over_budget
    assert not choose(snapshot).over_budget


def test_workers_that_cool_down_get_nothing_and_the_first_to_be_back_is_named() -> None:
    """The time to come back is a field, and the soonest of all."""
    cools = {
        "small": [Load(name="s1", cooling_ms=40_000), Load(name="s2", cooling_ms=7000.4), Load(name="s3", ready=False)],
        "large": [Load(name="l1", cooling_ms=90_000)],
    }
    snapshot = facts(SMALL, LARGE, loads=cools)
    refused = refuse(snapshot)
    assert (refused.code, refused.retry_after_ms) == ("overloaded", 7001)
    assert "cool" in refused.detail
    assert cooldown_ms(Route(text=EASY), snapshot, POLICY) == 7000.4
    assert cooldown_ms(Route(text=EASY, exclude=["s2"]), snapshot, POLICY) == 40_000
    assert cooldown_ms(Route(text=EASY, model="large"), snapshot, POLICY) == 90_000
    assert cooldown_ms(Route(text=EASY, model="nobody"), snapshot, POLICY) is None
    assert cooldown_ms(Route(text=EASY), facts(SMALL, loads={"small": [Load(name="s1", full=True)]}), POLICY) is None
    one_back = facts(SMALL, LARGE, loads={**cools, "small": [*cools["small"], Load(name="s4")]})
    assert choose(one_back).option.load.name == "s4"


def test_a_worker_that_is_full_may_be_back_before_one_that_cools_down() -> None:
    loads = {"small": [Load(name="a", full=True, slots=2, in_flight=4), Load(name="b", cooling_ms=8000)]}
    assert refuse(facts(SMALL, loads=loads)).retry_after_ms == 3000


def test_where_the_difficulty_is_not_known_the_small_model_is_preferred_and_may_be_escalated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nobody_knows(text: str, turns: int = 1, *_: object, **__: object) -> Difficulty:
        return Difficulty(score=0.9, features={}, why="nothing like it was measured", known=False)

    assert not choose(facts(SMALL, LARGE), HARD).cascade
    monkeypatch.setattr("hasten.router.decision.estimate", nobody_knows)
    decided = choose(facts(SMALL, LARGE), HARD)
    assert (decided.option.model, decided.kind, decided.cascade) == (SMALL, "cheapest", True)
    assert "the difficulty being unknown" in decided.reason
    assert decided.confidence < 0.6
    assert not choose(facts(SMALL), HARD).cascade, "nothing to escalate to"
    assert not choose(facts(SMALL, LARGE), HARD, model="small").cascade, "it was asked for"


def test_without_a_worker_the_next_model_is_taken_or_it_is_unavailable() -> None:
    """The time to come back is a field, not a text."""
    assert choose(facts(SMALL, LARGE, loads={"small": []})).option.model == LARGE
    for request in ({"model": "small"}, {"exclude": ["large-1"]}):
        refused = refuse(facts(SMALL, LARGE, loads={"small": []}), **request)
        assert (refused.code, refused.retry_after_ms) == ("unavailable", 1000)


def test_full_workers_say_when_to_come_back() -> None:
    full = [Load(name=name, full=True, slots=2, in_flight=wait) for name, wait in (("a", 9), ("b", 4))]
    refused = refuse(facts(SMALL, loads={"small": full}))
    assert (refused.code, refused.retry_after_ms) == ("overloaded", 3000)
    assert choose(facts(SMALL, LARGE, loads={"small": full})).option.model == LARGE


def test_a_model_that_hangs_loses_its_share_at_once() -> None:
    """What is in flight is a lower bound of the latency."""
    snapshot = facts(model("a"), model("b"), a=known(200), b=known(220))
    shares = Counter(choose(snapshot, key=str(number)).option.model.name for number in range(300))
    assert min(shares.values()) > 90, "near-equals are spread"
    hangs = facts(
        model("a"),
        model("b"),
        a=known(200),
        b=known(220),
        loads={"a": [Load(name="a-1", slots=64, oldest_ms=900, late_ms=800)]},
    )
    assert {choose(hangs, key=str(number)).option.model.name for number in range(300)} == {"b"}


def test_a_long_prompt_that_is_being_computed_does_not_make_its_model_slow() -> None:
    computing = {"a": [Load(name="a-1", slots=64, oldest_ms=4000)]}
    snapshot = facts(model("a"), model("b"), a=known(200), b=known(220), loads=computing)
    assert {choose(snapshot, key=str(number)).option.model.name for number in range(300)} == {"a", "b"}
