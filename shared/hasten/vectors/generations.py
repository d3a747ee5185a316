"""The folder of an embedded collection: one owner at a time, and which of its generations is the current one.

A generation is a whole shard. A compaction makes the next one beside the current, and switching is one rename.
"""

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from hasten.vectors.store import StoreError

FIRST = "generation-first"
BLOCK = 1 << 20


class Generations:
    """The generations in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pointer = folder / "current"
        self.lock = -1

    def take(self) -> None:
        """Becomes the owner; raises StoreError when another store or process is. An owner's engine counts as well."""
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise StoreError(f"the collection {self._folder.name} is open in another process or store") from None
        self.lock = lock

    def leave(self) -> None:
        """Lets others own the folder, once the engine has ended as well."""
        lock, self.lock = self.lock, -1
        if lock >= 0:
            os.close(lock)

    @property
    def current(self) -> Path:
        """The generation in use."""
        with contextlib.suppress(FileNotFoundError):
            return self._folder / self._pointer.read_text()
        return self._folder / FIRST

    def copy(self) -> Path:
        """Copies the current generation; nothing may be written to it meanwhile.

        What the engine has not flushed is in the copy of its log. The name is new, so that an engine whose parent was
        killed cannot write into it.
        """
        place = self._folder / f"generation-{secrets.token_hex(4)}"
        shutil.copytree(self.current, place, copy_function=_copy_data)
        return place

    def switch(self, place: Path) -> None:
        """Makes a generation the current one, whole or not at all, whenever the machine stops."""
        aside = self._pointer.with_name("current.new")
        with aside.open("w") as made:
            made.write(place.name)
            made.flush()
            os.fsync(made.fileno())
        aside.replace(self._pointer)
        _sync(self._folder)

    def tidy(self) -> None:
        """Removes every generation but the current one."""
        for place in self._folder.glob("generation-*"):
            if place != self.current:
                shutil.rmtree(place, ignore_errors=True)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy_data(source: str, target: str) -> str:
    """Copies a file without its holes: the engine reserves 32 MB for a log and fills little of it."""
    with open(source, "rb") as read, open(target, "wb") as written:
        size = os.fstat(read.fileno()).st_size
        os.ftruncate(written.fileno(), size)
        for start, end in _extents(read.fileno(), size):
            for at in range(start, end, BLOCK):
                os.pwrite(written.fileno(), os.pread(read.fileno(), min(BLOCK, end - at), at), at)
    return target


def _extents(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """The parts of a file that are not holes."""
    end = 0
    while end < size:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        end = os.lseek(descriptor, start, os.SEEK_HOLE)
        yield start, end
