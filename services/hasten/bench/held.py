"""What a system of this machine holds: memory of its processes, and disk of its collections."""

import contextlib
import os
from pathlib import Path

import msgspec

ENGINE = "hasten.vectors.engine"


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """One process, or one collection on disk. `own_mb` is memory that is only its own, `mapped_mb` what it has mapped
    of files, which the kernel can take back."""

    what: str
    own_mb: int = 0
    mapped_mb: int = 0
    disk_mb: int = 0


def held(pid: int, data: Path) -> list[Held]:
    """The process `pid`, its vector engines, and the collections in the data folder; what cannot be read is left out.

    Blocking; from Linux's /proc.
    """
    rows = [_process("services and client of the bus", pid)]
    for place in Path("/proc").glob("[0-9]*"):
        arguments = _arguments(place)
        if ENGINE in arguments and _parent(place) == pid:
            folder = Path(arguments[arguments.index(ENGINE) + 2])
            rows.append(_process(f"vector engine of {folder.parent.name}", int(place.name)))
    rows += [_collection(folder) for folder in sorted((data / "vectors").glob("*")) if folder.is_dir()]
    return [row for row in rows if row is not None]


def _arguments(process: Path) -> list[str]:
    try:
        return (process / "cmdline").read_text().split("\0")
    except OSError:
        return []


def _parent(process: Path) -> int:
    return _fields(process).get("PPid", 0)


def _fields(process: Path) -> dict[str, int]:
    """The numbers of /proc/<pid>/status."""
    try:
        lines = (line.split() for line in (process / "status").read_text().splitlines())
        return {line[0].rstrip(":"): int(line[1]) for line in lines if len(line) > 1 and line[1].isdigit()}
    except OSError:
        return {}


def _process(what: str, pid: int) -> Held | None:
    fields = _fields(Path("/proc") / str(pid))
    if "RssAnon" not in fields:
        return None
    return Held(what=what, own_mb=fields["RssAnon"] >> 10, mapped_mb=fields["RssFile"] >> 10)


def _collection(folder: Path) -> Held:
    """A compaction may remove files meanwhile; a file that two generations share counts once."""
    sizes = {}
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                file = os.lstat(os.path.join(place, name))
                sizes[file.st_ino] = file.st_blocks * 512
    return Held(what=f"collection {folder.name} on disk", disk_mb=sum(sizes.values()) >> 20)
