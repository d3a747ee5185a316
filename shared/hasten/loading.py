"""Reads files into documents: Markdown, plain text, HTML and PDF; what cannot be read is one sentence."""

import io
import logging
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from hasten.markup import html_to_markdown
from hasten.messages.retrieve import Document

MAX_FILE_BYTES = 64 * 1024 * 1024
_FRONT = re.compile(r"---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"([A-Za-z_][\w-]*):[ \t]*(.*)")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(\S.*)$|^(\S.*)\n=+[ \t]*$", re.MULTILINE)
_FENCED = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)


class LoadError(ValueError):
    """A file that cannot become a document; the text is one sentence that names it."""


class _Read(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a file."""

    text: str
    media_type: str
    title: str = ""
    url: str = ""
    tags: list[str] = []
    metadata: dict[str, Any] = {}


def find(paths: Iterable[Path]) -> list[Path]:
    """The files among these paths and in these folders, each once; of a folder what `load` can read and is not hidden.

    Raises LoadError for a path that is not there.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            found |= dict.fromkeys(file for file in sorted(path.rglob("*")) if _readable(file, path))
        elif path.exists():
            found[path] = None
        else:
            raise LoadError(f"{path} is not there")
    return list(found)


def _readable(file: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
    return file.suffix.lower() in SUFFIXES and not hidden and file.is_file()


def load(path: Path, root: Path | None = None) -> Document:
    """The document in a file; raises LoadError.

    Its id is the path below `root` (the file's folder if none is given) without the ending, so two files that differ in
    their ending only are one document. Its title is the front matter's, the page's or the first heading, else the
    file's name. Front matter may also give `url`, `tags` and any simple values, which become metadata.
    """
    try:
        read = _READERS[path.suffix.lower()](_bytes(path))
    except KeyError:
        raise LoadError(f"{path} is not a Markdown, text, HTML or PDF file") from None
    except OSError as error:
        raise LoadError(f"{path} cannot be read: {error.strerror}") from None
    except _Unreadable as error:
        raise LoadError(f"{path} {error}") from None
    if not read.text.strip():
        raise LoadError(f"{path} holds no text")
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
    if path.stat().st_size > MAX_FILE_BYTES:
        raise _Unreadable(f"is larger than {MAX_FILE_BYTES // 1024**2} MB")
    return path.read_bytes()


def _id(path: Path, root: Path) -> str:
    whole, base = path.resolve(), root.resolve()
    below = whole.relative_to(base) if whole.is_relative_to(base) else Path(whole.name)
    return below.with_suffix("").as_posix()


def _decoded(raw: bytes) -> str:
    encoding = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        raise _Unreadable("is not UTF-8 text") from None
    if "\0" in text:
        raise _Unreadable("is not text")
    return text


def _markdown(raw: bytes) -> _Read:
    text = _decoded(raw)
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


def _text(raw: bytes) -> _Read:
    return _Read(text=_decoded(raw), media_type="text/plain")


def _html(raw: bytes) -> _Read:
    title, text = html_to_markdown(raw)
    return _Read(text=text, media_type="text/markdown", title=title or _first_heading(text))


def _pdf(raw: bytes) -> _Read:
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


_READERS: dict[str, Callable[[bytes], _Read]] = {
    ".md": _markdown,
    ".markdown": _markdown,
    ".txt": _text,
    ".text": _text,
    ".html": _html,
    ".htm": _html,
    ".pdf": _pdf,
}
SUFFIXES = frozenset(_READERS)
"""The endings of the files that `load` reads, in lower case."""
