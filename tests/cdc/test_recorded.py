"""What real Debezium sent when it was recorded, read as it is read from the stream; `make test-cdc` has it live."""

import pytest
import shop
from debezium import MODES, ROOT, Mode, Record, sent
from shop import NOTHING, SNAPSHOT, STEPS, Step

from hasten.changes import EVERYBODY, UNREADABLE, Eviction, Rules, TableRule, evicted, expanded
from hasten.changes.settings import changes
from hasten.settings import read_config

ALL_STEPS = [SNAPSHOT, *STEPS]
RULES = changes(read_config(ROOT / "deploy" / "hasten.toml")).rules
"""Those that are shipped: they name the key of the table that has no column `id`."""


def evictions(mode: Mode, record: Record) -> list[Eviction]:
    """What a record evicts on its way through the stream."""
    message = sent(mode, record)
    return [] if message is None else evicted(*message, RULES)


def records(mode: Mode, step: str) -> list[Record]:
    return next(one.records for one in shop.recorded(mode) if one.step == step)


def tags(mode: Mode, step: str) -> set[str]:
    """Every tag that the records of a step evict."""
    return {tag for record in records(mode, step) for one in evictions(mode, record) for tag in one.tags}


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_every_step_is_recorded(mode: Mode) -> None:
    assert [one.step for one in shop.recorded(mode)] == [*(step.name for step in ALL_STEPS), NOTHING]


@pytest.mark.parametrize("step", ALL_STEPS, ids=lambda step: step.name)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_a_change_evicts_its_rows_and_leaves_the_others(mode: Mode, step: Step) -> None:
    gone = tags(mode, step.name)
    if not step.heard(mode):
        assert gone == set(), "Debezium speaks of it after all: the documentation says it does not"
        return
    assert [tag for tag in step.stale if not gone & set(expanded([tag]))] == []
    assert [tag for tag in step.staying(mode) if gone & set(expanded([tag]))] == []


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_heartbeats_transactions_messages_and_what_was_rolled_back_evict_nothing(mode: Mode) -> None:
    beat, mark = records(mode, NOTHING)
    bounds = [
        record
        for one in shop.recorded(mode)
        for record in one.records
        if record.destination.rpartition(".")[2] == "transaction"
    ]
    assert (beat.marker, mark.marker, len(bounds) >= 2 * (len(STEPS) - 1)) == (None, "mark 1", True)
    assert [one for record in (beat, mark, *bounds) for one in evictions(mode, record)] == []
    assert records(mode, "rolled back") == []


@pytest.mark.parametrize("mode", [mode for mode in MODES if not mode.silent], ids=lambda mode: mode.name)
def test_nothing_of_the_envelope_is_unreadable(mode: Mode) -> None:
    found = [one for step in shop.recorded(mode) for record in step.records for one in evictions(mode, record)]
    assert {one.reason for one in found} >= {"snapshot", "create", "update", "delete", "truncate"}
    assert [one for one in found if one.reason == UNREADABLE or one.tenant != EVERYBODY] == []


@pytest.mark.parametrize("name", ["value_only", "flattened", "cloudevents"])
def test_what_debezium_makes_up_for_a_deleted_row_is_not_taken_for_its_values(name: str) -> None:
    """PostgreSQL logs the key of a deleted row and no more: Debezium fills the rest with zeros and empty texts."""
    rules = Rules([TableRule(table="stock", key=["shop", "article"], tags=["pieces:{pieces}"])])
    (mode,) = (mode for mode in MODES if mode.name == name)
    sources = [message for record in records(mode, "composite key deleted") if (message := sent(mode, record))]
    (gone,) = [one for message in sources for one in evicted(*message, rules)]
    assert (gone.reason, "stock:32,2" in gone.tags) == ("delete", True)
    assert set(expanded(["pieces:6"])) & set(gone.tags), "the answer that depended on the six pieces is still given"
