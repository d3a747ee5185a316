"""The measurement of how soon a change takes effect, on two replicas that share a store."""

from pathlib import Path
from typing import Any

import pytest
from cache_rig import Shared, running

from hasten.bench import freshness
from hasten.bench.freshness import freshened, freshness_figures
from hasten.bus import Bus
from hasten.messages.failure import Failed
from hasten.nats_server import NatsServer
from hasten.vectors.opening import store


async def test_a_change_is_timed_until_all_refuse_and_the_entry_is_gone(
    nats_server: NatsServer, bus: Bus, tmp_path: Path
) -> None:
    shared: Any = Shared(store(":memory:", tmp_path, "cache"))
    one, two = await Bus.connect(nats_server.url), await Bus.connect(nats_server.url)
    async with running(one, shared), running(two, shared):
        seen = await freshened(bus, "bench", 8)
    assert len(seen.refused) == len(seen.deleted) == 8
    assert all(value > 0 for value in seen.refused)
    assert all(value >= 0 for value in seen.deleted)
    assert any(seen.deleted)
    refused, deleted = freshness_figures(seen, [1.0])
    assert refused.budget == deleted.budget == "p99 < 50 ms"
    assert refused.baseline_ms == 1.0
    for connection in (one, two):
        await connection.close()


async def test_without_a_cache_it_says_so(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freshness, "WAIT_S", 0.2)
    with pytest.raises(Failed, match="did not store"):
        await freshened(bus, "bench", 1)
