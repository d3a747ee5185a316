"""Workers are known by their latest word, are gone when silent, and share the work by how much of it there is."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hasten.messages.generate import Status
from hasten.router.workers import Balance, Load, Usual, Work, Workers, best, draw

USUAL = Usual(answer_ms=2000, token_ms=0.5, p95_ms=500)


def choose(loads: list[Load], key: str, tokens: int = 0, cached: dict[str, int] | None = None) -> Load | None:
    return best(loads, Work(key=key, tokens=tokens, cached=cached or {}), USUAL, Balance())


def status(seq: int = 1, *, started: int = 1, **fields: Any) -> Status:
    plain = {"state": "ready", "engine": "sim", "model": "m", "slots": 4, "queue_limit": 8, **fields}
    return Status(seq=seq, started_ms=started, **plain)


def names(workers: Workers, now: float) -> list[str]:
    return [load.name for load in workers.loads("m", now)]


def test_a_silent_worker_is_gone_and_comes_back_with_its_next_word() -> None:
    workers = Workers()
    workers.hear("m", "w", status(1), 0.0)
    assert names(workers, 1.9) == ["w"]
    assert names(workers, 2.1) == []
    workers.hear("m", "w", status(9), 5.0)
    assert names(workers, 5.0) == ["w"]


def test_only_ready_workers_take_requests() -> None:
    for state in ("starting", "draining", "down"):
        workers = Workers()
        workers.hear("m", "w", status(state=state), 0.0)
        assert [load.ready for load in workers.loads("m", 0.0)] == [False]


def test_a_status_that_was_overtaken_is_ignored() -> None:
    workers = Workers()
    workers.hear("m", "w", status(5, active=3), 0.0)
    workers.hear("m", "w", status(4, active=1), 0.1)
    assert workers.loads("m", 0.1)[0].in_flight == 3


def test_a_gap_is_counted_and_a_restart_is_none() -> None:
    workers = Workers()
    workers.hear("m", "w", status(1), 0.0)
    assert workers.hear("m", "w", status(4), 0.1) == 2
    assert workers.hear("m", "w", status(1, started=2), 0.2) == 0
    assert workers.hear("m", "w", status(99, started=1), 0.3) == 0
    assert workers.loads("m", 0.3)[0].in_flight == 0


def test_a_worker_whose_clock_went_back_is_heard_after_it_was_gone() -> None:
    workers = Workers()
    workers.hear("m", "w", status(100, started=1000), 0.0)
    workers.hear("m", "w", status(1, started=500, active=2), 3.0)
    assert workers.loads("m", 3.0)[0].in_flight == 2


def test_what_was_routed_since_the_last_status_counts_until_the_next() -> None:
    workers = Workers()
    workers.hear("m", "w", status(1), 0.0)
    workers.sent("m", "w", 700, 0.1)
    workers.sent("m", "w", 300, 0.24)
    load = workers.loads("m", 0.24)[0]
    assert (load.in_flight, load.tokens) == (2, 1000)
    workers.hear("m", "w", status(2, active=1), 0.25)
    load = workers.loads("m", 0.25)[0]
    assert (load.in_flight, load.tokens) == (2, 300), "the second may still be on its way"
    workers.finished("m", "w")
    assert workers.loads("m", 0.25)[0].in_flight == 1


def test_full_goes_by_the_workers_own_word() -> None:
    workers = Workers()
    workers.hear("m", "w", status(1, slots=2, queue_limit=3, active=2, queued=2), 0.0)
    workers.sent("m", "w", 1, 0.0)
    assert not workers.loads("m", 0.0)[0].full
    workers.hear("m", "w", status(2, slots=2, queue_limit=3, active=2, queued=3), 0.1)
    assert workers.loads("m", 0.1)[0].full


def test_workers_that_left_long_ago_are_forgotten() -> None:
    workers = Workers()
    for number in range(50):
        workers.hear("m", f"w{number}", status(), float(number * 100))
    assert len(workers._known["m"]) <= 3


def test_a_free_slot_means_no_wait_and_a_queue_its_work() -> None:
    assert Load(name="w", slots=4, in_flight=3, tokens=0).wait_ms(USUAL) == 0
    assert Load(name="w", slots=4, in_flight=4, tokens=0).wait_ms(USUAL) == 500
    assert Load(name="w", slots=4, in_flight=7, tokens=4000).wait_ms(USUAL) == 2500


def test_a_pause_runs_out_while_nothing_more_is_heard() -> None:
    workers = Workers()
    workers.hear("m", "w", status(pause_ms=1500.0), 10.0)
    assert [load.cooling_ms for at in (10.0, 11.0, 11.9) for load in workers.loads("m", at)] == [1500.0, 500.0, 0.0]


def test_long_prompts_go_to_different_workers() -> None:
    """Equal counts would put both of 21,000 tokens on one worker."""
    for key in "abcdefgh":
        workers, where = Workers(), {}
        for name in ("w1", "w2"):
            workers.hear("m", name, status(), 0.0)
        for number, tokens in enumerate((21_000, 21_000, 2_500, 2_500)):
            chosen = choose(workers.loads("m", 0.0), f"{key}{number}", tokens)
            assert chosen is not None
            workers.sent("m", chosen.name, tokens, 0.0)
            where[number] = chosen.name
        assert where[0] != where[1]
        assert where[2] != where[3]


def test_a_hanging_worker_gets_no_more_while_another_works() -> None:
    hangs, busy = Load(name="hangs", slots=8, in_flight=1, late_ms=9000), Load(name="busy", slots=8, in_flight=7)
    chosen = choose([hangs, busy], "k")
    assert chosen is not None
    assert chosen.name == "busy"


def test_equals_are_spread_evenly_and_always_alike() -> None:
    loads = [Load(name=f"w{number}", slots=4) for number in range(4)]
    chosen = [choose(loads, str(number)) for number in range(400)]
    again = [choose(loads[::-1], str(number)) for number in range(400)]
    assert chosen == again
    counts = [sum(one == load for one in chosen) for load in loads]
    assert min(counts) > 60


@given(st.lists(st.text(max_size=20), min_size=1, max_size=3))
def test_a_draw_is_a_fraction_that_depends_on_all_parts(parts: list[str]) -> None:
    assert 0 <= draw(*parts) < 1
    assert draw(*parts) == draw(*parts)
    assert draw(*parts) != draw(*parts, "more")
