"""The `[changes]` section of the config: which subjects carry change events, and the rules of their tables.

It is one section for every service that reads the changes, so that all of them agree on what a change means.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from hasten.changes.rules import BadRule, Rules, TableRule
from hasten.settings import SettingsError, plain, read_config, settings


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`sources` are subjects that HASTEN_CHANGES captures as they are, besides its own (`shop.>`). `rules` is a TOML
    file with `[[tables]]`; `tables` are such rules in the config itself, which come first."""

    sources: list[str] = []
    rules: str = ""
    tables: list[dict[str, Any]] = []


class Changes:
    """What a service has to know to read HASTEN_CHANGES. `warnings` are for the operator."""

    def __init__(self, sources: Iterable[str] = (), rules: Rules | None = None, warnings: Iterable[str] = ()) -> None:
        self.sources = list(sources)
        self.rules = rules or Rules()
        self.warnings = list(warnings)


def changes(config: Mapping[str, Any]) -> Changes:
    """The section of a config and of HASTEN_CHANGES_SOURCES and HASTEN_CHANGES_RULES; raises SettingsError."""
    given = settings(Settings, "changes", config)
    for source in given.sources:
        _check(source)
    found: list[TableRule] = []
    warnings: list[str] = []
    for origin, tables in (("[changes]", given.tables), (given.rules, _from_file(given.rules))):
        rules = [_rule(origin, number, table) for number, table in enumerate(tables, start=1)]
        try:
            warnings += Rules(rules, origin=f"{origin}: ").warnings
        except BadRule as error:
            raise SettingsError(str(error)) from None
        found += rules
    return Changes(given.sources, Rules(found), warnings)


def _from_file(path: str) -> list[Any]:
    if not path:
        return []
    content = read_config(Path(path))
    tables = content.get("tables", [])
    if set(content) - {"tables"} or not isinstance(tables, list):
        raise SettingsError(f"{path}: a file of rules is a list of [[tables]] and nothing else")
    return tables


def _rule(origin: str, number: int, table: Any) -> TableRule:
    try:
        return msgspec.convert(table, TableRule)
    except msgspec.ValidationError as error:
        name = table.get("table") if isinstance(table, dict) else None
        what = f"table {name!r}" if isinstance(name, str) else f"table {number}"
        raise SettingsError(f"{origin}: {what}: {plain(error)}") from None


def _check(source: str) -> None:
    """Refuses a subject that is none, or that would capture our own requests and their replies."""
    first = source.partition(".")[0]
    if not all(source.split(".")) or set(source) & set(" \t\r\n") or first in ("*", ">", "hasten"):
        raise SettingsError(f"[changes] sources: {source!r} must begin with a name of its own, as in shop.>")
    if ">" in source[:-1] or any("*" in part and part != "*" for part in source.split(".")):
        raise SettingsError(
            f"[changes] sources: in {source!r} a * must stand for a whole token and > for the last ones"
        )
    if first.startswith(("_", "$")):
        raise SettingsError(f"[changes] sources: {source!r} is a subject of NATS itself")
