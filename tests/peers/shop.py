"""A shop's database, what happens to it step by step, and which answers must go and which may stay at each step."""

import json
from pathlib import Path
from typing import Any

import msgspec
from debezium import Mode, Record

RECORDED = Path(__file__).parents[1] / "cdc" / "recorded"
SHIPPED = Path(__file__).parents[2] / "deploy" / "debezium" / "shop.sql"
TABLES = f"""
DROP TABLE IF EXISTS prices, articles, stock, visits;
{SHIPPED.read_text()}
CREATE TABLE articles (id int PRIMARY KEY, title text NOT NULL, body text NOT NULL);
ALTER TABLE articles ALTER COLUMN body SET STORAGE EXTERNAL;
INSERT INTO articles VALUES (1, 'Returns', repeat('Thirty days. ', 300)), (2, 'Parcels', 'By bike.');
"""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What is done to the database. Answers with a tag of `stale` must go, those of `kept` stay.

    `neighbours` stay too where an event tells its row.
    """

    name: str
    sql: str
    stale: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    neighbours: tuple[str, ...] = ()

    def heard(self, mode: Mode) -> bool:
        """Whether Debezium says anything of it."""
        return self.name not in mode.silent

    def staying(self, mode: Mode) -> tuple[str, ...]:
        """The tags whose answers stay."""
        return self.kept if self.name in mode.vague else (*self.kept, *self.neighbours)


SNAPSHOT = Step(
    name="snapshot",
    sql="",
    stale=("prices:7", "prices:8", "prices:9", "prices", "articles:1", "articles:2", "stock:31,2", "stock:32,2"),
    kept=("weather",),
)
NOTHING = "nothing"
"""The name under which a heartbeat and a logical message are recorded."""
STEPS = (
    Step(
        name="update",
        sql="UPDATE prices SET amount = 11 WHERE id = 7",
        stale=("prices:7", "prices"),
        kept=("articles:1", "stock:31,2", "weather"),
        neighbours=("prices:8", "prices:9"),
    ),
    Step(
        name="insert",
        sql="INSERT INTO prices VALUES (10, 'Studio', 30)",
        stale=("prices",),
        kept=("articles:1", "stock:31,2"),
        neighbours=("prices:7", "prices:8"),
    ),
    Step(
        name="delete",
        sql="DELETE FROM prices WHERE id = 9",
        stale=("prices:9", "prices"),
        kept=("articles:1", "stock:31,2"),
        neighbours=("prices:7", "prices:8"),
    ),
    Step(
        name="another key",
        sql="UPDATE prices SET id = 9 WHERE id = 8",
        stale=("prices:8", "prices:9", "prices"),
        kept=("articles:1",),
        neighbours=("prices:7",),
    ),
    Step(
        name="unchanged long column",
        sql="UPDATE articles SET title = 'Sending back' WHERE id = 1",
        stale=("articles:1",),
        kept=("prices:7", "stock:31,2"),
        neighbours=("articles:2",),
    ),
    Step(
        name="composite key",
        sql="UPDATE stock SET pieces = 4 WHERE shop = 2 AND article = 31",
        stale=("stock:31,2",),
        kept=("prices:7", "articles:1"),
        neighbours=("stock:32,2",),
    ),
    Step(
        name="composite key deleted",
        sql="DELETE FROM stock WHERE shop = 2 AND article = 32",
        stale=("stock:32,2",),
        kept=("prices:7", "articles:1"),
        neighbours=("stock:31,2",),
    ),
    Step(
        name="no key",
        sql="UPDATE visits SET pieces = 2",
        stale=("visits",),
        kept=("prices:7", "articles:1", "stock:31,2"),
    ),
    Step(
        name="new column",
        sql="ALTER TABLE prices ADD COLUMN currency text; UPDATE prices SET currency = 'EUR' WHERE id = 7",
        stale=("prices:7", "prices"),
        kept=("articles:1",),
        neighbours=("prices:8", "prices:9"),
    ),
    Step(name="rolled back", sql="BEGIN; UPDATE prices SET amount = 0; ROLLBACK", kept=("prices:7", "prices")),
    Step(
        name="truncate",
        sql="TRUNCATE prices",
        stale=("prices:7", "prices:8", "prices"),
        kept=("articles:1", "stock:31,2", "weather"),
    ),
)


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """The records of one step."""

    step: str
    records: list[Record]


def recorded(mode: Mode) -> list[Recorded]:
    """What Debezium sent the last time it was recorded."""
    return msgspec.json.decode((RECORDED / f"{mode.name}.json").read_bytes(), type=list[Recorded])


def record(mode: Mode, steps: list[Recorded]) -> None:
    """Writes a recording anew."""
    text = msgspec.json.format(msgspec.json.encode(steps), indent=1)
    (RECORDED / f"{mode.name}.json").write_bytes(text + b"\n")


def shortened(one: Record) -> Record:
    """The record without the long parts that hasten does not look at: the fields of schemas, the repeated text."""
    return Record(destination=one.destination, key=_short(one.key), value=_short(one.value))


def _short(text: str | None) -> str | None:
    if text is None:
        return None
    body = _without_fields(json.loads(text))
    return json.dumps(body, separators=(",", ":")).replace("Thirty days. " * 300, "Thirty days.")


def _without_fields(body: Any) -> Any:
    if not isinstance(body, dict):
        return body
    if body.keys() == {"schema", "payload"}:
        body["schema"] = {name: value for name, value in body["schema"].items() if name != "fields"}
    return {name: _without_fields(value) for name, value in body.items()}


def shape(text: str | None) -> Any:
    """The names and kinds in a body: what stays the same from one recording to the next."""
    return None if text is None else _kinds(json.loads(text))


def _kinds(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: inner if name == "op" else _kinds(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_kinds(inner) for inner in value]
    return type(value).__name__
