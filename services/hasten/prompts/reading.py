"""Reads prompts from files: a text, a chat body in JSON, or one body a line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from hasten.messages.chat import parse_chat
from hasten.messages.failure import Failed
from hasten.prompts.review import Prompt, system_of

_JSON = (".json", ".jsonl", ".ndjson")


class Unreadable(ValueError):
    """A file that holds no prompt; its text says which and why."""


def read(source: str, raw: bytes) -> list[Prompt]:
    """The prompts of a file: texts as they are, and of requests the system text; raises Unreadable.

    JSON is told by the file's name or by its beginning: one body, a list of them, or one on each line (as a batch file
    has them, below `body`).
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unreadable(f"{source} is not UTF-8 text") from None
    if not text.strip():
        raise Unreadable(f"{source} is empty")
    named = Path(source).suffix.lower() in _JSON
    if not named and not text.lstrip().startswith(('{"', '[{"', "{\n", "[\n", "{ ", "[ {")):
        return [Prompt(source=source, text=text)]
    bodies = _bodies(text)
    if bodies is None:
        if named:
            raise Unreadable(f"{source} is not JSON: a chat body, a list of them, or one a line")
        return [Prompt(source=source, text=text)]
    return list(_prompts(source, bodies))


def _bodies(text: str) -> list[Any] | None:
    try:
        whole = msgspec.json.decode(text)
        return whole if isinstance(whole, list) else [whole]
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return [msgspec.json.decode(line) for line in text.splitlines() if line.strip()]
    except (msgspec.DecodeError, RecursionError):
        return None


def _prompts(source: str, bodies: list[Any]) -> Iterator[Prompt]:
    for number, body in enumerate(bodies, 1):
        name = source if len(bodies) == 1 else f"{source}#{number}"
        if isinstance(body, dict) and isinstance(body.get("body"), dict):
            body = body["body"]
        if not isinstance(body, dict):
            raise Unreadable(f"{name} is not a chat body: an object with messages")
        try:
            request = parse_chat(body)
        except Failed as failed:
            raise Unreadable(f"{name} is not a chat body: {failed.failure.detail}") from None
        yield Prompt(source=name, text=system_of(request), request=request)
