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
SPARE = 256 * 1024 * 1024
"""Room on the disk that a compaction leaves free for what is written meanwhile."""
WHOLE_VECTORS = "vector_storage/matrix.dat"
"""A segment has this file once it is optimised. From then on what is written to its points goes to another segment."""
STAYING = (
    WHOLE_VECTORS,
    "vector_storage/quantized.data",
    "vector_index/*.bin",
    "payload_index/*/*.bin",
    "payload_storage/page_*.dat",
    "id_tracker.mappings",
)
"""Nearly all of the bytes of such a segment; its lists of deleted points and versions are not among them."""


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

    def next(self) -> Path:
        """Where a copy of the current generation is to be; raises StoreError when the disk has too little room for the
        compaction that follows. The name is new, so that an engine whose parent was killed cannot write into it."""
        self._check_room()
        return self._folder / f"generation-{secrets.token_hex(4)}"

    def _check_room(self) -> None:
        """A compaction writes everything anew, at most."""
        files = (path.lstat() for path in self.current.rglob("*"))
        needed = sum(file.st_blocks * 512 for file in files) + SPARE
        if (free := shutil.disk_usage(self._folder).free) < needed:
            raise StoreError(f"{free >> 20} MB are free on its disk and {needed >> 20} MB may be needed")

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


def copy(source: Path, place: Path) -> None:
    """Copies a generation; nothing may be written to it meanwhile. Raises OSError.

    Files that the engine never changes are linked, so that it takes as long for a million points as for what was
    written lately. What the engine has not flushed is in the copy of its log.
    """
    shutil.copytree(source, place, copy_function=_copy_file)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy_file(source: str, target: str) -> None:
    """Links a file that stays as it is, or copies it."""
    if _stays(Path(source)):
        with contextlib.suppress(OSError):
            os.link(source, target)
            return
    _copy_data(source, target)


def _stays(file: Path) -> bool:
    """Whether the engine only ever reads this file of a segment that has graphs; a test looks after it."""
    segment = next((folder for folder in file.parents if folder.parent.name == "segments"), None)
    if segment is None or not (segment / WHOLE_VECTORS).exists():
        return False
    inside = file.relative_to(segment)
    return any(inside.match(pattern) for pattern in STAYING)


def _copy_data(source: str, target: str) -> None:
    """Copies a file without its holes: the engine reserves 32 MB for a log and fills little of it."""
    with open(source, "rb") as read, open(target, "wb") as written:
        size = os.fstat(read.fileno()).st_size
        os.ftruncate(written.fileno(), size)
        for start, end in _extents(read.fileno(), size):
            for at in range(start, end, BLOCK):
                os.pwrite(written.fileno(), os.pread(read.fileno(), min(BLOCK, end - at), at), at)


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
