"""What one request really cost."""

from typing import Any

import pytest

from hasten.gateway.allowance import Amount
from hasten.gateway.meter import Meter, Price, estimated_tokens
from hasten.messages.chat import Chunk, Done, Note, Usage

PRICES = {"small": Price(prompt=0.001, completion=0.002), "big": Price(prompt=0.01, completion=0.02)}
ROUTE = Note(kind="route", data={"model": "small"})
CHUNKS = [Chunk(seq=0, text="x" * 40), Chunk(seq=1, reasoning="y" * 40)]


def near(tokens: float, usd: float) -> Any:
    return pytest.approx((tokens, usd))


def both(amount: Amount) -> tuple[float, float]:
    return amount.tokens, amount.usd


def done(cache: Any = "miss", model: str = "small", **details: Any) -> Done:
    usage = Usage(prompt_tokens=1000, completion_tokens=500, completion_tokens_details=details or None)
    return Done(finish_reason="stop", usage=usage, model=model, cache=cache, chunks=2)


def used(*events: Any, meter: Meter | None = None) -> Amount:
    meter = meter or Meter(100)
    for event in events:
        meter.see(event)
    return meter.amount(PRICES)


def test_a_generated_answer_costs_its_tokens_by_the_model_that_answered() -> None:
    assert both(used(ROUTE, *CHUNKS, done())) == near(1500, 0.002)
    assert both(used(ROUTE, *CHUNKS, done(model="big"))) == near(1500, 0.02)
    assert used(ROUTE, done(model="of no table")) == Amount(tokens=1500)


@pytest.mark.parametrize("cache", ["exact", "semantic", "shared"])
def test_what_another_request_has_paid_for_costs_nothing(cache: str) -> None:
    hit = Note(kind="cache", data={"hit": cache})
    assert used(hit, *CHUNKS, done(cache)) == Amount()
    assert used(hit, ROUTE, *CHUNKS) == Amount(), "left before its end"


def test_a_draft_that_was_given_up_is_paid_for_as_well() -> None:
    draft = {"model": "small", "prompt_tokens": 1000, "completion_tokens": 100}
    found = used(ROUTE, *CHUNKS, done(model="big", cascade=draft))
    assert both(found) == near(2600, 0.02 + 0.0012)


def test_an_answer_that_is_left_costs_what_had_been_sent() -> None:
    assert both(used(ROUTE, *CHUNKS)) == near(120, 0.1 / 1000 + 0.04 / 1000)
    assert used() == Amount(), "nothing had begun"


def test_what_was_charged_for_the_beginning_is_not_charged_again() -> None:
    paid = used(ROUTE, *CHUNKS)
    rest = used(done(), meter=Meter(100, paid=paid))
    assert (rest + paid).usd == pytest.approx(used(ROUTE, *CHUNKS, done()).usd)
    assert (rest + paid).tokens == pytest.approx(1500)
    assert used(meter=Meter(100, paid=paid)) == Amount()


def test_an_estimate_counts_what_is_said_and_the_longest_answer_that_is_asked_for() -> None:
    said = {"messages": [{"role": "user", "content": "x" * 400}]}
    assert 100 <= estimated_tokens(said) <= 115
    assert estimated_tokens({**said, "max_tokens": 50}) == estimated_tokens(said) + 50
    assert estimated_tokens({**said, "max_tokens": 50, "n": 3}) == estimated_tokens(said) + 150
    assert estimated_tokens({"input": ["x" * 40, "y" * 40]}) >= 20


@pytest.mark.parametrize("absurd", [-(10**12), 0, -1, "many", None, [9], 1.5])
@pytest.mark.parametrize("name", ["max_completion_tokens", "max_tokens", "max_output_tokens", "n"])
def test_an_absurd_field_takes_nothing_off_what_is_expected(name: str, absurd: Any) -> None:
    body = {"messages": [{"role": "user", "content": "x" * 400}], "max_tokens": 50}
    assert estimated_tokens({**body, name: absurd}) >= 100
    assert estimated_tokens({**body, "max_output_tokens": absurd}) == estimated_tokens(body)


def test_more_than_there_can_be_is_no_more_than_that() -> None:
    assert estimated_tokens({"max_tokens": 10**18, "n": 10**18}) == 2**106
