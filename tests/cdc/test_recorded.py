"""What real Debezium sent when it was recorded, read as it is read from the stream; `make test-cdc` has it live."""

import msgspec
import pytest
import shop
from debezium import MODES, Mode, Record, sent
from shop import NOTHING, SNAPSHOT, STEPS, Step

from hasten.changes import EVERYBODY, UNREADABLE, Eviction, evicted, expanded

ALL_STEPS = [SNAPSHOT, *STEPS]


def evictions(mode: Mode, record: Record) -> list[Eviction]:
    """What a record evicts on its way through the stream."""
    message = sent(mode, record)
    return [] if message is None else evicted(*message)


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


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode.rows], ids=lambda mode: mode.name)
def test_nothing_of_the_envelope_is_unreadable(mode: Mode) -> None:
    found = [one for step in shop.recorded(mode) for record in step.records for one in evictions(mode, record)]
    assert {one.reason for one in found} >= {"snapshot", "create", "update", "delete", "truncate"}
    assert [one for one in found if one.reason == UNREADABLE or one.tenant != EVERYBODY] == []


def test_without_the_key_a_deleted_row_is_known_by_its_key_columns_only() -> None:
    """Debezium fills the other columns of the image before with zeros and empty texts: a rule must not read them."""
    (value_only,) = (mode for mode in MODES if mode.name == "value_only")
    bodies = [msgspec.json.decode(record.value) for record in records(value_only, "delete") if record.value]
    (before,) = (body["before"] for body in bodies if body.get("op") == "d")
    assert before == {"id": 9, "plan": "", "amount": "AA=="}
