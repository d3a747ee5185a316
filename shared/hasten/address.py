"""Where a running `hasten up` can be reached: a small file in its data folder that the other commands read."""

import contextlib
import os
from pathlib import Path

import msgspec

DEFAULT_NATS = "nats://127.0.0.1:4222"
DEFAULT_DATA = ".hasten"


class Address(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The addresses of one running system and the process that it is."""

    nats: str
    pid: int
    http: str = ""

    @property
    def alive(self) -> bool:
        """Whether the process that wrote it is still there."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


def _path(data: Path) -> Path:
    return data / "address.json"


def write(data: Path, address: Address) -> None:
    """Leaves the address in the data folder, readable by its owner only (a URL can hold a password)."""
    path = _path(data)
    path.touch(mode=0o600)
    path.write_bytes(msgspec.json.encode(address))


def read(data: Path) -> Address | None:
    """The address in the data folder, None when nothing runs there."""
    try:
        found = msgspec.json.decode(_path(data).read_bytes(), type=Address)
    except (OSError, msgspec.DecodeError):
        return None
    return found if found.alive else None


def remove(data: Path) -> None:
    """Takes the address away; to do so twice is no error."""
    with contextlib.suppress(OSError):
        _path(data).unlink()


def nats_url(given: str | None = None, data: Path | None = None) -> str:
    """The NATS server to use: `given`, or HASTEN_NATS, or that of the system in the data folder, or the usual port."""
    if chosen := given or os.environ.get("HASTEN_NATS"):
        return chosen
    running = read(data or Path(os.environ.get("HASTEN_DATA", DEFAULT_DATA)))
    return running.nats if running else DEFAULT_NATS


def without_secret(url: str) -> str:
    """The URL without user and password, for showing."""
    scheme, found, rest = url.partition("://")
    return f"{scheme}{found}{rest.rpartition('@')[2]}" if found else url.rpartition("@")[2]
