"""Asks the running system the questions of the demo, one step after the other, and changes a document in between."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from msgspec import structs

from hasten.answered import Answered
from hasten.client import Hasten
from hasten.demo.rows import Row, Step, row_of
from hasten.loading import load
from hasten.messages.cache import Invalidate
from hasten.messages.chat import ChatReply
from hasten.messages.retrieve import Document

ARTICLES = Path(__file__).parent / "articles"
COLLECTION = "help"
CALLERS = 10
PARAGRAPH: dict[str, Any] = {"stop": ["\n"], "max_tokens": 120}
"""The embedded model is small and rambles after its first paragraph."""
Watch = Callable[[ChatReply], None]

ASKED = "How much does the Family plan cost per month?"
CHANGE = ("costs 9 euros", "costs 11 euros")
STEPS = (
    Step(name="first question", question=ASKED, sources=("miss",), facts=("9 euros",), generations=1),
    Step(name="the same again", question=ASKED, sources=("exact",), facts=("9 euros",)),
    Step(
        name="in other words",
        question="What is the price of the Family plan per month?",
        sources=("semantic",),
        facts=("9 euros",),
    ),
    Step(
        name="near twin, no hit",
        question="How much does the Family plan cost for 12 months?",
        sources=("miss",),
        generations=1,
    ),
    Step(
        name=f"{CALLERS} at once",
        question="How many requests per minute does the API allow?",
        sources=("miss", "shared"),
        facts=("600",),
        callers=CALLERS,
        generations=1,
    ),
    Step(
        name="after the change",
        question=ASKED,
        sources=("miss",),
        facts=("11 euros",),
        not_facts=("9 euros",),
        generations=1,
        change=True,
    ),
)


def documents() -> list[Document]:
    """The articles of the help centre."""
    return [load(path, ARTICLES) for path in sorted(ARTICLES.rglob("*.md"))]


async def ingest(hasten: Hasten) -> int:
    """Ingests the help centre and returns the number of articles."""
    articles = documents()
    limit = asyncio.Semaphore(16)

    async def one(article: Document) -> None:
        async with limit:
            await hasten.ingest(COLLECTION, article)

    await asyncio.gather(*(one(article) for article in articles))
    return len(articles)


async def generations(hasten: Hasten) -> int:
    """How many generations the workers have counted since they started."""
    running = await hasten.services()
    endpoints = (endpoint for one in running if one.name == "worker" for endpoint in one.endpoints)
    return sum(endpoint["num_requests"] for endpoint in endpoints if endpoint["name"] == "generate")


async def take(hasten: Hasten, step: Step, watch: Watch) -> Row:
    """Asks one step's question, as often at once as it says; `watch` sees the first caller's events as they come."""
    before = await generations(hasten)

    async def ask(first: bool) -> Answered:
        answered = Answered()
        async for event in hasten.chat(step.question, knowledge=[COLLECTION], **PARAGRAPH):
            answered.add(event)
            if first:
                watch(event)
        return answered

    answers = await asyncio.gather(*(ask(caller == 0) for caller in range(step.callers)))
    return row_of(step, list(answers), await generations(hasten) - before)


async def change(hasten: Hasten) -> None:
    """Publishes the article that CHANGE is about with its new fact; returns when it has been applied."""
    old, new = CHANGE
    article = next(one for one in documents() if old in one.text)
    await hasten.ingest(COLLECTION, structs.replace(article, text=article.text.replace(old, new)))


async def play(hasten: Hasten, begin: Callable[[Step], Watch]) -> AsyncIterator[Row]:
    """Plays all steps and yields a row after each; `begin` is told of a step and returns who watches its stream.

    The tenant's cached answers are removed first, so that the first question is one; the help centre is as shipped
    again at the end.
    """
    await hasten.invalidate(Invalidate(everything=True, reason="the demo begins"))
    try:
        for step in STEPS:
            watch = begin(step)
            if step.change:
                await change(hasten)
            yield await take(hasten, step, watch)
    finally:
        await ingest(hasten)
