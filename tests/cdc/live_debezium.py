"""Real Debezium on a real PostgreSQL makes a real hasten's answers fresh. Run with `make test-cdc`; needs Java.

Everything is started here and ended here. What Debezium sends is compared with `recorded/`, which the default tests
read; `make test-cdc RECORD=1` writes it anew.
"""

import os
import statistics
import time
from typing import Any

import pytest
import shop
from cdc_rig import ACTIVE, Rig, until
from debezium import MODES, Mode
from shop import SNAPSHOT, STEPS, Recorded

from hasten.messages.cache import CACHE_LOOKUP, CACHE_PUT, Answer, CacheHit, CacheLookup, CacheMiss, CachePut
from hasten.messages.retrieve import RETRIEVE, Document, Retrieve, Retrieved

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]


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
