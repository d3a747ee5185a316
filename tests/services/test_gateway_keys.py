"""API keys in a real JetStream bucket."""

import asyncio
from pathlib import Path

import pytest
from scripted_edge import eventually

from hasten.buckets import key_names
from hasten.bus import Bus
from hasten.keys import BUCKET, KeyRing, create, ensure_key, revoke, tenant_of
from hasten.nats_server import NatsServer
from hasten.topics import BadName


async def test_a_key_is_unguessable_and_only_its_digest_is_kept(bus: Bus) -> None:
    key, other = await create(bus, "acme", "laptop"), await create(bus, "acme")
    assert key != other
    assert key.startswith("hk-")
    assert len(key) >= 3 + 43
    bucket = await bus.js.key_value(BUCKET)
    for name in await key_names(bus, BUCKET):
        entry = await bucket.get(name)
        assert key[3:] not in name + str(entry.value)
    assert await tenant_of(bus, key) == "acme"
    assert await tenant_of(bus, key[:-1]) is None


@pytest.mark.parametrize("tenant", ["", "a b", "a.b", "*", ">", "A", "a\r\nb", "x" * 65])
async def test_a_key_for_a_name_that_cannot_be_a_subject_is_refused(bus: Bus, tenant: str) -> None:
    with pytest.raises(BadName):
        await create(bus, tenant)


async def test_a_ring_knows_old_keys_and_hears_of_new_and_revoked_ones(bus: Bus) -> None:
    old = await create(bus, "acme")
    ring = KeyRing(bus, poll_s=3600)
    await ring.start()
    assert ring.tenant_of(old) == "acme"
    assert ring.tenant_of("") is None
    assert ring.tenant_of("hk-\ud800") is None
    new = await create(bus, "other")
    await eventually(lambda: ring.tenant_of(new) == "other")
    await revoke(bus, old)
    await eventually(lambda: ring.tenant_of(old) is None)
    assert ring.tenant_of(new) == "other"
    await ring.close()


async def test_a_record_that_is_none_gives_nobody_access(bus: Bus) -> None:
    key = await create(bus, "acme")
    bucket = await bus.js.key_value(BUCKET)
    (name,) = await key_names(bus, BUCKET)
    ring = KeyRing(bus)
    await ring.start()
    for record in (b"", b"{", b'{"tenant":"a.b"}', b'{"tenant":7}', b"[]"):
        await bucket.put(name, b'{"tenant":"acme"}')
        await eventually(lambda: ring.tenant_of(key) == "acme")
        await bucket.put(name, record)
        await eventually(lambda: ring.tenant_of(key) is None)
        assert await tenant_of(bus, key) is None
    await ring.close()


async def test_a_ring_hears_of_a_revocation_after_the_server_was_restarted(tmp_path: Path) -> None:
    server = await NatsServer(tmp_path / "jetstream").start()
    bus = await Bus.connect(server.url)
    key = await create(bus, "acme")
    ring = KeyRing(bus)
    await ring.start()
    await server.stop(kill=True)
    await asyncio.sleep(0.2)
    assert ring.tenant_of(key) == "acme"
    again = await NatsServer(tmp_path / "jetstream", port=server.port).start()
    await eventually(lambda: bus.connected)
    other = await Bus.connect(again.url)
    await revoke(other, key)
    await eventually(lambda: ring.tenant_of(key) is None)
    await ring.close()
    await other.close()
    await bus.close()
    await again.stop(kill=True)


async def test_the_first_key_is_made_once_and_can_be_shown_again(bus: Bus, tmp_path: Path) -> None:
    data = tmp_path / "not" / "there"
    key = await ensure_key(bus, "demo", data)
    assert await ensure_key(bus, "demo", data) == key
    assert (data / "demo.key").stat().st_mode & 0o777 == 0o600
    assert await tenant_of(bus, key) == "demo"


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
        assert await tenant_of(bus, made) == "demo"
        assert path.read_text() == f"{made}\n"
        assert path.stat().st_mode & 0o777 == 0o600
