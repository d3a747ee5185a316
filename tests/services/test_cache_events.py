"""Change events by the operator's rules: what they evict, what a dry run says they would, and from which config."""

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from cache_rig import Caller, missed, running, until
from typer.testing import CliRunner

from hasten.bus import Bus
from hasten.cache.service import Cache
from hasten.changes import DocumentRule, Rules, TableRule
from hasten.changes.reduced import reduced
from hasten.changes.settings import Changes
from hasten.cli import app
from hasten.messages.cache import CacheHit, EventReading, Invalidation, SampleEvent
from hasten.messages.change import CHANGE, STREAM
from hasten.messages.failure import Failed, Failure
from hasten.nats_server import NatsServer
from hasten.runtime import build
from hasten.settings import read_config
from hasten.vectors.store import VectorStore

SUBJECT = "shop.public.prices"
RULES = [
    TableRule(
        table="public.prices", key=["id", "tenant"], tenant="{tenant}", tags=["price-list", "n:{id}", "kind:{kind}"]
    ),
    TableRule(
        table="public.articles",
        key=["id"],
        document=DocumentRule(collection="help", tenant="acme", id="{id}", text="{body}"),
    ),
]


@pytest_asyncio.fixture
async def ruled(bus: Bus, vectors: VectorStore) -> AsyncIterator[Cache]:
    async with running(bus, vectors, Changes(["shop.>"], Rules(RULES))) as made:
        yield made


def row(key: int = 7, tenant: str = "acme", op: str = "u", **columns: Any) -> dict[str, Any]:
    after = {"id": key, "tenant": tenant, **columns}
    return {"op": op, "before": None, "after": after, "source": {"schema": "public", "table": "prices"}}


async def publish(bus: Bus, body: Any, subject: str = SUBJECT) -> None:
    await bus.store_raw(subject, msgspec.json.encode(body))


@pytest.mark.parametrize("tag", ["prices:7,acme", "public.prices:7,acme", "price-list", "n:7", "kind:shoes", "prices"])
async def test_a_row_evicts_by_its_rules_and_for_its_tenant(bus: Bus, ruled: Cache, acme: Caller, tag: str) -> None:
    globex = Caller(bus, "globex")
    for caller in (acme, globex):
        await caller.put("k", tags=[tag])
    await publish(bus, row(tenant="nobody-else"))
    await publish(bus, row())

    async def gone() -> bool:
        return not isinstance(await acme.exact("k"), CacheHit)

    await until(gone)
    assert isinstance(await globex.exact("k"), CacheHit)


async def test_a_second_pass_leaves_what_was_made_after_the_first(bus: Bus, ruled: Cache, acme: Caller) -> None:
    """The connector starts again and sends everything once more."""
    events = [row(key, kind="shoes") for key in range(100)]
    for lsn, body in enumerate(events, start=1):
        body["source"] |= {"connector": "postgresql", "name": "shop", "lsn": lsn, "ts_ms": lsn}
    for body in events:
        await publish(bus, body)
    await acme.invalidate(tags=["a barrier"])
    await acme.put("k", tags=["prices:7,acme", "price-list", "prices"])
    for body in events:
        await publish(bus, {**body, "ts_ms": 99})
    await acme.invalidate(tags=["a barrier"])
    assert isinstance(await acme.exact("k"), CacheHit)
    await publish(bus, row(7, kind="shoes"))
    await acme.invalidate(tags=["a barrier"])
    assert missed(await acme.exact("k")) in ("stale", "absent")


async def test_a_row_that_is_too_large_is_refused_with_both_sizes_and_evicts_without_its_text(
    bus: Bus, ruled: Cache, acme: Caller
) -> None:
    await acme.put("k", tags=["prices:7,acme"])
    data = msgspec.json.encode(row(body="x" * 3_000_000))
    with pytest.raises(Failed) as failed:
        await bus.store_raw(SUBJECT, data)
    assert failed.value.failure.code == "too_large"
    assert str(len(data)) in failed.value.failure.detail
    assert "1047552" in failed.value.failure.detail
    change = reduced(SUBJECT, {}, data, Rules(RULES))
    assert change is not None
    await bus.store(CHANGE, change, source="shop")
    await acme.invalidate(tags=["a barrier"])
    assert missed(await acme.exact("k")) in ("stale", "absent")


async def test_a_dry_run_says_what_an_event_would_evict_and_why(bus: Bus, ruled: Cache, acme: Caller) -> None:
    for key, tags in (("a", ["prices:7,acme"]), ("b", ["kind:boots"]), ("c", ["prices:8,acme"]), ("d", ["prices"])):
        await acme.put(key, text=f"question {key}", tags=tags)
    await Caller(bus, "globex").put("a", tags=["prices:7,acme"])
    done = await acme.invalidate(dry_run=True, event=SampleEvent(subject=SUBJECT, body=row(kind="shoes")))
    assert isinstance(done, Invalidation)
    assert done.entries == 3
    assert {entry.text for entry in done.listed} == {"question a", "question b", "question d"}
    reading = done.event
    assert reading is not None
    assert (reading.shape, reading.op, reading.table, reading.fault) == ("debezium", "update", "public.prices", "")
    assert reading.rules == ["public.prices"]
    why = {one.tag: one.why for one in reading.tags}
    assert why["prices:7,acme"] == "the row"
    assert why["n:7"] == "a tag of the rule"
    assert "the old one cannot be told" in why["kind"]
    for key in "abcd":
        assert isinstance(await acme.exact(key), CacheHit)


async def test_a_dry_run_of_what_is_not_understood(ruled: Cache, acme: Caller) -> None:
    async def tried(**event: Any) -> EventReading:
        done = await acme.invalidate(dry_run=True, event=SampleEvent(subject=SUBJECT, **event))
        assert isinstance(done, Invalidation), done
        assert done.event is not None
        return done.event

    unknown = await tried(body=[1])
    assert (unknown.shape, unknown.op) == ("unknown", "unreadable")
    assert "not a JSON object" in unknown.fault
    assert {"prices", "price-list", "n", "kind"} <= {one.tag for one in unknown.tags}
    assert (await tried(body={"ts_ms": 1})).tags == []
    assert (await tried()).shape == "tombstone"
    gone = await tried(headers={"Hasten-Key": '{"id": 7, "tenant": "acme"}'})
    assert (gone.shape, gone.op, gone.tags[0].tag) == ("tombstone", "delete", "prices:7,acme")


async def test_a_dry_run_tells_nothing_of_another_tenant(ruled: Cache, acme: Caller) -> None:
    done = await acme.invalidate(dry_run=True, event=SampleEvent(subject=SUBJECT, body=row(tenant="globex")))
    assert (done.entries, done.listed, done.event.tags) == (0, [], [])
    article = {"op": "u", "after": {"id": 1}, "before": None, "source": {"table": "articles", "schema": "public"}}
    mine = await acme.invalidate(dry_run=True, event=SampleEvent(subject=SUBJECT, body=article))
    assert "document:help/1" in {one.tag for one in mine.event.tags}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "only tried in a dry run"),
        ({"dry_run": True, "tags": ["x"]}, "either an event or what to remove"),
        ({"dry_run": True, "everything": True}, "either an event or what to remove"),
    ],
)
async def test_an_event_is_only_tried_and_alone(ruled: Cache, acme: Caller, fields: Any, said: str) -> None:
    reply = await acme.invalidate(event=SampleEvent(subject=SUBJECT, body={}), **fields)
    assert isinstance(reply, Failure)
    assert said in reply.detail


async def test_the_command_line_tries_an_event(
    nats_server: NatsServer, ruled: Cache, acme: Caller, tmp_path: Path
) -> None:
    import asyncio

    await acme.put("a", text="what is it", tags=["prices:7,acme"])
    file = tmp_path / "event.json"
    file.write_text(json.dumps(row()))
    common = ["--subject", SUBJECT, "--dry-run", "--tenant", "acme", "--nats", nats_server.url]

    async def run(*arguments: str) -> Any:
        return await asyncio.to_thread(CliRunner().invoke, app, ["invalidate", *arguments, *common])

    shown = (await run("--event", str(file))).output
    assert "read as debezium: update of public.prices, by the rules of public.prices" in shown
    assert "prices:7,acme" in shown
    assert "1 entry would be removed" in shown
    file.write_text("")
    told = json.loads((await run("--event", str(file), "--key", '{"id":7,"tenant":"acme"}', "--json")).output)
    assert (told["event"]["shape"], told["entries"]) == ("tombstone", 1)


async def test_every_service_takes_the_same_section(bus: Bus, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "rules.toml").write_text('[[tables]]\ntable = "public.prices"\ntags = ["kind:{kind}"]\n')
    (tmp_path / "hasten.toml").write_text('[changes]\nsources = ["shop.>"]\nrules = "rules.toml"\n')
    config = read_config(tmp_path / "hasten.toml")
    for service in ("orchestrator", "retriever", "cache"):
        unit: Any = build(service, bus, {**config, "cache": {"store_url": ":memory:"}}, data=str(tmp_path))
        if service == "cache":
            with caplog.at_level(logging.WARNING, "hasten.cache"):
                await unit.start()
            assert "tags[0] needs the column kind" in caplog.text
            assert "shop.>" in ((await bus.js.stream_info(STREAM)).config.subjects or [])
        rules = unit._ingestion._changes.rules if service == "retriever" else unit._freshness._changes.rules
        assert [rule.table for rule in rules.all] == ["public.prices"]
        await unit.close()
