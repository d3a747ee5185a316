"""Reads settings from TOML and HASTEN_* variables into Structs; a wrong value is one sentence, not a traceback."""

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


class SettingsError(ValueError):
    """A configuration that cannot be used; its text says which value and why."""


def read_config(path: Path | None) -> dict[str, Any]:
    """The tables of a TOML file (none without a path); raises SettingsError when it cannot be read."""
    if path is None:
        return {}
    try:
        return _beside(path, tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise SettingsError(f"the config {path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"the config {path} is not valid TOML: {error}") from None


def _beside(path: Path, config: dict[str, Any]) -> dict[str, Any]:
    """The config with the file of rules that it names, which is looked for beside it."""
    section = config.get("changes")
    if isinstance(section, dict) and isinstance(named := section.get("rules"), str) and named:
        section["rules"] = str(path.parent / named)
    return config


def settings(
    kind: type[T],
    section: str,
    config: Mapping[str, Any],
    *,
    environ: Mapping[str, str] = os.environ,
    **overrides: Any,
) -> T:
    """A service's settings: defaults < `[section]` of the config < `HASTEN_<SECTION>_<FIELD>` < overrides.

    Overrides that are None or that the Struct has no field for are left out, so that common options can be passed to
    every service. A list in a variable is separated by commas. Raises SettingsError for an unknown key or wrong value.
    """
    lists = {field.name for field in msgspec.structs.fields(kind) if field.type == list[str]}  # type: ignore[arg-type]
    fields = set(kind.__struct_fields__)  # type: ignore[attr-defined]
    given_section = config.get(section, {})
    if not isinstance(given_section, Mapping):
        raise SettingsError(f"[{section}] must be a table of settings, not {given_section!r}")
    values = dict(given_section)
    if unknown := sorted(set(values) - fields):
        raise SettingsError(f"[{section}] has no setting {', '.join(unknown)}; {_meant(unknown, fields)}")
    for field in fields:
        if (given := environ.get(f"HASTEN_{section}_{field}".upper())) is not None:
            values[field] = [part.strip() for part in given.split(",") if part.strip()] if field in lists else given
    values |= {name: value for name, value in overrides.items() if name in fields and value is not None}
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        problem = plain(error)
        field = re.split(r"[.\[:]", problem)[0]
        variable = f"HASTEN_{section}_{field}".upper()
        where = variable if field in fields and variable in environ else f"[{section}]"
        raise SettingsError(f"{where}: {problem}") from None


def plain(error: msgspec.ValidationError) -> str:
    """What is wrong with a value, its field first: ``threshold: expected `float`, got `str` ``."""
    said = str(error).replace("Object contains unknown field", "there is no field")
    problem, found, path = said.rpartition(" - at `$.")
    return f"{path.rstrip('`')}: {problem[:1].lower()}{problem[1:]}" if found else said


def _meant(unknown: Iterable[str], fields: Iterable[str]) -> str:
    """The settings with a name like those that do not exist, or else all that there are."""
    near = [name for one in unknown for name in difflib.get_close_matches(one, sorted(fields), n=1)]
    return f"did you mean {', '.join(near)}?" if near else f"it has {', '.join(sorted(fields))}"
