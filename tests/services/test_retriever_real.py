"""The retriever with the real embedding model: questions in other words find the right section."""

import asyncio
from pathlib import Path

import pytest
from patience import until

from hasten.bus import Bus
from hasten.embedder import export
from hasten.embedder.service import Embedder
from hasten.embedder.settings import Settings as EmbedderSettings
from hasten.messages.retrieve import DOCUMENT, RETRIEVE, Document, Retrieve
from hasten.retriever.service import build
from hasten.retriever.settings import Settings

DATA = Path(__file__).parents[2] / ".hasten"
ARTICLES = {
    "refunds": "# Getting your money back\n\nReturns are paid within 14 days to the card that was charged.",
    "shipping": "# Delivery\n\nParcels to Norway take three working days. Express costs 9 euro.",
    "filters": "# Error E42\n\nThe filter is full. Open the lid, take it out and rinse it under the tap.",
    "privacy": "# Your data\n\nWe delete accounts that have not been used for two years.",
}
QUESTIONS = {
    "how long until I am reimbursed": "refunds",
    "when will my order arrive in Oslo": "shipping",
    "the machine shows a code and needs cleaning": "filters",
    "do you remove old profiles": "privacy",
}


@pytest.mark.timeout(300)
async def test_questions_in_other_words_find_the_right_article(bus: Bus, tmp_path: Path) -> None:
    await asyncio.to_thread(export.prepare, DATA, print)
    embedder = Embedder(EmbedderSettings(data=str(DATA)), bus)
    retriever = build(Settings(data=str(tmp_path)), bus)
    await embedder.start()
    await retriever.start()
    last = 0
    for name, text in ARTICLES.items():
        last = await bus.store(DOCUMENT, Document(id=name, text=text), tenant="acme", collection="help")
    await until(lambda: retriever.report()["applied"] == last)
    for question, expected in QUESTIONS.items():
        reply = await bus.request(RETRIEVE, Retrieve(query=question, knowledge=["help"], limit=2), tenant="acme")
        assert reply.passages[0].document == expected, question
        assert 0 < reply.passages[1].score < reply.passages[0].score <= 1
    for unit in (retriever, embedder):
        await unit.drain()
        await unit.close()
