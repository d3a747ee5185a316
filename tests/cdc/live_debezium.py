"""Real Debezium on a real PostgreSQL makes a real hasten's answers fresh. Run with `make test-cdc`; needs Java.

Everything is started here and ended here. What Debezium sends is compared with `recorded/`, which the default tests
read; `make test-cdc RECORD=1` writes it anew.
"""

import asyncio
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import shop
from debezium import MODES, Debezium, Mode, Record, missing
from postgres import Postgres
from shop import SNAPSHOT, STEPS, TABLES, Recorded, Step

from hasten.bus import Bus
from hasten.client import Hasten
from hasten.embedder import export
from hasten.messages.cache import CACHE_LOOKUP, CACHE_PUT, Answer, CacheHit, CacheLookup, CacheMiss, CachePut
from hasten.messages.retrieve import RETRIEVE, Document, Retrieve, Retrieved

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]
ROOT = Path(__file__).parents[2]
STATE = ROOT / ".hasten"
MORE = """
[[models]]
name = "small"
engine = { kind = "sim", sim_answer = "So it is.", sim_decode_per_s = 1000.0 }

[[changes.tables]]
table = "public.articles"
key = ["id"]
document = { collection = "articles", tenant = "demo", id = "{id}", title = "{title}", text = "{body}" }
"""
QUESTIONS = {
    "prices:7": "How much is the Family plan?",
    "prices:8": "How much is the Solo plan?",
    "prices:9": "How much is the Team plan?",
    "prices": "Which plans are there?",
    "articles:1": "How do I send a parcel back?",
    "articles:2": "How do parcels travel?",
    "stock:31,2": "How many blue lamps are left?",
    "stock:32,2": "How many red chairs are left?",
    "visits": "Which page do people look at?",
    "weather": "Does it rain in Lyon?",
}
ACTIVE = "SELECT count(*) FROM pg_replication_slots WHERE active"


@pytest.fixture(scope="module")
def machine() -> None:
    if sentence := missing():
        pytest.exit(sentence, returncode=2)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def postgres(machine: None) -> AsyncIterator[Postgres]:
    made = Postgres()
    try:
        yield await made.start()
    finally:
        await made.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nats(machine: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The NATS address of a `hasten up` with the settings that compose.yaml gives to its services."""
    data = tmp_path_factory.mktemp("hasten")
    export.prepare(STATE, print)
    (data / "models").symlink_to(STATE / "models")
    config = data / "hasten.toml"
    config.write_text((ROOT / "deploy" / "hasten.toml").read_text() + MORE)
    command = ("-m", "hasten.cli", "up", "--http", "127.0.0.1:0", "--data", str(data), "--config", str(config))
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(120):
            line = (await process.stdout.readline()).decode()
        assert line.startswith("ready "), line
        yield line.rpartition("nats=")[2].strip()
    finally:
        process.terminate()
        await process.wait()


class Rig:
    """What a test uses: the database, the engine, and a tenant who asks."""

    def __init__(self, postgres: Postgres, bus: Bus, tenant: Hasten, mode: Mode) -> None:
        self.postgres, self.tenant, self.mode = postgres, tenant, mode
        self.debezium = Debezium(bus, postgres.port, mode)
        self._marks = 0
        self._read = 0

    async def begin(self) -> None:
        """Fresh tables, and a first answer to everything."""
        await self.postgres.sql(TABLES + self.mode.sql)
        for tag in QUESTIONS:
            await self.warm(tag)

    async def start(self) -> None:
        """Returns when Debezium has taken its snapshot and reads the log."""
        await self.debezium.start()
        await until(lambda: self.postgres.sql(ACTIVE), ["1"], "Debezium does not read the log")

    async def end(self) -> None:
        await self.debezium.stop()
        await until(lambda: self.postgres.sql(ACTIVE), ["0"])
        await self.postgres.sql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
        await self.postgres.sql("DROP PUBLICATION IF EXISTS hasten")

    async def source(self, tag: str) -> str:
        """Where the answer to the tag's question comes from now."""
        policy = {"tags": [tag], "mode": "exact"}
        return (await self.tenant.ask(QUESTIONS[tag], cache=policy)).cache

    async def warm(self, tag: str) -> None:
        await until(lambda: self.source(tag), "exact")

    async def settled(self) -> list[Record]:
        """What Debezium has sent for everything committed since the last call; all of it is stored in the stream."""
        self._marks += 1
        mark = f"mark {self._marks}"
        await self.postgres.sql(f"SELECT pg_logical_emit_message(false, '{mark}', '')")
        await self.debezium.seen(lambda record: record.marker == mark)
        records = self.debezium.records
        at = next(index for index, record in enumerate(records) if record.marker == mark)
        since, self._read = records[self._read : at], at + 1
        return [record for record in since if "heartbeat" not in record.destination]

    async def check(self, step: Step) -> list[Record]:
        """Does a step, and sees the stale answers go and the others stay; returns what Debezium sent for it."""
        kept = step.staying(self.mode)
        for tag in {*step.stale, *kept}:
            await self.warm(tag)
        await (self.postgres.sql(step.sql) if step.sql else self.start())
        records = await self.settled()
        if not step.heard(self.mode):
            return records
        for tag in step.stale:
            await until(lambda tag=tag: self.source(tag), "miss", f"{step.name}: the answer from {tag} is still given")
        for tag in kept:
            assert await self.source(tag) == "exact", f"{step.name}: the answer from {tag} is gone"
        return records


async def until(ask: Any, wanted: Any, otherwise: str = "", timeout_s: float = 20.0) -> None:
    """Returns when `ask` returns what is wanted."""
    deadline = time.monotonic() + timeout_s
    while (found := await ask()) != wanted:
        assert time.monotonic() < deadline, f"{otherwise or wanted}: {found}"
        await asyncio.sleep(0.01)


@pytest_asyncio.fixture(loop_scope="module")
async def rig(request: pytest.FixtureRequest, postgres: Postgres, nats: str) -> AsyncIterator[Rig]:
    bus = await Bus.connect(nats, name="pipeline")
    async with Hasten.connect(nats, tenant="demo") as tenant:
        made = Rig(postgres, bus, tenant, request.param)
        try:
            await made.begin()
            yield made
        finally:
            await made.end()
            await bus.close()


@pytest.mark.parametrize("rig", MODES, ids=lambda mode: mode.name, indirect=True)
async def test_every_change_of_a_row_makes_its_answers_fresh(rig: Rig) -> None:
    seen = [Recorded(step=step.name, records=await rig.check(step)) for step in (SNAPSHOT, *STEPS)]
    await rig.debezium.seen(lambda record: "heartbeat" in record.destination)
    beat = next(record for record in rig.debezium.records if "heartbeat" in record.destination)
    mark = next(record for record in rig.debezium.records if record.marker)
    seen.append(Recorded(step=shop.NOTHING, records=[beat, mark]))
    short = [Recorded(step=one.step, records=[shop.shortened(record) for record in one.records]) for one in seen]
    if os.environ.get("RECORD"):
        shop.record(rig.mode, short)
    assert shapes(short) == shapes(shop.recorded(rig.mode)), "Debezium sends something else: make test-cdc RECORD=1"


def shapes(steps: list[Recorded]) -> list[Any]:
    """All destinations, keys and values of a recording without what is different each time."""
    return [
        (one.step, record.destination, shop.shape(record.key), shop.shape(record.value))
        for one in steps
        for record in one.records
    ]


VALUE_ONLY = [mode for mode in MODES if mode.name == "value_only"]


@pytest.mark.parametrize("rig", VALUE_ONLY, ids=["value_only"], indirect=True)
async def test_an_answer_by_meaning_and_one_from_a_document_are_made_anew(rig: Rig) -> None:
    await rig.start()
    await rig.settled()
    family = Document(id="family", title="Family plan", text="The Family plan is for six people.", tags=["prices:7"])
    solo = Document(id="solo", title="Solo plan", text="The Solo plan is for one person.", tags=["prices:8"])
    for collection, document in (("family", family), ("solo", solo)):
        await rig.tenant.ingest(collection, document)
    asked = "How much does the Family plan cost per month?"

    async def price(question: str, **policy: Any) -> str:
        return (await rig.tenant.ask(question, cache={"tags": ["prices:7"], **policy})).cache

    async def plan(collection: str) -> str:
        return (await rig.tenant.ask("For how many people is it?", knowledge=[collection])).cache

    def reworded() -> Any:
        return price("What is the price of the Family plan per month?", store=False)

    await until(lambda: price(asked), "exact")
    await until(reworded, "semantic")
    for collection in ("family", "solo"):
        await until(lambda collection=collection: plan(collection), "exact")
    await rig.postgres.sql("UPDATE prices SET amount = 12 WHERE id = 7")
    await rig.settled()
    await until(reworded, "miss")
    await until(lambda: plan("family"), "miss")
    assert await plan("solo") == "exact"
    assert await price(asked) == "miss"


@pytest.mark.parametrize("rig", VALUE_ONLY, ids=["value_only"], indirect=True)
async def test_the_documents_that_rows_become_follow_them(rig: Rig) -> None:
    question = "How do parcels travel?"

    async def found() -> dict[str, tuple[str, str]]:
        asked = Retrieve(query=question, knowledge=["articles"])
        reply = await rig.tenant.bus.request(RETRIEVE, asked, tenant="demo")
        assert isinstance(reply, Retrieved), reply
        return {one.document: (one.title, one.text[:12]) for one in reply.passages}

    async def answered() -> str:
        return (await rig.tenant.ask(question, knowledge=["articles"])).cache

    returns, parcels = ("Returns", "Thirty days."), ("Parcels", "By bike.")
    await rig.start()
    await until(found, {"1": returns, "2": parcels})
    for sql, wanted in (
        ("UPDATE articles SET body = 'By balloon.' WHERE id = 2", {"1": returns, "2": ("Parcels", "By balloon.")}),
        ("UPDATE articles SET title = 'Sending back' WHERE id = 1", {"1": ("Sending back", "Thirty days.")}),
        ("DELETE FROM articles WHERE id = 2", {"1": ("Sending back", "Thirty days.")}),
        ("INSERT INTO articles VALUES (3, 'Parcels', 'By boat.')", {"3": ("Parcels", "By boat.")}),
        ("TRUNCATE articles", {}),
    ):
        await until(answered, "exact")
        before = await found()
        await rig.postgres.sql(sql)
        gone = {"2"} if sql.startswith("DELETE") else set(before) if sql.startswith("TRUNCATE") else set()
        await until(found, {name: one for name, one in {**before, **wanted}.items() if name not in gone}, sql)
        assert await answered() == "miss", sql


@pytest.mark.parametrize("rig", VALUE_ONLY, ids=["value_only"], indirect=True)
async def test_what_changed_while_debezium_was_down_counts_when_it_is_back(rig: Rig) -> None:
    await rig.start()
    await rig.settled()
    for tag in ("prices:7", "prices:8"):
        await rig.warm(tag)
    await rig.debezium.crash()
    await until(lambda: rig.postgres.sql(ACTIVE), ["0"])
    await rig.postgres.sql("UPDATE prices SET amount = 13 WHERE id = 7")
    assert await rig.source("prices:7") == "exact", "nobody can have heard of it"
    await rig.start()
    await rig.settled()
    await until(lambda: rig.source("prices:7"), "miss")


DEFAULT = Mode(name="Debezium's own poll.interval.ms", properties={"poll.interval.ms": "500"})


@pytest.mark.parametrize(
    ("rig", "updates"), [(VALUE_ONLY[0], 50), (DEFAULT, 20)], ids=["shipped", "default"], indirect=["rig"]
)
async def test_the_time_from_a_commit_to_the_refusal_is_printed(rig: Rig, updates: int, capsys: Any) -> None:
    await rig.start()
    await rig.settled()
    bus = rig.tenant.bus

    async def lookup(key: str) -> CacheHit | CacheMiss:
        reply = await bus.request(CACHE_LOOKUP, CacheLookup(key=key), tenant="demo")
        assert isinstance(reply, CacheHit | CacheMiss), reply
        return reply

    delays = []
    for number in range(updates):
        key = f"{rig.mode.name} {number}"
        missed = await lookup(key)
        assert isinstance(missed, CacheMiss)
        answer = Answer(text="11 euros", model="small")
        body = CachePut(key=key, text="", answer=answer, tags=["prices:7"], read_seq=missed.read_seq)
        await bus.request(CACHE_PUT, body, tenant="demo")
        assert isinstance(await lookup(key), CacheHit)
        await rig.postgres.sql(f"UPDATE prices SET amount = {number} WHERE id = 7")
        committed = time.perf_counter()
        while isinstance(await lookup(key), CacheHit):
            assert time.perf_counter() - committed < 20
        delays.append((time.perf_counter() - committed) * 1000)
    ranked = sorted(delays)
    with capsys.disabled():
        print(
            f"\nfrom COMMIT in psql to the cache refusing the answer, {rig.mode.name}, {updates} updates: "
            f"p50 {statistics.median(ranked):.0f} ms, p99 {ranked[int(0.99 * (updates - 1))]:.0f} ms, "
            f"longest {ranked[-1]:.0f} ms"
        )
