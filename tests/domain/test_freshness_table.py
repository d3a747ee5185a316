"""The tag table: exact about what it knows, and never fresher than what it has forgotten."""

from hypothesis import given
from hypothesis import strategies as st

from hasten.changes import ALL, EVERYBODY, expanded
from hasten.tag_table import TagTable


def test_a_change_makes_older_answers_stale_and_newer_ones_not() -> None:
    table = TagTable()
    table.change("a", "prices:7", 5)
    assert not table.fresh("a", ["prices:7"], 4)
    assert table.fresh("a", ["prices:7"], 5)
    assert table.fresh("a", ["prices:8"], 4)
    assert table.fresh("b", ["prices:7"], 4), "another tenant's change"


def test_a_whole_table_and_everything_reach_every_row() -> None:
    table = TagTable()
    table.change(EVERYBODY, "prices", 5)
    assert not table.fresh("a", ["prices:7"], 4)
    assert table.fresh("a", ["pricesx:7", "x"], 4)
    table.change("a", ALL, 9)
    assert not table.fresh("a", [], 8)
    assert table.fresh("b", [], 8)


def test_what_was_forgotten_is_not_fresh() -> None:
    table = TagTable(limit=2)
    for sequence, tag in enumerate(["a", "b", "c"], start=1):
        table.change("t", tag, sequence)
    assert not table.fresh("t", ["untouched"], 0)
    assert table.fresh("t", ["untouched"], 1)


def test_a_flood_of_one_table_costs_the_answers_of_others_nothing() -> None:
    table = TagTable(limit=1000)
    table.change("a", "stock:1", 1)
    for sequence in range(2, 5000):
        table.change(EVERYBODY, f"prices:{sequence}", sequence)
    assert table.floor == 0
    assert table.fresh("a", ["stock:2"], 1)
    assert not table.fresh("a", ["stock:1"], 0)
    assert not table.fresh("a", ["prices:2"], 1), "forgotten, and with it all that was read of the table before"
    assert not table.fresh("a", ["prices:x"], 1)
    assert not table.fresh("a", ["prices:4998"], 4990)
    assert table.fresh("a", ["prices:4997"], 4997)


def forgotten(table: TagTable, tenant: str) -> int:
    """The first sequence at which an answer of the tenant that depends on nothing may have been read."""
    return max(table.floor, table.last(tenant, "untouched"))


def test_many_small_tables_are_forgotten_many_at_a_time() -> None:
    """Looking for the largest costs as much as there are tables: once for every change would stop the reader."""
    table = TagTable(limit=1000)
    floors = set()
    for sequence in range(1, 3001):
        table.change("a", f"tag{sequence}", sequence)
        floors.add(forgotten(table, "a"))
    assert floors == set(range(0, 2001, 250))
    assert not table.fresh("a", ["untouched"], 1999)
    assert table.fresh("a", ["untouched"], 2000)


def test_a_flood_of_one_tenant_costs_the_answers_of_others_nothing() -> None:
    table = TagTable(limit=1000)
    table.change(EVERYBODY, "prices:1", 1)
    table.change("b", "stock:1", 2)
    for sequence in range(3, 5000):
        table.change("a", f"tag{sequence}", sequence)
    assert table.fresh("b", ["stock:2", "prices:2"], 0)
    assert not table.fresh("b", ["stock:1"], 1)
    assert not table.fresh("b", ["prices:1"], 0)
    assert not table.fresh("a", ["untouched"], 3000)
    assert table.fresh("a", ["untouched"], 4900)


def test_of_many_small_tenants_the_oldest_are_forgotten_for_all() -> None:
    table = TagTable(limit=1000)
    floors = set()
    for sequence in range(1, 3001):
        table.change(f"tenant{sequence}", "prices:7", sequence)
        floors.add(forgotten(table, "x"))
    assert floors == set(range(0, 2001, 250))


CHANGES = st.lists(
    st.tuples(st.sampled_from(["a", "b", EVERYBODY]), st.sampled_from(["p:1", "p:2", "p", "q", "p:*", ALL])),
    max_size=40,
)


def test_a_tenant_that_has_forgotten_all_of_its_tags_is_forgotten_with_its_floor() -> None:
    table, tags = TagTable(limit=8), {"a": ["x:1", "y:1", "y:2", "y:3"], "b": ["x:1", "x:2", "x:3"], "c": ["x:1"]}
    changes = [(tenant, tag) for tenant in tags for tag in tags[tenant]] + [(f"t{n}", "x:1") for n in range(9)]
    for sequence, (tenant, tag) in enumerate(changes, start=1):
        table.change(tenant, tag, sequence)
        assert all(not table.fresh(changes[before][0], [changes[before][1]], before) for before in range(sequence))


@given(CHANGES, st.integers(1, 5), st.integers(0, 40), st.lists(st.sampled_from(["p:1", "p:2", "p", "q"])))
def test_a_bounded_table_never_calls_fresh_what_a_full_one_calls_stale(
    changes: list[tuple[str, str]], limit: int, read_seq: int, tags: list[str]
) -> None:
    bounded, last = TagTable(limit), {("", ""): 0}
    for sequence, (tenant, tag) in enumerate(changes, start=1):
        bounded.change(tenant, tag, sequence)
        last[tenant, tag] = sequence
    heeded = [(tenant, tag) for tenant in ("a", EVERYBODY) for tag in (*expanded(tags), ALL)]
    truth = all(last.get(key, 0) <= read_seq for key in heeded)
    assert truth or not bounded.fresh("a", tags, read_seq)
    if limit == 5 and len(changes) <= 5:
        assert bounded.fresh("a", tags, read_seq) == truth
