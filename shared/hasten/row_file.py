"""Reads files of rows, JSON lines and CSV, row by row: each row is a document, and a bad one spoils no other."""

import csv
import itertools
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import msgspec

from hasten.files import LoadError, shown
from hasten.messages.retrieve import Document

MAX_ROW_CHARS = 16 * 1024 * 1024
DELIMITERS = ",;\t|"


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """Which column of a row, or field of a JSON object, is what of its document; all others become metadata."""

    id: str = "id"
    title: str = "title"
    text: str = "text"
    url: str = "url"
    tags: str = "tags"
    metadata: str = "metadata"


def rows(path: Path, base: str, columns: Columns, encoding: str | None = None) -> Iterator[Document | LoadError]:
    """The documents in a file of JSON lines or CSV with a header, and a sentence for each row that is none.

    The id is the row's own, else `base` and the number of its line. Raises LoadError when the rest cannot be read.
    """
    where = shown(path)
    try:
        before = _state(path)
        with path.open(encoding=encoding or _encoding(path), newline="") as file:
            read = _json_rows if path.suffix.lower() in (".jsonl", ".ndjson") else _csv_rows
            for line, row in read(file, columns):
                yield _document(row, f"{base}/{line}", columns, f"{where}, line {line},")
        if _state(path) != before:
            raise LoadError(f"{where} was changed while it was read: ingest it again")
    except OSError as error:
        raise LoadError(f"{where} cannot be read: {error.strerror}") from None
    except UnicodeError:
        raise LoadError(f"{where} is not {encoding or 'UTF-8'} text: name its encoding with --encoding") from None
    except _Broken as error:
        raise LoadError(f"{where} {error}") from None


class _Broken(ValueError):
    """Goes on the sentence that begins with the file's path."""


def _state(path: Path) -> tuple[int, int]:
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise _Broken("is not a file")
    return about.st_mtime_ns, about.st_size


def _encoding(path: Path) -> str:
    with path.open("rb") as file:
        return "utf-16" if file.read(2) in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def _json_rows(file: TextIO, columns: Columns) -> Iterator[tuple[int, dict[str, Any] | str]]:
    for line in itertools.count(1):
        text = file.readline(MAX_ROW_CHARS + 1)
        if not text:
            return
        if len(text) > MAX_ROW_CHARS:
            raise _Broken(f"has more than {MAX_ROW_CHARS} characters in line {line}")
        if text.strip():
            yield line, _object(text)


def _object(text: str) -> dict[str, Any] | str:
    """The row, with no halves of characters, which cannot be sent; else what is wrong."""
    try:
        row = json.loads(text)
        if "\\ud" in text.lower():
            row = json.loads(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return "is not JSON"
    return row if isinstance(row, dict) else "is not a JSON object"


def _csv_rows(file: TextIO, columns: Columns) -> Iterator[tuple[int, dict[str, Any] | str]]:
    head = file.readline(MAX_ROW_CHARS)
    file.seek(0)
    csv.field_size_limit(MAX_ROW_CHARS)
    reader = csv.reader(file, delimiter=max(DELIMITERS, key=head.count))
    try:
        names = [name.strip().lstrip("\ufeff") for name in next(reader, [])]
        if columns.text not in names:
            have = ", ".join(names[:20]) or "none"
            raise _Broken(f"has no column {columns.text} (it has {have}): name it with --column text=NAME")
        line = reader.line_num + 1
        for row in reader:
            if len(row) > len(names):
                yield line, f"has {len(row)} fields, the header has {len(names)}"
            elif any(row):
                yield line, {name: value for name, value in zip(names, row, strict=False) if value != ""}
            line = reader.line_num + 1
    except csv.Error as error:
        raise _Broken(f"is not CSV at line {reader.line_num}: {error}") from None


def _document(row: dict[str, Any] | str, name: str, columns: Columns, where: str) -> Document | LoadError:
    if isinstance(row, str):
        return LoadError(f"{where} {row}")
    known = {getattr(columns, field) for field in Columns.__struct_fields__}
    text, given = row.get(columns.text), row.get(columns.id)
    if not isinstance(text, str) or not text.strip():
        return LoadError(f"{where} has no text in {columns.text}")
    more = row.get(columns.metadata)
    rest = {field: value for field, value in row.items() if field not in known}
    if not isinstance(more, dict):
        rest[columns.metadata] = more
    try:
        return msgspec.convert(
            {
                "id": name if given in (None, "") else str(given),
                "title": str(row.get(columns.title) or ""),
                "text": text,
                "media_type": "text/markdown",
                "url": str(row.get(columns.url) or ""),
                "tags": _tags(row.get(columns.tags)),
                "metadata": _plain({**rest, **(more if isinstance(more, dict) else {})}),
            },
            Document,
        )
    except msgspec.ValidationError as error:
        return LoadError(f"{where} makes no document: {error}")


def _tags(value: Any) -> list[str]:
    values = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    return [tag for one in values if (tag := str(one).strip())]


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """What can be filtered by: single values and lists of them."""
    scalar = (str, int, float)
    return {
        name: value
        for name, value in fields.items()
        if isinstance(value, scalar) or (isinstance(value, list) and all(isinstance(one, scalar) for one in value))
    }
