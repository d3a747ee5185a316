"""API keys: made here and shown once, kept as digests in a JetStream bucket, looked up in memory.

A key has 256 random bits, so a plain SHA-256 is enough at rest, and since nobody can steer a digest the time that a
lookup takes says nothing of a key.
"""

import asyncio
import contextlib
import hashlib
import os
import secrets
from pathlib import Path

import msgspec
import nats.errors
import nats.js.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js.api import KeyValueConfig
from nats.js.kv import KeyValue

from hasten.buckets import key_names
from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.messages.failure import Failed
from hasten.telemetry import logger
from hasten.topics import BadName, checked

log = logger("keys")
BUCKET = "hasten_tenants"
POLL_S = 1.0
"""How long a change can go unnoticed when its announcement was lost."""
_SETTLE_S = 0.02
"""A change is announced a little before the bucket has it."""
_PREFIX = "key."


class KeyRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept of a key beside its digest."""

    tenant: str
    label: str = ""
    created_ms: int = 0


def _name(key: str) -> str:
    return _PREFIX + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


async def _bucket(bus: Bus) -> KeyValue:
    try:
        try:
            return await bus.js.key_value(BUCKET)
        except nats.js.errors.BucketNotFoundError:
            return await bus.js.create_key_value(KeyValueConfig(bucket=BUCKET, history=1))
    except (nats.errors.Error, TimeoutError) as error:
        raise Failed("unavailable", f"the bucket {BUCKET} cannot be had ({type(error).__name__})") from None


async def create(bus: Bus, tenant: str, label: str = "") -> str:
    """Makes a key for a tenant and returns it; it cannot be shown again. Raises BadName and Failed(unavailable)."""
    record = KeyRecord(tenant=checked("tenant", tenant), label=label, created_ms=int(now_ms()))
    key = f"hk-{secrets.token_urlsafe(32)}"
    bucket = await _bucket(bus)
    await bucket.create(_name(key), msgspec.json.encode(record))
    return key


async def revoke(bus: Bus, key: str) -> None:
    """Takes a key back: every gateway refuses it within `POLL_S`. Raises Failed(unavailable)."""
    bucket = await _bucket(bus)
    await bucket.delete(_name(key))


async def records(bus: Bus) -> list[KeyRecord]:
    """What is kept of every key, oldest first; the keys themselves are kept nowhere. Raises Failed(unavailable)."""
    bucket = await _bucket(bus)
    found: list[KeyRecord] = []
    for name in await key_names(bus, BUCKET):
        with contextlib.suppress(nats.js.errors.KeyNotFoundError, msgspec.DecodeError):
            found.append(msgspec.json.decode((await bucket.get(name)).value or b"", type=KeyRecord))
    return sorted(found, key=lambda record: record.created_ms)


async def tenant_of(bus: Bus, key: str) -> str | None:
    """The tenant of a key as the bucket has it now, None if it is not known. Raises Failed(unavailable)."""
    bucket = await _bucket(bus)
    try:
        entry = await bucket.get(_name(key))
    except nats.js.errors.KeyNotFoundError:
        return None
    return _tenant_in(entry.value or b"")


def _tenant_in(record: bytes) -> str | None:
    try:
        return checked("tenant", msgspec.json.decode(record, type=KeyRecord).tenant)
    except (msgspec.DecodeError, BadName):
        return None


async def ensure_key(bus: Bus, tenant: str, data: Path) -> str:
    """The key that `<data>/<tenant>.key` holds, so that it can be shown again; a new one if there is none that works.

    Only the owner may read the file. Raises BadName, Failed(unavailable) and OSError.
    """
    path = data / f"{checked('tenant', tenant)}.key"
    kept = _kept(path)
    if kept and await tenant_of(bus, kept) == tenant:
        return kept
    key = await create(bus, tenant, "made at the first start")
    _keep(path, key)
    return key


def _kept(path: Path) -> str | None:
    with contextlib.suppress(FileNotFoundError, UnicodeDecodeError):
        key = path.read_text().strip()
        path.chmod(0o600)
        return key
    return None


def _keep(path: Path, key: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f"{key}\n")


class KeyRing:
    """All keys in memory, kept up with the bucket: looking one up is a dict access.

    Changes are heard at once, and read anew every `poll_s` in case that was lost. While NATS cannot be reached the
    known keys stay known.
    """

    def __init__(self, bus: Bus, *, poll_s: float = POLL_S) -> None:
        self._bus, self._poll_s = bus, poll_s
        self._tenants: dict[str, str] = {}
        self._read_at: tuple[int, int] | None = None
        self._changed = asyncio.Event()
        self._subscription: Subscription | None = None
        self._task: asyncio.Task[None] | None = None

    def tenant_of(self, key: str) -> str | None:
        """The tenant of a key, None if it is not known."""
        return self._tenants.get(_name(key))

    async def start(self) -> None:
        """Returns when all keys are known; raises Failed(unavailable)."""
        self._subscription = await self._bus.subscribe(f"$KV.{BUCKET}.>", self._on_change)
        await self._refresh()
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def _on_change(self, _: Msg) -> None:
        self._changed.set()

    async def _follow(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._poll_s):
                    await self._changed.wait()
                    await asyncio.sleep(_SETTLE_S)
            self._changed.clear()
            try:
                await self._refresh()
            except (Failed, nats.errors.Error, TimeoutError) as error:
                log.warning("the keys cannot be read now: %s", type(error).__name__)

    async def _refresh(self) -> None:
        """Reads the bucket if it has changed since it was last read."""
        bucket = await _bucket(self._bus)
        status = await bucket.status()
        state = status.stream_info.state
        if self._read_at == (state.last_seq, state.messages):
            return
        found: dict[str, str] = {}
        for name in await key_names(self._bus, BUCKET):
            with contextlib.suppress(nats.js.errors.KeyNotFoundError):
                if tenant := _tenant_in((await bucket.get(name)).value or b""):
                    found[name] = tenant
        self._tenants, self._read_at = found, (state.last_seq, state.messages)

    async def close(self) -> None:
        """Stops following the bucket."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._subscription is not None and self._bus.connected:
            with contextlib.suppress(nats.errors.Error):
                await self._subscription.unsubscribe()
