"""What real Debezium sent, from the row to the answer: document, passage, tags, the cached answer gone with a change.

Cache, retriever and orchestrator are the real ones; words stand in for the embedding model, a script for the others.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from debezium import MODES, Mode, sent
from indexed_words import DIM, HashedWords
from patience import PATIENCE_S
from replica_rig import CLAIM_S, patient
from retriever_rig import vectors_for
from scripted_peers import Scripted
from shop import recorded

from hasten.bus import Bus
from hasten.cache.service import Cache
from hasten.cache.settings import Settings as CacheSettings
from hasten.changes import DocumentRule, Rules, TableRule
from hasten.changes.settings import Changes
from hasten.client import Hasten
from hasten.messages.cache import CACHE_LOOKUP, CACHE_PUT
from hasten.messages.embed import EMBED
from hasten.messages.retrieve import RETRIEVE
from hasten.nats_server import NatsServer
from hasten.orchestrator.service import build
from hasten.orchestrator.settings import Settings
from hasten.retriever.service import Retriever
from hasten.retriever.settings import Settings as RetrieverSettings
from hasten.vectors.opening import store


def document(collection: str, text: str, title: str = "", id_: str = "{id}") -> DocumentRule:
    return DocumentRule(collection=collection, tenant="acme", id=id_, title=title, text=text)


CHANGES = Changes(
    ["shop.>"],
    Rules(
        [
            TableRule(table="prices", key=["id"], document=document("prices", "The {plan} plan is a plan we sell.")),
            TableRule(table="articles", key=["id"], document=document("articles", "{body}", "{title}")),
            TableRule(
                table="stock",
                key=["shop", "article"],
                document=document("stock", "{pieces} pieces left", id_="{shop}-{article}"),
            ),
        ]
    ),
)
STEPS: tuple[tuple[str, str, set[str]], ...] = (
    ("update", "prices", {"Family", "Solo", "Team"}),
    ("insert", "prices", {"Family", "Solo", "Team", "Studio"}),
    ("delete", "prices", {"Family", "Solo", "Studio"}),
    ("unchanged long column", "articles", {"Sending back", "Parcels"}),
    ("composite key", "stock", {"4 pieces left", "6 pieces left"}),
    ("composite key deleted", "stock", {"4 pieces left"}),
    ("truncate", "prices", set()),
)
"""What happens to which table, and what the answer to a question about it is made from afterwards."""
WHOLE = [mode for mode in MODES if mode.name in {"keyed", "value_only", "cloudevents"}]
"""The shapes that tell each step and its row."""


class Shop:
    """A tenant who asks about a collection, and the pipeline that stores what Debezium sent."""

    def __init__(self, hasten: Hasten, bus: Bus, mode: Mode, peers: Scripted, retriever: Retriever) -> None:
        self.hasten, self.bus, self.mode, self.peers, self.retriever = hasten, bus, mode, peers, retriever
        self._records = {one.step: one.records for one in recorded(mode)}

    async def happens(self, step: str) -> None:
        """Stores the records of a step, and waits until the retriever has applied them."""
        last = 0
        for record in self._records[step]:
            if (message := sent(self.mode, record)) is not None:
                subject, headers, body = message
                last = await self.bus.store_raw(subject, body, headers=headers)
        async with asyncio.timeout(PATIENCE_S):
            while self.retriever.report()["applied"] < last:
                await asyncio.sleep(0.005)

    async def asked(self, collection: str) -> str:
        """Where the answer to the question about a collection comes from."""
        question = f"What is there to know about the {collection} we have?"
        return (await self.hasten.ask(question, knowledge=[collection], cache={"mode": "exact"})).cache

    async def until_from(self, source: str, collection: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while await self.asked(collection) != source:
                await asyncio.sleep(0.01)

    def seen(self) -> set[str]:
        """What the last prompt was made from: plans, titles or pieces."""
        passages = self.peers.compressed[-1].passages
        return {one.title or one.text.removeprefix("The ").removesuffix(" plan is a plan we sell.") for one in passages}


@contextlib.asynccontextmanager
async def shop(nats: NatsServer, bus: Bus, folder: Path, mode: Mode) -> AsyncIterator[Shop]:
    peers, words = Scripted(bus, real=(CACHE_LOOKUP, CACHE_PUT, EMBED, RETRIEVE)), HashedWords(bus)
    cache = Cache(CacheSettings(dim=DIM, sweep_s=60), bus, store(":memory:", folder, "cache"), changes=CHANGES)
    retriever = Retriever(RetrieverSettings(poll_s=0.02), bus, vectors_for(":memory:", folder), CHANGES)
    orchestrator = patient(build(Settings(exact_wait_ms=50, recent_s=60, again_s=0), bus, CHANGES))
    cache._freshness._lease_s = CLAIM_S
    units = (words, peers, cache, retriever, orchestrator)
    for unit in units:
        await unit.start()
    async with Hasten.connect(nats.url, tenant="acme") as hasten:
        yield Shop(hasten, bus, mode, peers, retriever)
    for unit in reversed(units):
        await unit.close()


@pytest.mark.parametrize("mode", WHOLE, ids=lambda mode: mode.name)
async def test_a_change_of_a_row_reaches_the_answer(
    bus: Bus, nats_server: NatsServer, tmp_path: Path, mode: Mode
) -> None:
    async with shop(nats_server, bus, tmp_path, mode) as made:
        await made.happens("snapshot")
        for step, collection, after in STEPS:
            await made.until_from("exact", collection)
            await made.happens(step)
            await made.until_from("miss", collection)
            passages = made.peers.compressed[-1].passages
            assert made.seen() == after, step
            assert all(any(tag.startswith(f"{collection}:") for tag in one.tags) for one in passages), "the row's tag"
