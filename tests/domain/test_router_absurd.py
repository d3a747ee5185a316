"""What no sound service says must neither fill a router's memory nor make its decisions fail."""

import pytest

from hasten.messages.attempt import Sent
from hasten.messages.failure import Failure
from hasten.messages.generate import Status
from hasten.messages.route import Route
from hasten.models import ModelTable, model_table
from hasten.router.affinity import KEPT, MARKS, Prefixes, own
from hasten.router.decision import Decision, decide
from hasten.router.knowledge import Knowledge, plausible
from hasten.router.settings import Settings

MOST = 1000
ABSURD = [-1, -(10**400), 10**400, 2**63]


def status(**fields: object) -> Status:
    plain = {"seq": 1, "started_ms": 1, "state": "ready", "engine": "sim", "model": "a", "slots": 4, **fields}
    return Status(**plain)  # type: ignore[arg-type]


def knowing() -> Knowledge:
    return Knowledge(ModelTable(model_table({"models": [{"name": "a"}]})), Settings())


def choice(knowledge: Knowledge, **fields: object) -> Decision | Failure:
    request = plausible(Route(text="What does it cost?", **fields))  # type: ignore[arg-type]
    return decide(request, "r", knowledge.snapshot(1.0, 1.0), Settings())


@pytest.mark.parametrize("number", [*ABSURD, -1e308, 1e308])
@pytest.mark.parametrize(
    "field", ["slots", "active", "queued_tokens", "answer_ms", "token_ms", "late_ms", "cache_tokens"]
)
def test_an_absurd_status_leaves_the_other_worker_to_ask(field: str, number: float) -> None:
    knowledge = knowing()
    given = number if field.endswith("_ms") else int(number)
    knowledge.status("a", "mad", status(**{field: given}), 1.0)
    knowledge.status("a", "sound", status(), 1.0)
    assert isinstance(choice(knowledge, exclude=["mad"]), Decision)
    assert isinstance(choice(knowledge), Decision)


@pytest.mark.parametrize("number", ABSURD)
def test_an_absurd_request_does_no_harm_to_the_next(number: int) -> None:
    knowledge = knowing()
    knowledge.status("a", "w", status(), 1.0)
    choice(knowledge, prompt_tokens=number, max_tokens=number, turns=2)
    for seq in (1, 2**62):
        event = Sent(source="r", seq=seq, flight="f", tokens=number, prefix={"m": number})
        assert (knowledge.sent("a", "w", event, 1.0) or 0) < 2**53
    assert isinstance(choice(knowledge), Decision)


def test_models_that_nobody_knows_and_workers_without_number_are_bounded() -> None:
    knowledge = knowing()
    for at in range(2 * MOST):
        knowledge.status(f"unknown-{at}", "w", status(), 1.0)
        knowledge.sent(f"unknown-{at}", "w", Sent(source="r", seq=at, flight=f"f{at}", probe=True), 1.0)
        knowledge.status("a", f"w{at}", status(), 1.0)
    held = knowledge._workers._known
    assert len(held) <= MOST + 1
    assert len(held["a"]) == MOST
    assert len(knowledge._probes._begun) == 0
    assert isinstance(choice(knowledge), Decision)


def test_workers_that_have_left_make_room() -> None:
    knowledge = knowing()
    for at in range(MOST):
        knowledge.status("a", f"w{at}", status(), 1.0)
    knowledge.status("a", "late", status(), 1000.0)
    assert list(knowledge._workers._known["a"]) == ["late"]


def test_a_tenant_cannot_name_the_prefix_of_another() -> None:
    """Whoever guesses a prompt can compute its hash; the choice of the worker must not tell whether it was asked."""
    prefix = {"m1": 500, "m2": 9000}
    held = Prefixes()
    held.placed("w", own("acme", prefix), 10_000)
    assert held.cached(own("acme", prefix)) == {"w": 9000}
    assert held.cached(own("globex", prefix)) == {}
    assert held.cached(own("globex", own("acme", prefix))) == {}


def test_a_prefix_is_of_bounded_size_and_so_is_what_is_remembered() -> None:
    made = own("acme", {**{f"m{at}": at for at in range(10 * MARKS)}, "x" * 1000: 5, "last": -(10**400)})
    assert len(made) == MARKS
    assert min(made.values()) == 0
    held = Prefixes()
    for at in range(0, KEPT + 1000, 1000):
        held.placed("w", {f"m{at + more}": 0 for more in range(1000)}, 10)
    assert len(held._kept["w"]) <= KEPT
