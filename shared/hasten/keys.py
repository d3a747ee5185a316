"""API keys: made here and shown once, kept as digests in a JetStream bucket, looked up in memory.

A key has 256 random bits, so a plain SHA-256 is enough at rest. It is found by the beginning of its digest, its public
id, which nobody can steer; the whole digest is then compared in constant time, with that of no key when the id is not
known, so that the time a lookup takes says nothing of any key.
"""

import asyncio
import contextlib
import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import TypeVar

import msgspec
import nats.errors
import nats.js.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js.api import KeyValueConfig
from nats.js.kv import KeyValue

from hasten.buckets import key_names
from hasten.bus import Bus
from hasten.caller import Caller, KeyRecord, Limits, TenantRecord
from hasten.cancellation import cancelled
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
_KEY, _TENANT = "key.", "tenant."
ID_CHARS = 16
"""Of the digest of a key, in hex: 64 bits tell keys apart and say nothing of them."""
_SHOWN_CHARS = 7
"""Of a key, in its record: 24 of its 256 bits."""
_NO_KEY = "0" * 64


class Key(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key as it is listed: its public id and what is kept of it."""

    id: str
    record: KeyRecord


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


async def _bucket(bus: Bus) -> KeyValue:
    try:
        try:
            return await bus.js.key_value(BUCKET)
        except nats.js.errors.BucketNotFoundError:
            return await bus.js.create_key_value(KeyValueConfig(bucket=BUCKET, history=1))
    except (nats.errors.Error, TimeoutError) as error:
        raise Failed("unavailable", f"the bucket {BUCKET} cannot be had ({type(error).__name__})") from None


async def create(
    bus: Bus,
    tenant: str,
    label: str = "",
    *,
    operator: bool = False,
    limits: Limits | None = None,
    expires_s: float | None = None,
) -> str:
    """Makes a key for a tenant and returns it; it cannot be shown again. Raises BadName and Failed(unavailable |
    bad_request)."""
    key, created_ms = f"hk-{secrets.token_urlsafe(32)}", int(now_ms())
    record = KeyRecord(
        tenant=checked("tenant", tenant),
        label=label,
        created_ms=created_ms,
        prefix=key[:_SHOWN_CHARS],
        operator=operator,
        expires_ms=0 if expires_s is None else created_ms + int(expires_s * 1000),
        limits=limits or Limits(),
    )
    raw = _encoded(record)
    bucket = await _bucket(bus)
    await bucket.create(_KEY + _digest(key), raw)
    return key


def _encoded(record: KeyRecord | TenantRecord) -> bytes:
    """A record as it is kept; raises Failed(bad_request) for one that could not be read again, and would give nobody
    access or be no limit."""
    raw = msgspec.json.encode(record)
    try:
        msgspec.json.decode(raw, type=type(record))
    except msgspec.ValidationError as error:
        raise Failed("bad_request", f"a key or limit cannot be this: {error}") from None
    return raw


async def revoke(bus: Bus, key: str) -> bool:
    """Takes a key back, given itself or its id: every gateway refuses it within `POLL_S`. False when there is no such
    key; raises Failed(unavailable)."""
    bucket = await _bucket(bus)
    for name in await key_names(bus, BUCKET):
        if name == _KEY + _digest(key) or (len(key) == ID_CHARS and name.startswith(_KEY + key)):
            with contextlib.suppress(nats.js.errors.KeyNotFoundError):
                await bucket.get(name)
                await bucket.delete(name)
                return True
    return False


async def limit_tenant(bus: Bus, tenant: str, limits: Limits) -> None:
    """Sets what all keys of a tenant may use up together. Raises BadName and Failed(unavailable | bad_request)."""
    raw = _encoded(TenantRecord(limits=limits))
    bucket = await _bucket(bus)
    await bucket.put(_TENANT + checked("tenant", tenant), raw)


async def listed(bus: Bus) -> list[Key]:
    """Every key by its id, oldest first; the keys themselves are kept nowhere. Raises Failed(unavailable)."""
    found = [Key(id=name[:ID_CHARS], record=record) for name, record in (await _records(bus)).keys.items()]
    return sorted(found, key=lambda key: key.record.created_ms)


async def tenant_limits(bus: Bus) -> dict[str, Limits]:
    """The limits of the tenants that have some. Raises Failed(unavailable)."""
    return {tenant: limits for tenant, limits in (await _records(bus)).tenants.items() if limits != Limits()}


async def record_of(bus: Bus, key: str) -> KeyRecord | None:
    """What the bucket has of a key now, None if it is not known. Raises Failed(unavailable)."""
    bucket = await _bucket(bus)
    try:
        return _decoded((await bucket.get(_KEY + _digest(key))).value or b"", KeyRecord)
    except nats.js.errors.KeyNotFoundError:
        return None


class _Records(msgspec.Struct):
    """The bucket: keys by digest, and the limits of tenants."""

    keys: dict[str, KeyRecord] = {}
    tenants: dict[str, Limits] = {}


async def _records(bus: Bus) -> _Records:
    bucket, found = await _bucket(bus), _Records()
    for name in await key_names(bus, BUCKET):
        with contextlib.suppress(nats.js.errors.KeyNotFoundError):
            raw = (await bucket.get(name)).value or b""
            if name.startswith(_KEY) and (record := _decoded(raw, KeyRecord)) is not None:
                found.keys[name.removeprefix(_KEY)] = record
            elif name.startswith(_TENANT) and (whole := _decoded(raw, TenantRecord)) is not None:
                found.tenants[name.removeprefix(_TENANT)] = whole.limits
            elif name.startswith(_TENANT):
                log.warning("a tenant has no limits, since its record cannot be read: set them anew")
    return found


R = TypeVar("R", KeyRecord, TenantRecord)


def _decoded(raw: bytes, kind: type[R]) -> R | None:
    """A record, None for bytes that are none: they give nobody access."""
    try:
        record = msgspec.json.decode(raw, type=kind)
        if isinstance(record, KeyRecord):
            checked("tenant", record.tenant)
        return record
    except (msgspec.DecodeError, BadName):
        return None


async def ensure_key(bus: Bus, tenant: str, data: Path) -> str:
    """The key that `<data>/<tenant>.key` holds, so that it can be shown again; a new one if there is none that works.

    It is an operator's: who starts a system on a machine may do everything there. Only the owner may read the file.
    Raises BadName, Failed(unavailable) and OSError.
    """
    path = data / f"{checked('tenant', tenant)}.key"
    kept = _kept(path)
    record = await record_of(bus, kept) if kept else None
    if kept and record is not None and record.tenant == tenant:
        if not record.operator:
            promoted = msgspec.structs.replace(record, operator=True)
            await (await _bucket(bus)).put(_KEY + _digest(kept), msgspec.json.encode(promoted))
        return kept
    key = await create(bus, tenant, "made at the first start", operator=True)
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
        self._records = _Records()
        self._digests: dict[str, str] = {}
        self._read_at: tuple[object, ...] | None = None
        self._changed = asyncio.Event()
        self._subscription: Subscription | None = None
        self._task: asyncio.Task[None] | None = None

    def caller_of(self, key: str) -> Caller | None:
        """Who a key stands for now, None if it is not known, was taken back or has expired."""
        digest = _digest(key)
        known = self._digests.get(digest[:ID_CHARS], _NO_KEY)
        record = self._records.keys.get(known)
        if not hmac.compare_digest(digest, known) or record is None:
            return None
        if record.expires_ms and record.expires_ms <= now_ms():
            return None
        return Caller(
            tenant=record.tenant,
            key_id=digest[:ID_CHARS],
            operator=record.operator,
            limits=record.limits,
            tenant_limits=self._records.tenants.get(record.tenant, Limits()),
        )

    async def start(self) -> None:
        """Returns when all keys are known; raises Failed(unavailable)."""
        self._subscription = await self._bus.subscribe(f"$KV.{BUCKET}.>", self._on_change)
        await self._refresh()
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def _on_change(self, _: Msg) -> None:
        self._changed.set()

    async def _follow(self) -> None:
        while not cancelled():
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
        info = (await bucket.status()).stream_info
        read_at = (info.created, info.state.last_seq, info.state.messages)  # one made anew counts from 1 again
        if self._read_at == read_at:
            return
        self._records = await _records(self._bus)
        self._digests = {digest[:ID_CHARS]: digest for digest in self._records.keys}
        self._read_at = read_at

    async def close(self) -> None:
        """Stops following the bucket."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._subscription is not None and self._bus.connected:
            with contextlib.suppress(nats.errors.Error):
                await self._subscription.unsubscribe()
