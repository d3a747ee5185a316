"""What an orchestrator remembers of the cache's hits, and for how long."""

from hasten.messages.cache import Answer, CacheHit
from hasten.orchestrator.recent import Recent

HIT = CacheHit(kind="exact", entry_id="e1", answer=Answer(text="x"), age_s=10.0, lives_s=100.0)


def test_a_hit_ages_and_is_forgotten_after_its_time() -> None:
    recent = Recent(10, 5.0)
    recent.remember("a", "k", HIT, 0.0)
    found = recent.find("a", "k", None, 2.0)
    assert found is not None
    assert found.age_s == 12.0
    assert recent.find("a", "k", None, 5.1) is None


def test_it_never_outlives_the_entry() -> None:
    recent = Recent(10, 5.0)
    recent.remember("a", "k", CacheHit(kind="exact", entry_id="e", answer=Answer(text="x"), lives_s=1.0), 0.0)
    assert recent.find("a", "k", None, 0.9) is not None
    assert recent.find("a", "k", None, 1.1) is None


def test_age_limits_of_the_caller_hold() -> None:
    recent = Recent(10, 5.0)
    recent.remember("a", "k", HIT, 0.0)
    assert recent.find("a", "k", 11.0, 2.0) is None
    assert recent.find("a", "k", 0.0, 0.0) is None
    assert recent.find("a", "k", 13.0, 2.0) is not None


def test_tenants_are_apart_and_the_longest_unused_goes_first() -> None:
    recent = Recent(2, 5.0)
    recent.remember("a", "k", HIT, 0.0)
    assert recent.find("b", "k", None, 0.0) is None
    recent.remember("a", "l", HIT, 0.0)
    recent.find("a", "k", None, 0.0)
    recent.remember("a", "m", HIT, 0.0)
    assert recent.find("a", "l", None, 0.0) is None
    assert recent.find("a", "k", None, 0.0) is not None


def test_a_stored_answer_replaces_it() -> None:
    recent = Recent(2, 5.0)
    recent.remember("a", "k", HIT, 0.0)
    recent.forget("a", "k")
    assert recent.find("a", "k", None, 0.0) is None


def test_a_large_hit_is_not_remembered_nor_an_older_one_in_its_place() -> None:
    recent = Recent(10, 5.0)
    recent.remember("a", "k", HIT, 0.0)
    large = CacheHit(kind="exact", entry_id="e1", answer=Answer(text="", notes=[{"x": "y" * 100_000}]), lives_s=100.0)
    recent.remember("a", "k", large, 1.0)
    assert recent.find("a", "k", None, 1.0) is None
