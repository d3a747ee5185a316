"""What waits to be swept: each tag once however often it changed, and a whole table where too many of its rows did."""

from hypothesis import given
from hypothesis import strategies as st

from hasten.cache.pending import Pending
from hasten.changes import ALL, expanded


def test_a_burst_over_few_tags_is_coalesced_per_tag() -> None:
    pending = Pending()
    for sequence in range(1, 100_001):
        pending.add("*", f"prices:{sequence % 300}", sequence, 0.0)
    assert len(pending) == 300
    (taken,) = pending.take(1.0).values()
    assert [sequence for sequence, _ in taken] == list(range(99_701, 100_001))
    assert (len(pending), pending.take(1.0)) == (0, {})


def test_beyond_a_number_of_rows_the_whole_table_goes() -> None:
    pending = Pending(many=3)
    for sequence in range(1, 6):
        pending.add("a", f"prices:{sequence}", sequence, 0.0)
        pending.add("a", f"document:help/{sequence}", sequence, 0.0)
    pending.add("b", "prices:1", 9, 0.0)
    taken = pending.take(1.0)
    assert [change for change in taken["a"] if "prices" in change[1]] == [(5, "prices")]
    assert sum("document" in tag for _, tag in taken["a"]) == 5, "a collection is evicted by its own tag"
    assert taken["b"] == [(9, "prices:1")]


def test_what_is_not_due_stays_and_the_earliest_time_of_a_table_counts() -> None:
    pending = Pending()
    pending.add("a", "prices:1", 1, 5.0)
    pending.add("a", "stock:1", 2, 9.0)
    assert (pending.next_s(), pending.take(4.9)) == (5.0, {})
    pending.add("a", "prices:2", 3, 7.0)
    assert pending.take(5.0) == {"a": [(1, "prices:1"), (3, "prices:2")]}
    assert pending.next_s() == 9.0


def test_beyond_its_bound_it_gives_up_the_tables_that_have_waited_longest() -> None:
    pending = Pending(most=3)
    for sequence, tag in enumerate(["old:1", "old:2", "mid:1", "new:1"], start=1):
        pending.add("a", tag, sequence, 0.0)
    assert pending.take(1.0) == {"a": [(3, "mid:1"), (4, "new:1")]}


TAGS = st.sampled_from(["p:1", "p:2", "p:3", "p", "p:*", "q:1", ALL])


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), TAGS, st.integers(1, 50)), max_size=30), st.integers(1, 3))
def test_nothing_that_changed_is_left_out(changes: list[tuple[str, str, int]], many: int) -> None:
    """An entry with a changed tag is found by the tags that are swept, under its own or that of its table."""
    pending = Pending(many=many)
    for tenant, tag, sequence in changes:
        pending.add(tenant, tag, sequence, 0.0)
    taken = pending.take(1.0)
    for tenant, tag, sequence in changes:
        swept = {found: at for at, found in taken[tenant]}
        assert max(swept.get(form, 0) for form in expanded([tag])) >= sequence or tag == "p:*"
    assert len(pending) == 0
