"""A wrong hit is removed by the request that it answered, everywhere and for good."""

import asyncio
from typing import Any

import pytest
from cache_rig import QUESTION, Caller, Shared, missed, running, until, vector

from hasten.bus import Bus
from hasten.cache.service import Cache
from hasten.fingerprint import question_hash
from hasten.messages.cache import SERVED, CacheHit, Invalidation, Served
from hasten.messages.change import CHANGE, Change
from hasten.messages.failure import Failure
from hasten.nats_server import NatsServer
from hasten.vectors.store import VectorStore

ASKED = "how long is the return period for shoes"


async def served(bus: Bus, request_id: str, entry_id: str, tenant: str = "acme") -> None:
    """What an orchestrator says after a hit by meaning; the flush makes the server handle it before what follows."""
    record = Served(entry_id=entry_id, question=question_hash(ASKED))
    await bus.publish(SERVED, record, tenant=tenant, request_id=request_id)
    await bus.flush()


async def known(bus: Bus, request_id: str, tenant: str = "acme") -> None:
    async def stored() -> bool:
        info = await bus.js.stream_info("HASTEN_SERVED", subjects_filter=">")
        return SERVED.subject(tenant=tenant, request_id=request_id) in (info.state.subjects or {})

    await until(stored)


async def test_one_call_removes_a_wrong_hit_for_good(
    bus: Bus, nats_server: NatsServer, vectors: VectorStore, acme: Caller
) -> None:
    shared: Any = Shared(vectors)
    async with running(bus, shared):
        stored = await acme.put("k")
        assert isinstance(await acme.near(ASKED), CacheHit)
        await served(bus, "r1", stored.entry_id)
        await known(bus, "r1")
        other = await Bus.connect(nats_server.url)
        async with running(other, shared):
            would = await acme.invalidate(request_id="r1", dry_run=True)
            assert [one.entry_id for one in would.listed] == [stored.entry_id]
            done = await acme.invalidate(request_id="r1")
            assert isinstance(done, Invalidation)
            assert done.entries == 1
            await acme.put("k")
            for _ in range(8):
                assert missed(await acme.near(ASKED)) == "rejected", "whichever replica answers"
        await other.close()
        assert isinstance(await acme.near("How long is the return period for shoes, please?"), CacheHit)
    async with running(bus, shared):
        assert missed(await acme.near(ASKED)) == "rejected", "after a restart"
        await acme.invalidate(everything=True)
        await acme.put("new", ASKED, vector=vector(0.0, 1.0))
        assert missed(await acme.near(QUESTION, vector=vector(0.0, 1.0))) == "rejected", "nor the other way round"


async def test_an_entry_that_is_gone_is_refused_when_it_comes_back(cache: Cache, bus: Bus, acme: Caller) -> None:
    stored = await acme.put("k")
    await acme.invalidate(everything=True)
    await served(bus, "r1", stored.entry_id)
    await known(bus, "r1")
    assert (await acme.invalidate(request_id="r1")).entries == 0
    await acme.put("k")
    assert missed(await acme.near(ASKED)) == "rejected"


async def test_an_unknown_request_is_an_error_that_says_what_to_do(cache: Cache, bus: Bus, acme: Caller) -> None:
    stored = await acme.put("k")
    await served(bus, "r1", stored.entry_id)
    await known(bus, "r1")
    for caller, request_id in ((acme, "r2"), (Caller(bus, "other"), "r1")):
        refused = await caller.invalidate(request_id=request_id)
        assert isinstance(refused, Failure)
        assert (refused.code, refused.param) == ("bad_request", "request_id")
        assert "24 h" in refused.detail
    assert isinstance(await acme.near(ASKED), CacheHit), "and nothing has happened"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"entries": ["e1"]}, "entries"),
        ({"entries": [""]}, "entries"),
        ({"entries": ["2F1C9BDE-6A1F-5B53-9C8E-0D6A2B0B7C11"]}, "entries"),
        ({"reject": "x", "tags": ["t"]}, "entries"),
        ({"request_id": "r.1"}, "request_id"),
        ({"request_id": ""}, "request_id"),
        ({"request_id": "r1", "reject": "x", "entries": ["2f1c9bde-6a1f-5b53-9c8e-0d6a2b0b7c11"]}, "reject"),
    ],
)
async def test_what_names_nothing_properly_is_refused(
    cache: Cache, acme: Caller, fields: dict[str, Any], param: str
) -> None:
    refused = await acme.invalidate(**fields)
    assert isinstance(refused, Failure)
    assert (refused.code, refused.param) == ("bad_request", param)


async def test_records_hold_no_text_and_are_given_their_time_by_the_setting(bus: Bus, vectors: VectorStore) -> None:
    shared: Any = Shared(vectors)
    for keep_s in (3600.0, 7200.0):
        async with running(bus, shared, reject_s=keep_s):
            info = await bus.js.stream_info("HASTEN_SERVED")
            assert info.config.max_age == keep_s
    await served(bus, "r1", "e1")
    await known(bus, "r1")
    found = await bus.js.get_last_msg("HASTEN_SERVED", SERVED.subject(tenant="acme", request_id="r1"))
    assert found.data is not None
    assert b"return" not in found.data


async def test_the_rows_of_a_table_called_reject_are_no_rejections(cache: Cache, bus: Bus) -> None:
    """They would stay in memory for ever."""
    at = await bus.store(CHANGE, Change(table="reject", key=7), source="shop")
    while cache._freshness.applied < at:
        await asyncio.sleep(0.005)
    assert not cache._rejections._known


async def test_rejections_go_on_after_their_bucket_and_the_records_were_deleted(
    bus: Bus, vectors: VectorStore, acme: Caller
) -> None:
    """As all of JetStream is lost with a server that has no disk of its own."""
    shared: Any = Shared(vectors)
    async with running(bus, shared):
        first = await acme.put("k")
        await acme.invalidate(entries=[first.entry_id], reject=ASKED)
        for stream in ("KV_hasten_rejected", "HASTEN_SERVED"):
            await bus.js.delete_stream(stream)
        unknown = await acme.invalidate(request_id="r1")
        assert isinstance(unknown, Failure)
        assert unknown.code == "bad_request"
        second = await acme.put("k2", "How long may I return the shoes?")
        await served(bus, "r2", second.entry_id)
        await known(bus, "r2")
        assert isinstance(await acme.invalidate(request_id="r2"), Invalidation)
    async with running(bus, shared):
        await acme.put("k")
        assert missed(await acme.near(ASKED)) == "rejected", "the one from before is kept too"
