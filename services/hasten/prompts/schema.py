"""Descriptions of tools that are long and there more than once; pure."""

from collections.abc import Iterator
from typing import Any

from hasten.compressor.tokens import as_json
from hasten.prompts.concept import concept_of
from hasten.prompts.finding import Finding

LEAST_WORDS = 8
"""A shorter description may be the same by chance."""


def descriptions(tools: list[dict[str, Any]] | None) -> Iterator[tuple[str, str]]:
    """Every description with the place it has in the tools, such as `search.parameters.query`."""
    for tool in tools or []:
        function = tool.get("function", tool)
        if isinstance(function, dict):
            yield from _within(function, str(function.get("name", "?")))


def _within(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, one in value.items():
            if name == "description" and isinstance(one, str):
                yield path, one
            elif isinstance(one, dict | list):
                yield from _within(one, path if name in ("properties", "items", "function") else f"{path}.{name}")
    elif isinstance(value, list):
        for one in value:
            yield from _within(one, path)


def repeated_descriptions(tools: list[dict[str, Any]] | None, system: str) -> Iterator[Finding]:
    """Descriptions that another place has, and those that the system text repeats. The span is of the tools' JSON."""
    text = as_json(tools or [])
    seen: dict[str, str] = {}
    told = " ".join(system.split())
    for path, description in descriptions(tools):
        plain = " ".join(description.split())
        if len(plain.split()) < LEAST_WORDS:
            continue
        start = max(0, text.rfind(as_json(description)[1:-1]))
        end = start + len(as_json(description)) - 2
        if plain in seen:
            why = f"{path} is described word for word as {seen[plain]}: say it once, and here what is special"
            yield Finding(kind="tools", start=start, end=end, why=why)
        elif plain in told:
            why = f"the system text repeats the description of {path}: the engine shows the model both"
            yield Finding(kind="tools", start=start, end=end, why=why)
        seen.setdefault(plain, path)


def repeated_examples(examples: list[tuple[str, str]]) -> Iterator[tuple[str, int]]:
    """Why an example can go (another asks and answers the same), and its place."""
    seen: dict[tuple[object, ...], int] = {}
    for at, (user, assistant) in enumerate(examples):
        said = concept_of(user)
        key = (said.all, said.figures, said.names, said.negated, " ".join(assistant.lower().split()))
        if key in seen:
            yield f"example {at + 1} asks and answers the same as example {seen[key] + 1}", at
        seen.setdefault(key, at)
