"""deploy/debezium/accounts.conf on a real server: Debezium's user stores rows and hears nobody."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import nats
import pytest
import pytest_asyncio
from debezium import PREFIX, SHIPPED

from hasten.bus import Bus
from hasten.journal import ensure_stream, stream_state
from hasten.messages.change import CHANGE
from hasten.nats_server import NatsServer


@pytest_asyncio.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[NatsServer]:
    monkeypatch.setenv("HASTEN_SERVICES_PASSWORD", "s-secret")
    monkeypatch.setenv("HASTEN_DEBEZIUM_PASSWORD", "d-secret")
    config = (SHIPPED.parent / "accounts.conf").read_text()
    made = await NatsServer(tmp_path / "jetstream", config=config).start()
    yield made
    await made.stop(kill=True)


async def test_debezium_stores_rows_and_neither_hears_nor_says_anything_else(server: NatsServer) -> None:
    services = await Bus.connect(f"nats://services:s-secret@127.0.0.1:{server.port}")
    await ensure_stream(services, [f"{PREFIX}.>"])
    debezium = await nats.connect(f"nats://debezium:d-secret@127.0.0.1:{server.port}", max_reconnect_attempts=1)
    heard: list[str] = []

    async def listen(msg: object) -> None:
        heard.append(repr(msg))

    await debezium.subscribe(">", cb=listen)
    stored = await asyncio.gather(
        *(debezium.jetstream().publish(f"{PREFIX}.public.prices", b"{}", headers={"a": "b"}) for _ in range(5))
    )
    assert sorted(ack.seq for ack in stored) == [1, 2, 3, 4, 5]
    await services.client.publish("_INBOX.someone.reply", b"secret")
    await services.client.flush()
    with pytest.raises((nats.errors.NoRespondersError, TimeoutError, nats.js.errors.NoStreamResponseError)):
        await debezium.jetstream().publish(CHANGE.subject(source="app"), b"{}", timeout=1)
    await debezium.flush()
    assert [msg for msg in heard if "secret" in msg] == []
    assert (await stream_state(services)).messages == 5
    await debezium.close()
    await services.close()
