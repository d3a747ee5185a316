"""Which worker has a prompt's beginning, and when it is worth sending the prompt there."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hasten.messages.generate import Status
from hasten.router.affinity import Prefixes, anchor
from hasten.router.workers import Balance, Load, Usual, Work, Workers, best
from hasten.worker.speed import Speed

USUAL = Usual(answer_ms=2000, token_ms=0.5, p95_ms=500)
MANY = 1_000_000
FIRST = {"system": 100, "one": 300}
SECOND = {**FIRST, "answer": 700, "two": 900}


def choose(loads: list[Load], cached: dict[str, int], tokens: int = 1000, key: str = "k") -> str:
    chosen = best(loads, Work(key=key, tokens=tokens, cached=cached), USUAL, Balance())
    assert chosen is not None
    return chosen.name


def test_the_longest_beginning_that_a_worker_has_counts() -> None:
    prefixes = Prefixes()
    prefixes.placed("w1", FIRST, MANY)
    prefixes.placed("w2", SECOND, MANY)
    prefixes.placed("w3", {"other": 50}, MANY)
    assert prefixes.cached({**SECOND, "answer2": 1000}) == {"w1": 300, "w2": 900}
    assert prefixes.cached({"system": 100, "else": 500}) == {"w1": 100, "w2": 100}
    assert prefixes.cached({"new": 10}) == {}


def test_a_worker_forgets_the_ends_of_what_was_used_least() -> None:
    prefixes = Prefixes()
    prefixes.placed("w", {"a1": 40, "a2": 80}, 120)
    prefixes.placed("w", {"b1": 40, "b2": 80}, 120)
    assert prefixes.cached({"a1": 40, "a2": 80}) == {"w": 40}
    assert prefixes.cached({"b1": 40, "b2": 80}) == {"w": 80}
    prefixes.placed("w", {"a1": 40}, 120)
    prefixes.placed("w", {"c1": 40}, 120)
    assert prefixes.cached({"a1": 40}) == {"w": 40}, "it was used again"
    assert prefixes.cached({"b1": 40, "b2": 80}) == {"w": 40}


def test_a_worker_that_keeps_nothing_has_nothing() -> None:
    prefixes = Prefixes()
    prefixes.placed("w", SECOND, 0)
    assert prefixes.cached(SECOND) == {}


@given(st.lists(st.tuples(st.sampled_from("vw"), st.text("ab", min_size=1, max_size=6)), max_size=80))
def test_what_is_remembered_is_bounded_and_what_is_forgotten_is_gone(placed: list[tuple[str, str]]) -> None:
    """Prompts are words; each beginning of a word has ten tokens for each letter."""
    prefixes, most = Prefixes(), 100
    for worker, word in placed:
        prefix = {word[:end]: 10 * end for end in range(1, len(word) + 1)}
        prefixes.placed(worker, prefix, most)
        assert prefixes.cached(prefix)[worker] == 10 * len(word)
        assert all(sum(kept.values()) == prefixes._tokens[who] <= most for who, kept in prefixes._kept.items())
    for worker in "vw":
        prefixes.forget(worker)
    assert (prefixes._where, prefixes._kept, prefixes._tokens) == ({}, {}, {})


def test_a_conversation_is_known_by_its_first_turn_however_long_it_has_become() -> None:
    assert anchor(FIRST) == anchor(SECOND) == "one"
    assert (anchor({"only": 3}), anchor({})) == ("only", "")


def test_a_worker_started_anew_has_an_empty_cache_and_one_that_was_silent_keeps_it() -> None:
    def status(seq: int, started: int) -> Status:
        return Status(seq=seq, started_ms=started, state="ready", engine="sim", model="m", cache_tokens=MANY)

    workers = Workers()
    workers.hear("m", "w", status(1, 1), 0.0)
    workers.sent("m", "w", 900, 0.0, SECOND)
    workers.hear("m", "w", status(20, 1), 9.0)
    assert workers.cached("m", SECOND) == {"w": 900}
    workers.hear("m", "w", status(1, 2), 9.1)
    assert workers.cached("m", SECOND) == {}


def test_a_prompt_goes_where_its_beginning_is_as_long_as_waiting_is_shorter_than_computing() -> None:
    free = Load(name="free", slots=4)
    for in_flight, expected in ((1, "has"), (4, "has"), (9, "free")):
        has = Load(name="has", slots=4, in_flight=in_flight)
        assert choose([free, has], {"has": 4000}, tokens=5000) == expected, in_flight
    has = Load(name="has", slots=4, in_flight=4)
    assert choose([free, has], {"has": 400}, tokens=5000) == "free", "little is saved there"


def test_no_worker_is_overrun_by_a_beginning_that_all_share() -> None:
    """One system prompt for everybody: the others get their part, and have it in their caches from then on."""
    workers, prefix = Workers(), {"system": 2000}
    names = [f"w{number}" for number in range(4)]
    for name in names:
        status = Status(seq=1, started_ms=1, state="ready", engine="sim", model="m", slots=4, cache_tokens=MANY)
        workers.hear("m", name, status, 0.0)
    counts: Counter[str] = Counter()
    for number in range(64):
        name = choose(workers.loads("m", 0.0), workers.cached("m", prefix), tokens=2100, key=str(number))
        workers.sent("m", name, 2100 - workers.cached("m", prefix).get(name, 0), 0.0, prefix)
        counts[name] += 1
    assert set(counts) == set(names)
    assert max(counts.values()) <= 1.5 * 64 / 4


def test_a_slower_worker_is_chosen_only_when_the_faster_ones_are_busy() -> None:
    slow = Load(name="slow", slots=4, token_ms=2.0, answer_ms=8000)
    for in_flight, expected in ((0, "fast"), (3, "fast"), (8, "slow")):
        fast = Load(name="fast", slots=4, in_flight=in_flight, token_ms=0.5, answer_ms=2000)
        assert choose([slow, fast], {}) == expected, in_flight


def test_a_worker_that_hangs_loses_even_what_it_has_in_its_cache() -> None:
    """How long the oldest has waited is known before any request ends."""
    hangs, other = Load(name="hangs", slots=8, in_flight=1, late_ms=3000), Load(name="other", slots=8, in_flight=7)
    assert choose([hangs, other], {"hangs": 900}) == "other"


def test_a_long_prompt_is_no_hang() -> None:
    """It is the oldest without a token for a long time, and its worker keeps its conversations."""
    has = Load(name="has", slots=8, in_flight=1, oldest_ms=30_000, late_ms=400)
    assert choose([has, Load(name="other", slots=8)], {"has": 900}) == "has"


def test_the_order_of_the_workers_does_not_matter() -> None:
    loads = [Load(name=f"w{number}", slots=4, token_ms=0.5 + number / 1000) for number in range(5)]
    chosen = [choose(loads, {}, key=str(number)) for number in range(200)]
    assert chosen == [choose(loads[::-1], {}, key=str(number)) for number in range(200)]
    assert min(Counter(chosen).values()) > 20, "workers that are nearly as fast as the fastest get their part"


def test_speed_is_of_what_was_computed_and_claims_nothing_at_first() -> None:
    speed = Speed()
    assert (speed.token_ms, speed.answer_ms) == (0.0, 0.0)
    speed.finished(0.0, 0, 400.0)
    assert (speed.token_ms, speed.answer_ms) == (0.0, 400.0)
    assert speed.first_ms(1000) == 5000, "a guess on the long side"
    for _ in range(2):
        speed.finished(100.0, 1000, 600.0)
        speed.finished(10.0, 100, 200.0)
    assert round(speed.token_ms, 6) == 0.1
    assert round(speed.first_ms(1000), 3) == 100
    for _ in range(400):
        speed.finished(400.0, 1000, 600.0)
    assert round(speed.token_ms, 3) == 0.4, "the past fades"


def test_a_worker_that_begins_to_hang_loses_its_share_within_seconds() -> None:
    """50 requests a second, two workers that are nearly equally fast, and one of them hangs after 5 s."""
    usual = Usual(answer_ms=100, token_ms=0.5, p95_ms=300)
    workers, busy, sent = Workers(), {"a": dict[int, float](), "b": dict[int, float]()}, Counter[tuple[str, int]]()
    ends = {"a": 0.2, "b": 0.22}
    for tick in range(1000):
        now = tick / 100
        for name, running in busy.items():
            over = [at for at, began in running.items() if now - began >= ends[name] and (name == "b" or began < 4.8)]
            for at in over:
                del running[at]
        if tick % 25 == 0:
            for name, running in busy.items():
                late_ms = max(0.0, 1000 * (now - min(running.values(), default=now) - ends[name]))
                fields: dict[str, Any] = {
                    "slots": 16,
                    "active": min(16, len(running)),
                    "queued": max(0, len(running) - 16),
                }
                status = Status(
                    seq=tick, started_ms=1, state="ready", engine="sim", model="m", late_ms=late_ms, **fields
                )
                workers.hear("m", name, status, now)
        if tick % 2 == 0:
            chosen = best(workers.loads("m", now), Work(key=str(tick), tokens=100), usual, Balance())
            assert chosen is not None
            workers.sent("m", chosen.name, 100, now)
            busy[chosen.name][tick] = now
            sent[chosen.name, int(now)] += 1
    assert 0.3 < sum(sent["a", second] for second in range(5)) / 250 < 0.7, "near-equals are spread"
    assert all(sent["a", second] == 0 for second in (7, 8, 9)), "what hangs gets nothing after two seconds"
