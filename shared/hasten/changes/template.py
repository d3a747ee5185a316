"""Names made of a row: `prices:{id}`; pure."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from hasten.changes.keys import scalar, unchanged

_COLUMN = re.compile(r"\{([^{}]+)\}")


class Template(msgspec.Struct, frozen=True):
    """A text with columns in braces. `literals` are what stands between `columns`, one more than there are of them."""

    text: str
    literals: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def wide(self) -> str:
        """The tag for all values at once: what stands before the first colon (`prices` of `prices:{id}`)."""
        return self.text.partition(":")[0]

    def filled(self, row: Mapping[str, Any]) -> str | None:
        """The text for a row; None when a column is missing, null, or not one value."""
        made = [self.literals[0]]
        for column, literal in zip(self.columns, self.literals[1:], strict=True):
            value = scalar(row.get(column))
            if value is None:
                return None
            made += (value, literal)
        return "".join(made)

    def words(self, row: Mapping[str, Any]) -> str:
        """The text for a reader: any value as it is, nothing for null."""
        made = [self.literals[0]]
        for column, literal in zip(self.columns, self.literals[1:], strict=True):
            made += (_words(row.get(column)), literal)
        return "".join(made)

    def absent(self, row: Mapping[str, Any]) -> set[str]:
        """The columns whose value the row does not tell: not there, or Debezium's placeholder."""
        return {column for column in self.columns if column not in row or unchanged(row[column])}


def template(text: str) -> Template:
    """Reads a template; raises ValueError for braces that hold no column name."""
    parts = _COLUMN.split(text)
    if any("{" in part or "}" in part for part in parts[::2]) or any(not part.strip() for part in parts[1::2]):
        raise ValueError("braces must hold the name of a column, as in prices:{id}")
    return Template(text, tuple(parts[::2]), tuple(part.strip() for part in parts[1::2]))


def _words(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, (int, float)) else msgspec.json.encode(value).decode()
