"""The circuit breaker as a table of transitions, and what holds whatever comes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.messages.failure import CODES
from hasten.router.breaker import Breaker, BreakerPolicy
from hasten.router.window import FAULTS

POLICY = BreakerPolicy(failures=3, rate=0.5, half_life_s=1000, open_s=2, most_s=10, probes=1, probe_s=5)
Step = tuple[float, str]
"""A time, and what happens then: a result, or `sent`."""
FAILS: list[Step] = [(0.0, "upstream")] * 3


def after(steps: list[Step], policy: BreakerPolicy = POLICY) -> Breaker:
    breaker = Breaker(policy)
    for at, what in steps:
        if what == "sent":
            breaker.sent(at)
        else:
            breaker.record(what, at)
    return breaker


TRANSITIONS: list[tuple[str, list[Step], float, str, bool]] = [
    ("nothing heard", [], 0.0, "closed", True),
    ("two failures are chance", FAILS[:2], 0.0, "closed", True),
    ("three open it", FAILS, 0.0, "open", False),
    ("among many successes they do not", [(0.0, "done")] * 4 + FAILS, 0.0, "closed", True),
    ("open until its time has passed", FAILS, 1.99, "open", False),
    ("then half open", FAILS, 2.0, "half_open", True),
    ("one probe at a time", [*FAILS, (2.0, "sent")], 2.1, "half_open", False),
    ("a good probe closes it", [*FAILS, (2.0, "sent"), (2.5, "done")], 2.5, "closed", True),
    ("and the past is forgotten", [*FAILS, (2.0, "sent"), (2.5, "done"), *FAILS[:2]], 2.6, "closed", True),
    ("a bad one opens it again", [*FAILS, (2.0, "sent"), (2.5, "incomplete")], 2.6, "open", False),
    ("for twice as long", [*FAILS, (2.0, "sent"), (2.5, "incomplete")], 6.4, "open", False),
    ("and no longer", [*FAILS, (2.0, "sent"), (2.5, "incomplete")], 6.5, "half_open", True),
    ("an unheard probe is given up", [*FAILS, (2.0, "sent")], 7.0, "half_open", True),
    ("a refused probe makes room", [*FAILS, (2.0, "sent"), (2.5, "overloaded")], 2.5, "half_open", True),
    ("a late failure changes nothing", [*FAILS, (1.9, "upstream")], 2.0, "half_open", True),
    ("nor does a late success", [*FAILS, (1.0, "done")], 1.1, "open", False),
]


@pytest.mark.parametrize(("steps", "at", "state", "allows"), [row[1:] for row in TRANSITIONS], ids=[
    row[0] for row in TRANSITIONS
])  # fmt: skip
def test_transitions(steps: list[Step], at: float, state: str, allows: bool) -> None:
    breaker = after(steps)
    assert (breaker.state(at), breaker.allows(at)) == (state, allows)


@pytest.mark.parametrize("code", sorted(set(CODES) - FAULTS))
def test_overload_and_refusals_are_no_failures(code: str) -> None:
    breaker = after([(0.0, code)] * 100)
    assert breaker.state(0.0) == "closed"
    breaker.record("upstream", 0.0)
    breaker.record("upstream", 0.0)
    assert breaker.state(0.0) == "closed"
    breaker.record("upstream", 0.0)
    assert breaker.state(0.0) == "open", "nor do they count as successes"


def test_the_wait_doubles_up_to_its_limit_and_starts_anew_once_closed() -> None:
    breaker, now, waits = after(FAILS), 0.0, []
    for _ in range(5):
        waits.append(breaker.closed_in_s(now))
        now += waits[-1]
        breaker.sent(now)
        breaker.record("upstream", now)
    assert waits == [2, 4, 8, 10, 10]
    now += breaker.closed_in_s(now)
    breaker.record("done", now)
    for _ in range(3):
        breaker.record("upstream", now)
    assert breaker.closed_in_s(now) == 2


def test_failures_fade_so_that_one_in_a_while_never_opens_it() -> None:
    policy = BreakerPolicy(half_life_s=10)
    breaker = after([(30.0 * number, "upstream") for number in range(100)], policy)
    assert breaker.state(3000) == "closed"


@given(st.lists(st.tuples(st.floats(0, 5), st.sampled_from(["done", "upstream", "overloaded", "sent"])), max_size=60))
def test_it_never_stays_shut(steps: list[Step]) -> None:
    """Whatever has come, a request may be sent after the longest wait: nothing is shut out for ever."""
    breaker, now = Breaker(POLICY), 0.0
    for pause, what in steps:
        now += pause
        breaker.sent(now) if what == "sent" else breaker.record(what, now)
        assert breaker.closed_in_s(now) <= POLICY.most_s
        assert breaker.allows(now) == (breaker.closed_in_s(now) == 0) or breaker.state(now) == "half_open"
    assert breaker.allows(now + POLICY.most_s)
