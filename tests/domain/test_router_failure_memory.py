"""What a request has failed at is avoided by its retry, as long as there is something else."""

from hasten.messages.attempt import Attempted
from hasten.messages.route import Route
from hasten.router.failure_memory import KEPT_S, MOST, FailureMemory
from hasten.router.workers import Load

LOADS = {"big": [Load(name="b1"), Load(name="b2")], "small": [Load(name="s1")]}
RETRY = Route(text="hi", request_id="r1", exclude=["x"])


def attempted(
    outcome: str = "incomplete", request: str = "acme/r1", at_s: float = 100.0, worker: str = "b1"
) -> Attempted:
    at_ms = at_s * 1000
    return Attempted(source="o", seq=1, at_ms=at_ms, flight="f", worker=worker, outcome=outcome, request=request)


def excluded(memory: FailureMemory, tenant: str = "acme", unix_s: float = 101.0) -> list[list[str]]:
    return [route.exclude for route in memory.routes(RETRY, tenant, LOADS, unix_s)]


def test_a_retry_avoids_the_model_then_the_worker_then_nothing() -> None:
    memory = FailureMemory()
    memory.hear("big", attempted())
    assert excluded(memory) == [["x", "b1", "b2"], ["x", "b1"], ["x"]]


def test_another_tenants_request_of_that_id_is_another_request() -> None:
    memory = FailureMemory()
    memory.hear("big", attempted())
    assert excluded(memory, tenant="globex") == [["x"]]


def test_what_is_no_fault_of_the_worker_is_not_remembered() -> None:
    memory = FailureMemory()
    for outcome in ("done", "cancelled", "bad_request", "deadline"):
        memory.hear("big", attempted(outcome))
    memory.hear("big", attempted(request=""))
    assert excluded(memory) == [["x"]]


def test_all_that_a_request_failed_at_is_remembered_for_a_while() -> None:
    memory = FailureMemory()
    memory.hear("big", attempted(worker="b1"))
    memory.hear("small", attempted(worker="s1"))
    assert excluded(memory)[:2] == [["x", "b1", "b2", "s1"], ["x", "b1", "s1"]]
    assert excluded(memory, unix_s=100.0 + KEPT_S) == [["x"]]


def test_the_oldest_is_forgotten_for_a_new_one() -> None:
    memory = FailureMemory()
    for number in range(MOST + 1):
        memory.hear("big", attempted(request=f"acme/r{number + 1}"))
    assert excluded(memory) == [["x"]]
