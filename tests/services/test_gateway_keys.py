"""API keys in a real JetStream bucket."""

import asyncio
from pathlib import Path

import pytest
from scripted_edge import eventually

from hasten.buckets import key_names
from hasten.bus import Bus
from hasten.caller import Limits, duration_s
from hasten.keys import BUCKET, KeyRing, create, ensure_key, limit_tenant, listed, record_of, revoke, tenant_limits
from hasten.messages.failure import Failed
from hasten.nats_server import NatsServer
from hasten.settings import SettingsError
from hasten.topics import BadName


async def owner(bus: Bus, key: str) -> str:
    """The tenant of a key as the bucket has it."""
    record = await record_of(bus, key)
    return "" if record is None else record.tenant


def whose(ring: KeyRing, key: str) -> str | None:
    """The tenant of a key as the ring has it."""
    caller = ring.caller_of(key)
    return None if caller is None else caller.tenant


async def test_a_key_is_unguessable_and_only_its_digest_is_kept(bus: Bus) -> None:
    key, other = await create(bus, "acme", "laptop"), await create(bus, "acme")
    assert key != other
    assert key.startswith("hk-")
    assert len(key) >= 3 + 43
    bucket = await bus.js.key_value(BUCKET)
    for name in await key_names(bus, BUCKET):
        entry = await bucket.get(name)
        assert key[3:] not in name + str(entry.value)
    assert await owner(bus, key) == "acme"
    assert await record_of(bus, key[:-1]) is None


@pytest.mark.parametrize("tenant", ["", "a b", "a.b", "*", ">", "A", "a\r\nb", "x" * 65])
async def test_a_key_for_a_name_that_cannot_be_a_subject_is_refused(bus: Bus, tenant: str) -> None:
    with pytest.raises(BadName):
        await create(bus, tenant)


async def test_a_ring_knows_old_keys_and_hears_of_new_and_revoked_ones(bus: Bus) -> None:
    old = await create(bus, "acme")
    ring = KeyRing(bus, poll_s=3600)
    await ring.start()
    assert whose(ring, old) == "acme"
    assert whose(ring, "") is None
    assert whose(ring, "hk-\ud800") is None
    new = await create(bus, "other")
    await eventually(lambda: whose(ring, new) == "other")
    await revoke(bus, old)
    await eventually(lambda: whose(ring, old) is None)
    assert whose(ring, new) == "other"
    await ring.close()


async def test_a_record_that_is_none_gives_nobody_access(bus: Bus) -> None:
    key = await create(bus, "acme")
    bucket = await bus.js.key_value(BUCKET)
    (name,) = await key_names(bus, BUCKET)
    ring = KeyRing(bus)
    await ring.start()
    for record in (b"", b"{", b'{"tenant":"a.b"}', b'{"tenant":7}', b"[]"):
        await bucket.put(name, b'{"tenant":"acme"}')
        await eventually(lambda: whose(ring, key) == "acme")
        await bucket.put(name, record)
        await eventually(lambda: whose(ring, key) is None)
        assert await record_of(bus, key) is None
    await ring.close()


async def test_a_ring_hears_of_a_revocation_after_the_server_was_restarted(tmp_path: Path) -> None:
    server = await NatsServer(tmp_path / "jetstream").start()
    bus = await Bus.connect(server.url)
    key = await create(bus, "acme")
    ring = KeyRing(bus)
    await ring.start()
    await server.stop(kill=True)
    await asyncio.sleep(0.2)
    assert whose(ring, key) == "acme"
    again = await NatsServer(tmp_path / "jetstream", port=server.port).start()
    await eventually(lambda: bus.connected)
    other = await Bus.connect(again.url)
    await revoke(other, key)
    await eventually(lambda: whose(ring, key) is None)
    await ring.close()
    await other.close()
    await bus.close()
    await again.stop(kill=True)


async def test_a_caller_is_known_by_all_that_was_said_when_its_key_was_made(bus: Bus) -> None:
    limits = Limits(requests_per_minute=60, tokens_per_minute=9000, budget_usd=2.5, budget_per="day")
    key = await create(bus, "acme", "laptop", operator=True, limits=limits, expires_s=3600)
    plain = await create(bus, "acme")
    ring = KeyRing(bus)
    await ring.start()
    caller, other = ring.caller_of(key), ring.caller_of(plain)
    assert caller is not None
    assert other is not None
    assert (caller.operator, caller.limits, caller.tenant_limits) == (True, limits, Limits())
    assert (other.operator, other.limits) == (False, Limits())
    assert caller.key_id != other.key_id
    shared = Limits(requests_per_minute=100)
    await limit_tenant(bus, "acme", shared)
    await eventually(lambda: (known := ring.caller_of(plain)) is not None and known.tenant_limits == shared)
    assert await tenant_limits(bus) == {"acme": shared}
    await ring.close()


async def test_a_list_of_keys_shows_none_and_an_id_is_enough_to_take_one_back(bus: Bus) -> None:
    made = [await create(bus, "acme", f"number {number}") for number in range(3)]
    found = await listed(bus)
    assert [key.record.label for key in found] == [f"number {number}" for number in range(3)]
    for key, shown in zip(made, found, strict=True):
        assert key.startswith(shown.record.prefix)
        assert key[len(shown.record.prefix) :] not in str(shown)
    assert await revoke(bus, found[1].id)
    assert not await revoke(bus, found[1].id)
    assert not await revoke(bus, made[1])
    for none in ("", "hk-", found[0].id[:-1], "*", ">"):
        assert not await revoke(bus, none)
    assert await revoke(bus, made[2])
    assert [key.id for key in await listed(bus)] == [found[0].id]


async def test_an_expired_key_is_not_known(bus: Bus) -> None:
    key, lasting = await create(bus, "acme", expires_s=0.001), await create(bus, "acme", expires_s=3600)
    ring = KeyRing(bus)
    await ring.start()
    assert whose(ring, lasting) == "acme"
    await eventually(lambda: whose(ring, key) is None)
    await ring.close()


async def test_a_record_of_the_first_version_is_a_key_without_limits(bus: Bus) -> None:
    key = await create(bus, "acme")
    bucket = await bus.js.key_value(BUCKET)
    (name,) = await key_names(bus, BUCKET)
    await bucket.put(name, b'{"tenant":"acme","label":"old","created_ms":1764460800000}')
    ring = KeyRing(bus)
    await ring.start()
    caller = ring.caller_of(key)
    assert caller is not None
    assert (caller.tenant, caller.operator, caller.limits) == ("acme", False, Limits())
    await ring.close()


@pytest.mark.parametrize(
    ("text", "seconds"), [("45s", 45), ("90m", 5400), ("12h", 43200), ("30d", 2592000), ("1w", 604800)]
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "d", "30", "30x", "-1d", "0d", "1.5h", "٣d", "30 d", "9" * 12 + "d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="no duration"):
        duration_s(text)


def test_no_key_lasts_longer_than_there_are_dates() -> None:
    for text in ("999999999w", "36526d"):
        with pytest.raises(SettingsError, match="too long"):
            duration_s(text)


async def test_the_first_key_is_made_once_and_can_be_shown_again(bus: Bus, tmp_path: Path) -> None:
    data = tmp_path / "not" / "there"
    key = await ensure_key(bus, "demo", data)
    assert await ensure_key(bus, "demo", data) == key
    record = await record_of(bus, key)
    assert record is not None
    assert record.operator
    assert (data / "demo.key").stat().st_mode & 0o777 == 0o600
    assert await owner(bus, key) == "demo"


async def test_a_kept_key_that_does_not_work_is_replaced(bus: Bus, tmp_path: Path) -> None:
    path = tmp_path / "demo.key"
    first = await ensure_key(bus, "demo", tmp_path)
    await revoke(bus, first)
    second = await ensure_key(bus, "demo", tmp_path)
    assert second != first
    for content in (b"", b"garbage\n", b"\xff\xfe", (await create(bus, "other")).encode()):
        path.write_bytes(content)
        path.chmod(0o644)
        made = await ensure_key(bus, "demo", tmp_path)
        assert await owner(bus, made) == "demo"
        assert path.read_text() == f"{made}\n"
        assert path.stat().st_mode & 0o777 == 0o600


async def test_a_ring_knows_a_bucket_that_was_made_anew_with_as_many_entries(bus: Bus) -> None:
    """Numbers of a bucket begin anew with it: what was revoked by losing it must not stay valid."""
    old = await create(bus, "acme")
    ring = KeyRing(bus, poll_s=3600)
    await ring._refresh()
    await bus.js.delete_stream(f"KV_{BUCKET}")
    new = await create(bus, "other")
    await ring._refresh()
    assert (whose(ring, old), whose(ring, new)) == (None, "other")


@pytest.mark.parametrize(
    "limits",
    [
        Limits(requests_per_minute=2**60),
        Limits(tokens_per_minute=-1),
        Limits(budget_usd=float("nan")),
        Limits(budget_usd=float("inf")),
        Limits(budget_usd=-0.5),
        Limits(budget_per="year"),  # type: ignore[arg-type]
    ],
)
async def test_limits_that_could_not_be_read_again_are_refused_and_not_kept(bus: Bus, limits: Limits) -> None:
    """A key would give nobody access, and a tenant would have no limits."""
    await limit_tenant(bus, "acme", Limits(requests_per_minute=7))
    for attempt in (create(bus, "acme", limits=limits), limit_tenant(bus, "acme", limits)):
        with pytest.raises(Failed, match="bad_request"):
            await attempt
    assert await listed(bus) == []
    assert await tenant_limits(bus) == {"acme": Limits(requests_per_minute=7)}
