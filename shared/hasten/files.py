"""Finds files in folders one after the other, so that a folder of any size takes no memory; what is wrong is said."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class LoadError(ValueError):
    """A file that cannot become a document; the text is one sentence that names it."""


class File(msgspec.Struct, frozen=True):
    """A file to read, the folder among those named that it was found in (None: it was named itself), and its bytes."""

    path: Path
    root: Path | None
    size: int


def walk(paths: Sequence[Path], suffixes: frozenset[str]) -> Iterator[File | LoadError]:
    """The files named, whatever they are, and those in the folders named, in order, each once.

    Of a folder come the regular files with one of these endings that are not hidden, from folders that are not hidden.
    Links to files are followed, links to folders are not, so that none is read twice and no circle is walked. Raises
    LoadError at the first step for a path that is not there.
    """
    for path in paths:
        if not path.exists():
            raise LoadError(f"{shown(path)} is not there")
    folders = [path for path in paths if path.is_dir()]
    for path in dict.fromkeys(paths):
        if any(_found_in(path, folder, suffixes) for folder in folders if folder != path):
            continue
        if path.is_dir():
            yield from _below(path, path, suffixes)
        else:
            yield _file(path, None)


def _found_in(path: Path, folder: Path, suffixes: frozenset[str]) -> bool:
    whole, base = path.absolute(), folder.absolute()
    if not whole.is_relative_to(base) or any(part.startswith(".") for part in whole.relative_to(base).parts):
        return False
    return path.is_dir() or path.suffix.lower() in suffixes


def _below(folder: Path, root: Path, suffixes: frozenset[str]) -> Iterator[File | LoadError]:
    try:
        with os.scandir(folder) as scan:
            entries = sorted((entry for entry in scan if not entry.name.startswith(".")), key=lambda one: one.name)
    except OSError as error:
        yield LoadError(f"{shown(folder)} cannot be read: {error.strerror}")
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _below(Path(entry.path), root, suffixes)
        elif os.path.splitext(entry.name)[1].lower() in suffixes and _may_be_read(entry):
            yield _file(Path(entry.path), root)


def _may_be_read(entry: "os.DirEntry[str]") -> bool:
    """Whether it is a file, or something that must be said of it (a link that leads to itself)."""
    try:
        return entry.is_file()
    except OSError:
        return True


def _file(path: Path, root: Path | None) -> File | LoadError:
    try:
        return File(path, root, path.stat().st_size)
    except OSError as error:
        return LoadError(f"{shown(path)} cannot be read: {error.strerror}")


def shown(path: Path) -> str:
    """A path as one line of text that can be printed and sent, whatever bytes its name has: escapes that would steer a
    terminal are spelt out."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
