"""Plain tables as TOML, each value on the line of its name: what a started service is given as its config."""

import json
import re
from collections.abc import Mapping
from typing import Any


def written(tables: Mapping[str, Any]) -> str:
    """The text; values are strings, numbers, booleans, lists and tables of these."""
    return "".join(f"{_name(name)} = {_value(value)}\n" for name, value in tables.items())


def _name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_name(name)} = {_value(inside)}" for name, inside in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value)
