"""The decision table: what is wanted, what is given up in which order, and what never happens whatever the facts."""

from typing import Any

import msgspec
import pytest
from decision_rig import EASY, HARD, LARGE, POLICY, SMALL, choose, facts, known, model, refuse
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.messages.failure import Failure
from hasten.messages.route import Route
from hasten.router.decision import Decision, decide, floor_of
from hasten.router.options import Snapshot, least_tokens, named, window_of
from hasten.router.settings import Settings
from hasten.router.window import Latency
from hasten.router.workers import Load


def test_the_cheapest_that_is_good_enough() -> None:
    assert choose(facts(LARGE, SMALL)).option.model == SMALL
    hard = choose(facts(LARGE, SMALL), HARD)
    assert hard.option.model == LARGE
    assert hard.kind == "cheapest"


def test_the_floor_rises_with_the_difficulty() -> None:
    assert [floor_of(at, POLICY) for at in (0.0, 0.39, 0.4, 0.8)] == [0.0, 0.0, 0.45, 0.6]


def test_quality_is_given_up_before_the_latency_budget() -> None:
    snapshot = facts(SMALL, LARGE, small=known(200), large=known(2000))
    decided = choose(snapshot, HARD, latency_budget_ms=900)
    assert (decided.option.model, decided.kind) == (SMALL, "below_floor")
    assert "below the quality" in decided.reason


def test_the_p95_decides_and_not_the_median() -> None:
    decided = choose(facts(SMALL, LARGE, small=known(200, 3000), large=known(600, 800)), latency_budget_ms=1000)
    assert decided.option.model == LARGE


def test_the_operators_budget_holds_where_the_request_has_none() -> None:
    snapshot = facts(SMALL, LARGE, small=known(5000), large=known(300))
    assert choose(snapshot, policy=Settings(latency_budget_ms=1000)).option.model == LARGE
    assert choose(snapshot, policy=Settings(latency_budget_ms=1000), latency_budget_ms=9000).option.model == SMALL


def test_a_slow_starter_with_long_answers_does_not_look_fast() -> None:
    """By time per token B would win."""
    snapshot = facts(model("a"), model("b"), a=known(700), b=known(2600))
    assert {choose(snapshot, key=str(number)).option.model.name for number in range(50)} == {"a"}


def test_a_queue_counts_as_latency() -> None:
    loads = {"small": [Load(name="small-1", slots=1, in_flight=4)]}
    snapshot = facts(SMALL, LARGE, small=known(200), large=known(600), loads=loads)
    assert choose(snapshot, latency_budget_ms=1000).option.model == LARGE
    assert choose(snapshot).option.expected_ms == 200 + 4 * POLICY.service_prior_ms


def test_a_named_model_is_taken_as_it_is() -> None:
    large = model("Big-Model", quality=0.1, aliases=["best"], cost_per_1k_completion=9.0)
    for name in ("Big-Model", "best"):
        decided = choose(facts(SMALL, large), HARD, model=name, latency_budget_ms=1)
        assert (decided.option.model, decided.kind) == (large, "named")
        assert "over the 1 ms" in decided.reason
    assert choose(facts(SMALL, large), model="best").confidence == 1.0


@pytest.mark.parametrize(
    ("failure", "fields"),
    [
        ("model_not_found", {"model": "gpt-99"}),
        ("model_not_found", {"model": "SMALL"}),
        ("model_not_found", {"model": ""}),
        ("unsupported", {"needs": ["tools"]}),
        ("unsupported", {"needs": ["json"], "model": "small"}),
        ("context_overflow", {"prompt_tokens": 9000}),
        ("context_overflow", {"text": "word " * 10_000, "turns": 7}),
    ],
)
def test_what_no_model_can_do_is_refused_with_the_reason(failure: str, fields: dict[str, Any]) -> None:
    refused = refuse(facts(SMALL, LARGE), **fields)
    assert refused.code == failure
    assert refused.detail
    assert refused.retry_after_ms is None


def test_a_refusal_names_what_is_missing_and_what_there_is() -> None:
    assert "tools" in refuse(facts(SMALL, LARGE), needs=["tools"]).detail
    assert "small, large" in refuse(facts(SMALL, LARGE), model="x").detail
    assert "4096" in refuse(facts(SMALL), prompt_tokens=9000).detail


def test_capabilities_are_found_and_a_worker_can_lack_them() -> None:
    able = model("able", capabilities=["tools", "json"], cost_per_1k_completion=9.0)
    assert choose(facts(SMALL, able), needs=["json"]).option.model == able
    loads = {"able": [Load(name="old", capabilities=["tools"]), Load(name="new", capabilities=["json", "tools"])]}
    for number in range(20):
        assert choose(facts(SMALL, able, loads=loads), needs=["json"], key=str(number)).option.load.name == "new"


def test_what_a_row_promises_and_no_ready_worker_can_do_is_refused_by_the_fields_name() -> None:
    """Asking again would not help: the workers have said what they can, or one may yet come that can."""
    row = msgspec.structs.replace(SMALL, capabilities=["json", "tools"])
    said = [Load(name="small-1", capabilities=["json"]), Load(name="small-2", capabilities=["json", "logprobs"])]
    refused = refuse(facts(row, loads={"small": said}), needs=["tools"])
    assert (refused.code, refused.param) == ("unsupported", "tools")
    assert choose(facts(row, loads={"small": said}), needs=["json"]).option.model == row
    starting = [Load(name="small-1", ready=False, capabilities=["json"])]
    assert refuse(facts(row, loads={"small": starting}), needs=["tools"]).code == "unavailable"


def test_a_row_without_capabilities_leaves_them_to_its_workers() -> None:
    loads = {"small": [Load(name="small-1", capabilities=["json"])]}
    assert choose(facts(SMALL, loads=loads), needs=["json"]).option.model == SMALL
    assert refuse(facts(SMALL, loads=loads), needs=["tools"]).code == "unsupported"
    assert refuse(facts(SMALL, loads={"small": []}), needs=["json"]).code == "unavailable", "nobody has said a word yet"


def test_a_long_request_goes_where_it_fits() -> None:
    wide = model("wide", context_window=32_768, cost_per_1k_completion=9.0)
    assert choose(facts(SMALL, wide), prompt_tokens=3000, max_tokens=2000).option.model == wide
    assert choose(facts(SMALL, wide), prompt_tokens=3000, max_tokens=200).option.model == SMALL
    narrow = {"wide": [Load(name="wide-1", context_window=2048)]}
    assert choose(facts(wide, loads=narrow), prompt_tokens=1000).option.load.context_window == 2048
    assert refuse(facts(wide, loads=narrow), prompt_tokens=9000).code == "unavailable"


def test_a_history_that_can_be_cut_is_no_overflow() -> None:
    decided = choose(facts(SMALL), prompt_tokens=50_000, turns=30)
    assert "cut" in decided.reason
    assert decided.confidence < choose(facts(SMALL)).confidence


def test_the_reason_names_no_word_of_the_request() -> None:
    decided = choose(facts(SMALL, LARGE), "Explain why zebra-4711 is red?", latency_budget_ms=5)
    assert "zebra" not in decided.reason
    assert decided.reason.startswith("small is the fastest of 2")


CAPABILITIES = st.lists(st.sampled_from(["tools", "json", "vision"]), unique=True, max_size=2)
LOADS = st.builds(
    Load,
    name=st.sampled_from(["w1", "w2", "w3"]),
    ready=st.booleans(),
    full=st.booleans(),
    slots=st.integers(1, 4),
    in_flight=st.integers(0, 9),
    tokens=st.integers(0, 9000),
    cooling_ms=st.sampled_from([0.0, 0.0, 50.0, 90_000.0]),
    oldest_ms=st.floats(0, 9000),
    late_ms=st.floats(0, 9000),
    capabilities=CAPABILITIES,
    context_window=st.sampled_from([0, 512, 8192]),
)
LATENCIES = st.builds(
    lambda p50, more, measured: Latency(p50, p50 + more, 50, measured),
    st.floats(1, 5000),
    st.floats(0, 5000),
    st.booleans(),
)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    slugs = ["m1", "m2", "m3", "m4"][: draw(st.integers(1, 4))]
    models = [
        model(
            slug,
            quality=draw(st.floats(0, 1)),
            cost_per_1k_completion=draw(st.sampled_from([0.0, 1.0, 1.1, 5.0])),
            capabilities=draw(CAPABILITIES),
            context_window=draw(st.sampled_from([512, 4096, 32_768])),
        )
        for slug in slugs
    ]
    loads = {slug: draw(st.lists(LOADS, max_size=3, unique_by=lambda load: load.name)) for slug in slugs}
    return Snapshot(models=models, loads=loads, latencies={slug: draw(LATENCIES) for slug in slugs})


REQUESTS = st.builds(
    Route,
    text=st.sampled_from([EASY, HARD, "x" * 9000]),
    model=st.sampled_from(["auto", "auto", "m1", "nobody"]),
    needs=CAPABILITIES,
    prompt_tokens=st.integers(-5, 40_000),
    max_tokens=st.none() | st.integers(0, 5000),
    turns=st.integers(0, 9),
    latency_budget_ms=st.none() | st.floats(-1, 9000),
    exclude=st.lists(st.sampled_from(["w1", "w2"]), max_size=1),
)


@given(REQUESTS, snapshots(), st.text(max_size=5))
@settings(max_examples=300)
def test_what_never_happens(request: Route, snapshot: Snapshot, key: str) -> None:
    decided = decide(request, key, snapshot, POLICY)
    assert decided == decide(request, key, snapshot, POLICY)
    if isinstance(decided, Failure):
        assert decided.code in {"model_not_found", "unsupported", "context_overflow", "overloaded", "unavailable"}
        assert (decided.retry_after_ms is not None) == (decided.code in {"overloaded", "unavailable"})
        return
    chosen = decided.option
    assert chosen.load in snapshot.loads[chosen.model.slug]
    assert chosen.load.ready
    assert not chosen.load.full
    assert not chosen.load.cooling_ms
    assert chosen.load.name not in request.exclude
    assert set(request.needs) <= set(chosen.load.capabilities or chosen.model.capabilities)
    assert set(request.needs) <= set(chosen.model.capabilities or chosen.load.capabilities)
    assert window_of(chosen.model, chosen.load) >= least_tokens(request, POLICY)
    assert request.model in ("auto", chosen.model.name)
    assert 0 <= decided.confidence <= 1
    assert decided.reason.startswith(chosen.model.name)


@given(REQUESTS, snapshots(), st.floats(0, 9000), st.floats(0, 9000), st.text(max_size=5))
@settings(max_examples=300)
def test_a_lower_budget_never_means_a_slower_model(
    request: Route, snapshot: Snapshot, one: float, other: float, key: str
) -> None:
    def slow_ms(budget: float) -> float | None:
        plain = {name: getattr(request, name) for name in request.__struct_fields__}
        decided = decide(Route(**{**plain, "latency_budget_ms": budget}), key, snapshot, Settings(probe_share=0.5))
        return decided.option.slow_ms if isinstance(decided, Decision) else None

    less, more = slow_ms(min(one, other)), slow_ms(max(one, other))
    assert (less is None) == (more is None)
    assert less is None or more is None or less <= more


def test_an_unknown_model_is_answered_with_every_name_and_alias() -> None:
    failure = named("gpt-x", [model("small", aliases=["fast"]), model("large")])
    assert isinstance(failure, Failure)
    assert failure.detail.endswith("there are auto, small, fast, large")


def test_a_prompt_goes_where_its_beginning_is_unless_that_is_turned_off() -> None:
    loads = {"m": [Load(name=f"m-{number}", slots=4, in_flight=number) for number in range(3)]}
    snapshot = msgspec.structs.replace(facts(model("m"), loads=loads), cached={"m": {"m-2": 3000}})
    prefix = {"system": 100, "talk": 3000}
    chosen = choose(snapshot, prefix=prefix, prompt_tokens=3100).option
    assert (chosen.load.name, chosen.cached) == ("m-2", 3000)
    plain = choose(snapshot, prefix=prefix, prompt_tokens=3100, policy=Settings(affinity=False)).option
    assert (plain.load.name, plain.cached) == ("m-0", 0)
