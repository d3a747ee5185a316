"""Reads files into documents: Markdown, plain text, HTML, PDF and rows; what cannot be read is one sentence."""

import io
import logging
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from hasten.files import File, LoadError, shown
from hasten.markup import html_to_markdown
from hasten.messages.retrieve import Document
from hasten.row_file import Columns, rows

MAX_FILE_BYTES = 64 * 1024 * 1024
READS = 3
"""How often a file is read that changes meanwhile."""
_FRONT = re.compile(r"---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"([A-Za-z_][\w-]*):[ \t]*(.*)")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(\S.*)$|^(\S.*)\n=+[ \t]*$", re.MULTILINE)
_FENCED = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)


class _Read(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a file."""

    text: str
    media_type: str
    title: str = ""
    url: str = ""
    tags: list[str] = []
    metadata: dict[str, Any] = {}


def documents(
    file: File, columns: Columns | None = None, encoding: str | None = None
) -> Iterator[Document | LoadError]:
    """The documents in a file, one for each row of a file of rows, and a sentence for each that is none.

    `encoding` is that of text which is neither UTF-8 nor UTF-16 with a byte order mark.
    """
    try:
        if file.path.suffix.lower() in ROWS:
            base = _id(file.path, file.root or file.path.parent)
            yield from rows(file.path, base, columns or Columns(), encoding)
        else:
            yield load(file.path, file.root, encoding)
    except LoadError as error:
        yield error


def load(path: Path, root: Path | None = None, encoding: str | None = None) -> Document:
    """The document in a file; raises LoadError.

    Its id is the path below `root` (the file's folder if none is given) without the ending, so two files that differ in
    their ending only are one document. Its title is the front matter's, the page's or the first heading, else the
    file's name. Front matter may also give `url`, `tags` and any simple values, which become metadata.
    """
    try:
        read = _READERS[path.suffix.lower()](_bytes(path), encoding)
    except KeyError:
        raise LoadError(f"{shown(path)} is not a Markdown, text, HTML, PDF, JSON lines or CSV file") from None
    except OSError as error:
        raise LoadError(f"{shown(path)} cannot be read: {error.strerror}") from None
    except _Unreadable as error:
        raise LoadError(f"{shown(path)} {error}") from None
    if not read.text.strip():
        raise LoadError(f"{shown(path)} holds no text")
    return Document(
        id=_id(path, root or path.parent),
        title=read.title or path.stem,
        text=read.text,
        media_type=read.media_type,
        url=read.url,
        tags=read.tags,
        metadata=read.metadata,
    )


class _Unreadable(ValueError):
    """Goes on the sentence that begins with the file's path."""


def _bytes(path: Path) -> bytes:
    """What is in a regular file, as it was at one moment."""
    for _ in range(READS):
        before = path.stat()
        if not stat.S_ISREG(before.st_mode):
            raise _Unreadable("is not a file")
        if before.st_size > MAX_FILE_BYTES:
            raise _Unreadable(f"is larger than {MAX_FILE_BYTES // 1024**2} MB")
        raw = path.read_bytes()
        after = path.stat()
        if (after.st_mtime_ns, after.st_size, after.st_ino) == (before.st_mtime_ns, len(raw), before.st_ino):
            return raw
    raise _Unreadable("is being written: ingest it again when it is finished")


def _id(path: Path, root: Path) -> str:
    whole, base = path.resolve(), root.resolve()
    below = whole.relative_to(base) if whole.is_relative_to(base) else Path(whole.name)
    name = below.with_suffix("").as_posix()
    try:
        name.encode()
    except UnicodeEncodeError:
        raise LoadError(f"{shown(path)} has a name that is not UTF-8: rename it") from None
    return name


def _decoded(raw: bytes, encoding: str | None) -> str:
    marked = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = raw.decode(encoding or marked)
    except UnicodeError:
        raise _Unreadable(f"is not {encoding or 'UTF-8'} text: name its encoding with --encoding") from None
    if "\0" in text:
        raise _Unreadable("is not text")
    return text


def _markdown(raw: bytes, encoding: str | None) -> _Read:
    text = _decoded(raw, encoding)
    front: dict[str, Any] = {}
    if (found := _FRONT.match(text)) is not None:
        front, text = _fields(found[1]), text[found.end() :]
    tags = front.pop("tags", [])
    return _Read(
        text=text,
        media_type="text/markdown",
        title=str(front.pop("title", "")) or _first_heading(text),
        url=str(front.pop("url", "")),
        tags=[str(tag) for tag in (tags if isinstance(tags, list) else [tags])],
        metadata=front,
    )


def _fields(front: str) -> dict[str, Any]:
    """The simple part of YAML that front matter is made of: scalars and lists of scalars, one field per line."""
    fields: dict[str, Any] = {}
    name = ""
    for line in front.splitlines():
        if (found := _FIELD.fullmatch(line.rstrip())) is not None:
            name, value = found[1], found[2].strip()
            fields[name] = [_scalar(one) for one in value[1:-1].split(",")] if _is_list(value) else _scalar(value)
        elif name and line.strip().startswith("- "):
            before = fields[name] if isinstance(fields[name], list) else []
            fields[name] = [*before, _scalar(line.strip()[2:])]
    return {name: value for name, value in fields.items() if value not in ("", [""])}


def _is_list(value: str) -> bool:
    return value.startswith("[") and value.endswith("]")


def _scalar(raw: str) -> Any:
    value = raw.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    try:
        return msgspec.json.decode(value.encode(), type=bool | int | float)
    except msgspec.DecodeError:
        return value


def _first_heading(text: str) -> str:
    found = _HEADING.search(_FENCED.sub("", text))
    line = (found[1] or found[2]) if found else ""
    return " ".join(re.sub("[*`]", "", line).strip("# \t").split())


def _text(raw: bytes, encoding: str | None) -> _Read:
    return _Read(text=_decoded(raw, encoding), media_type="text/plain")


def _html(raw: bytes, encoding: str | None) -> _Read:
    title, text = html_to_markdown(_decoded(raw, encoding) if encoding else raw)
    return _Read(text=text, media_type="text/markdown", title=title or _first_heading(text))


def _pdf(raw: bytes, encoding: str | None) -> _Read:
    from pypdf import PdfReader

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = PdfReader(io.BytesIO(raw))
        if reader.is_encrypted and not reader.decrypt(""):
            raise _Unreadable("is encrypted")
        pages = [page.extract_text() for page in reader.pages]
        title = (reader.metadata and reader.metadata.title) or ""
    except _Unreadable:
        raise
    except Exception as error:
        raise _Unreadable(f"is not a PDF that can be read ({type(error).__name__})") from None
    text = "\n\n".join(page.strip() for page in pages if page.strip())
    if not text:
        raise _Unreadable("has no text, only pictures of it" if pages else "has no pages")
    return _Read(text=_clean(text), media_type="text/plain", title=_clean(title).strip())


def _clean(text: str) -> str:
    """Without what cannot be sent as JSON or stored: NULs and halves of characters."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


_READERS: dict[str, Callable[[bytes, str | None], _Read]] = {
    ".md": _markdown,
    ".markdown": _markdown,
    ".txt": _text,
    ".text": _text,
    ".html": _html,
    ".htm": _html,
    ".pdf": _pdf,
}
ROWS = frozenset({".jsonl", ".ndjson", ".csv", ".tsv"})
SUFFIXES = ROWS | _READERS.keys()
"""The endings of the files that `documents` reads, in lower case."""
