"""Random rows, whole, partial, deleted, moved and emptied, over two replicas and a store that fails: in the end every
document is what a reader of the stream, one message after the other, would have made."""

import asyncio
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from patience import until
from retriever_rig import running, vectors_for

from hasten.bus import Bus
from hasten.changes import DocumentRule, Rules, TableRule
from hasten.changes.settings import Changes
from hasten.retriever.service import Retriever
from hasten.retriever.settings import Settings

SUBJECT = "shop.public.articles"
MARKER = "__debezium_unavailable_value"
MADE = DocumentRule(collection="help", tenant="acme", id="{id}", title="{title}", text="{body}")
CHANGES = Changes(["shop.>"], Rules([TableRule(table="public.articles", key=["id"], document=MADE)]))
Documents = dict[str, tuple[str, str]]


def step(chance: random.Random, number: int, model: Documents) -> dict[str, Any]:
    """The next event; the model is what it leaves."""
    key, kind = chance.randrange(4), chance.random()
    row: dict[str, Any] = {"id": key, "title": f"T{number}", "body": f"fee {key} {number}"}
    made: dict[str, Any] = {"op": "u", "before": None, "after": row}
    if kind < 0.04:
        model.clear()
        return {**made, "op": "t", "after": None}
    if kind < 0.15:
        model.pop(str(key), None)
        return {**made, "op": "d", "before": {"id": key}, "after": None}
    if kind < 0.5:
        if str(key) in model:
            model[str(key)] = (row["title"], model[str(key)][1])
        return {**made, "after": {**row, "body": MARKER}}
    if kind < 0.6:
        made["before"] = {"id": (key + 1) % 4}
        model.pop(str((key + 1) % 4), None)
    model[str(key)] = (row["title"], row["body"])
    return made


@pytest.mark.parametrize("seed", range(3))
async def test_documents_end_as_if_all_rows_came_one_by_one(bus: Bus, tmp_path: Path, seed: int) -> None:
    chance, model = random.Random(seed), Documents()
    store = vectors_for(":memory:", tmp_path, keep=True)
    batch, parallel = chance.choice([2, 4, 32]), chance.choice([1, 2, 4])
    async with running(bus, tmp_path, vectors=store, changes=CHANGES, batch=batch, parallel=parallel) as rig:
        other = Retriever(Settings(batch=4, retry_s=0.02, poll_s=0.05), bus, store, CHANGES)
        await other.start()
        for number in range(100):
            body = {**step(chance, number, model), "source": {"schema": "public", "table": "articles"}}
            last = await bus.store_raw(SUBJECT, msgspec.json.encode(body))
            store.broken = {"upsert"} if chance.random() < 0.1 else set()
            if chance.random() < 0.1:
                await asyncio.sleep(0.02)
        store.broken = set()
        await until(lambda: rig.retriever.report()["applied"] >= last)
        assert {one.document: (one.title, one.text) for one in await rig.found("fee", limit=50)} == model
        await other.drain()
        await other.close()
    await store.inner.close()
