"""What replicas share a generation by, and when an answer is made anew before its end."""

import pytest

from hasten.messages.cache import Answer, CacheHit
from hasten.messages.chat import ChatRequest, parse_chat
from hasten.orchestrator.domain import LOW_PRIORITY, lease_key, plan_of, refresh_due, refreshing


def request(**fields: object) -> ChatRequest:
    return parse_chat({"messages": [{"role": "user", "content": "Explain tides"}], **fields})


def key(tenant: str = "acme", epoch: str = "2026", **fields: object) -> str:
    return lease_key(tenant, plan_of(request(**fields)), epoch)


def test_a_lease_is_for_one_tenant_one_request_and_one_stream_of_changes() -> None:
    others = [
        key(tenant="globex"),
        key(epoch="2027"),
        key(seed=1),
        key(cache={"tags": ["a"]}),
        key(cache={"mode": "exact"}),
        key(cache={"max_age_s": 5}),
        key(cache={"store": False}),
        key(user="u1", cache={"scope": "user"}),
        key(explain=True),
    ]
    assert key() == key(deadline_ms=5, priority=3, user="u1")
    assert len({key(), *others}) == len(others) + 1
    assert set(key()) <= set("0123456789abcdef")


def hit(**fields: object) -> CacheHit:
    made: dict[str, object] = {"kind": "exact", "age_s": 3600.0, "lives_s": 30.0, **fields}
    return CacheHit(entry_id="e1", answer=Answer(text="x"), **made)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "refresh_s", "due"),
    [
        (hit(), 60, True),
        (hit(lives_s=61.0), 60, False),
        (hit(), 0, False),
        (hit(kind="semantic"), 60, False),
        (hit(age_s=80.0, lives_s=20.0), 60, False),
        (hit(age_s=91.0, lives_s=9.0), 60, True),
        (hit(age_s=4000.0, lives_s=0.0, stale=True), 0, True),
        (hit(age_s=0.0, lives_s=0.0), 60, False),
    ],
)
def test_an_answer_is_made_anew_at_the_end_of_its_life(found: CacheHit, refresh_s: float, due: bool) -> None:
    assert refresh_due(found, refresh_s) == due


def test_a_refresh_reads_nothing_and_is_joined_by_later_askers() -> None:
    asked = request(cache={"max_age_s": 60, "max_distance": 0.1, "tags": ["a"]}, deadline_ms=50, priority=5)
    anew, plan = refreshing(asked)
    assert (plan.read_exact, plan.read_semantic, plan.share, plan.store) == (False, False, True, True)
    assert plan.flight == plan_of(request(cache={"tags": ["a"]})).flight
    assert (anew.priority, anew.deadline_ms, anew.cache.max_age_s) == (LOW_PRIORITY, None, None)
    assert plan.embeds, "what is stored is to be found by meaning as well"
