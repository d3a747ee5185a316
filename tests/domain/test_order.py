"""The order of a line: fair between tenants whatever they send, by priority within one, nobody starved."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hasten.order import AGEING_S, MOST_PRIORITY, REMEMBERED, Order, Waiter, due_of

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _served(order: Order, count: int) -> list[Waiter]:
    return [one for _ in range(count) if (one := order.next()) is not None]


def _fill(order: Order, tenant: str, costs: list[float], since: float = 0.0) -> list[Waiter]:
    made = [Waiter(tenant, cost, since + at * 1e-6) for at, cost in enumerate(costs)]
    for one in made:
        order.add(one)
    return made


def test_five_hundred_of_one_tenant_are_no_delay_for_the_first_of_another() -> None:
    order = Order()
    _fill(order, "greedy", [1.0] * 500)
    _served(order, 10)
    _fill(order, "modest", [1.0], since=100.0)
    assert [one.tenant for one in _served(order, 2)].index("modest") <= 1


def test_turns_are_by_work_and_not_by_requests() -> None:
    order = Order()
    _fill(order, "long", [21_000.0] * 20)
    _fill(order, "short", [2_500.0] * 200)
    served = _served(order, 90)
    work = {name: sum(one.cost for one in served if one.tenant == name) for name in ("long", "short")}
    assert abs(work["long"] - work["short"]) <= 21_000.0


def test_priority_is_for_a_tenants_own() -> None:
    order = Order()
    for name, priority in (("plain", 0), ("pushy", 10)):
        for at in range(50):
            order.add(Waiter(name, 1.0, due_of(float(at), priority)))
    served = [one.tenant for one in _served(order, 40)]
    assert served.count("plain") == served.count("pushy") == 20


def test_higher_priority_first_and_then_by_arrival() -> None:
    order = Order()
    for at, (name, priority) in enumerate((("low", -1), ("a", 0), ("b", 0), ("high", 1))):
        order.add(Waiter("acme", 1.0, due_of(at * 0.001, priority), name))
    assert [one.what for one in _served(order, 4)] == ["high", "a", "b", "low"]


def test_what_is_low_is_served_some_day_however_many_come_after_it() -> None:
    order = Order()
    low = Waiter("acme", 1.0, due_of(0.0, -10_000))
    order.add(low)
    at = 0.0
    while True:
        at += 0.5
        order.add(Waiter("acme", 1.0, due_of(at, 10_000)))
        if order.next() is low:
            break
        assert at <= 2 * MOST_PRIORITY * AGEING_S + 1
    assert at >= AGEING_S, "its priority did count"


def test_a_tenant_that_comes_back_has_no_credit_for_its_absence() -> None:
    order = Order()
    _fill(order, "steady", [1.0] * 100)
    _served(order, 50)
    _fill(order, "back", [1.0] * 100)
    served = [one.tenant for one in _served(order, 40)]
    assert abs(served.count("back") - 20) <= 1


def test_who_asks_one_by_one_pays_for_what_it_had() -> None:
    order = Order()
    _fill(order, "many", [1.0] * 100)
    work = {"many": 0.0, "single": 0.0}
    for _ in range(60):
        if not order.waiting("single"):
            _fill(order, "single", [10.0])
        (one,) = _served(order, 1)
        work[one.tenant] += one.cost
    assert abs(work["many"] - work["single"]) <= 11.0


def test_work_that_turns_out_longer_counts_for_the_next_turn() -> None:
    order = Order()
    _fill(order, "liar", [1.0] * 50)
    _fill(order, "honest", [10.0] * 50)
    work = {"liar": 0.0, "honest": 0.0}
    for _ in range(60):
        (one,) = _served(order, 1)
        work[one.tenant] += 10.0
        order.settle(one.tenant, 10.0 - one.cost)
    assert abs(work["liar"] - work["honest"]) <= 10.0


def test_tenants_that_have_gone_are_forgotten() -> None:
    order = Order()
    _fill(order, "stays", [1.0] * 10_000)
    for at in range(3 * REMEMBERED):
        _fill(order, f"t{at}", [5.0])
        _served(order, 2)
    assert len(order._away) <= REMEMBERED


@PATIENT
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.floats(0.1, 50.0), st.integers(-3, 3)), max_size=60), st.data())
def test_everybody_is_served_once_or_has_left(arrivals: list[tuple[str, float, int]], data: st.DataObject) -> None:
    order = Order()
    there: list[Waiter] = []
    served: list[Waiter] = []
    left: list[Waiter] = []
    for at, (tenant, cost, priority) in enumerate(arrivals):
        one = Waiter(tenant, cost, due_of(float(at), priority))
        there.append(one)
        order.add(one)
        what = data.draw(st.integers(0, 3))
        if what == 0:
            served += _served(order, 1)
        elif what == 1:
            left.append(data.draw(st.sampled_from(there)))
            order.remove(left[-1])
        elif what == 2:
            order.settle(data.draw(st.sampled_from("abcd")), data.draw(st.floats(-60.0, 60.0)))
        assert len(order) == len(order.waiters)
    served += _served(order, len(order))
    assert order.next() is None
    assert len(set(map(id, served))) == len(served)
    assert {id(one) for one in there} == {id(one) for one in served} | {id(one) for one in left}


@PATIENT
@given(
    st.lists(st.lists(st.floats(0.5, 20.0), min_size=40, max_size=40), min_size=2, max_size=4),
    st.integers(1, 60),
)
def test_no_tenant_in_line_is_ahead_of_another_by_more_than_two_requests(costs: list[list[float]], count: int) -> None:
    """The bound of start-time fair queueing: the work of two that both wait differs by their longest at most."""
    order = Order()
    for at, own in enumerate(costs):
        _fill(order, f"t{at}", own)
    work = dict.fromkeys((f"t{at}" for at in range(len(costs))), 0.0)
    for one in _served(order, count):
        work[one.tenant] += one.cost
        if not all(order.waiting(name) for name in work):
            break
        assert max(work.values()) - min(work.values()) <= 20.0 + 1e-6


@pytest.mark.parametrize("seed", range(20))
def test_the_work_ahead_is_what_is_served_before_a_newcomer(seed: int) -> None:
    chance, order = random.Random(seed), Order()
    for at in range(chance.randrange(60)):
        order.add(Waiter(chance.choice("abc"), chance.uniform(1, 20), due_of(at * 0.01, chance.randrange(-2, 3))))
        if chance.random() < 0.3:
            order.next()
    tenant, due = chance.choice("abcd"), due_of(1.0, chance.randrange(-2, 3))
    said = order.ahead(tenant, due)
    newcomer = Waiter(tenant, 5.0, due)
    order.add(newcomer)
    before = 0.0
    while (one := order.next()) is not newcomer:
        assert one is not None
        before += one.cost
    assert before == pytest.approx(said, abs=20.0 * 3), "up to a tie of each other tenant"
