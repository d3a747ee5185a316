"""Documents are brought to a real retriever once, however often it is begun, whatever is lost on the way."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest
import pytest_asyncio
from indexed_words import HashedWords
from patience import PATIENCE_S, until
from retriever_rig import Rig, running

from hasten import delivery
from hasten.bus import Bus
from hasten.client import Hasten
from hasten.delivery import BATCH, WINDOW, Delivery
from hasten.messages.change import STREAM
from hasten.messages.failure import Failed
from hasten.messages.retrieve import Document, Ingested
from hasten.nats_server import NatsServer
from hasten.retriever import catalogue
from hasten.retriever.records import SLOTS, Key, slot


@pytest_asyncio.fixture
async def hasten(nats_server: NatsServer) -> AsyncIterator[Hasten]:
    async with Hasten.connect(nats_server.url, tenant="acme") as made:
        yield made


def document(name: str, text: str = "the fee", source: str = "/here") -> Document:
    return Document(id=name, text=f"{text} of {name}", source=source)


class Run:
    """One delivery of some documents, and what was said of those refused."""

    def __init__(self, hasten: Hasten, collection: str = "help", **options: bool | float) -> None:
        self.said: list[str] = []
        self.delivery = Delivery(hasten, collection, refused=self.said.append, **options)  # type: ignore[arg-type]

    async def bring(self, documents: Iterable[Document], prune: str = "") -> tuple[int, int, int, int]:
        """How many were ingested, unchanged, removed and refused."""
        try:
            for one in documents:
                await self.delivery.offer(one, f"{one.id}.md")
            await self.delivery.finish()
            if prune:
                await self.delivery.prune(prune)
        finally:
            await self.delivery.cancel()
        tally = self.delivery.tally
        return tally.ingested, tally.unchanged, tally.deleted, tally.failed


async def held(rig: Rig) -> set[str]:
    return {one.document for one in await rig.found("fee", limit=200)}


async def stored(bus: Bus) -> int:
    """How many documents and deletions were sent."""
    return (await bus.js.stream_info(STREAM)).state.messages


async def settled(rig: Rig, documents: int) -> None:
    """Returns when there are so many documents, of one chunk each, and nothing of older versions."""
    async with asyncio.timeout(PATIENCE_S):
        while await rig.retriever._library.sizes() != (documents, documents):
            await asyncio.sleep(0.01)


async def test_what_is_there_is_skipped_and_what_changed_is_replaced(bus: Bus, hasten: Hasten, tmp_path: Path) -> None:
    async with running(bus, tmp_path, url="embedded") as rig:
        documents = [document(f"d{n}") for n in range(100)]
        assert await Run(hasten).bring(documents) == (100, 0, 0, 0)
        rig.words.texts.clear()
        documents[7] = document("d7", "the new fee")
        assert await Run(hasten, dry=True).bring(documents) == (1, 99, 0, 0)
        assert rig.words.texts == []
        assert await Run(hasten).bring(documents) == (1, 99, 0, 0)
        assert rig.words.texts == ["the new fee of d7"]
        assert await Run(hasten, collection="other").bring(documents[:3]) == (3, 0, 0, 0), "another collection"
        assert await Run(hasten, again=True).bring(documents[:3]) == (3, 0, 0, 0)


async def test_what_is_gone_is_removed_where_it_came_from_and_nowhere_else(
    bus: Bus, hasten: Hasten, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of what is there comes in pages."""
    monkeypatch.setattr(catalogue, "PAGE", 8)
    async with running(bus, tmp_path, url="embedded") as rig:
        here = [document(f"d{n}") for n in range(60)]
        elsewhere = [document(f"e{n}", source="/elsewhere") for n in range(20)]
        await Run(hasten).bring([*here, *elsewhere, document("own", source="")])
        kept = {one.id for one in here[:25]}
        assert await Run(hasten, dry=True).bring(here[:25], prune="/here") == (0, 25, 35, 0)
        assert await Run(hasten).bring(here[:25], prune="/here") == (0, 25, 35, 0)
        assert await held(rig) == kept | {one.id for one in elsewhere} | {"own"}
        assert await Run(hasten).bring(here[:25], prune="/here") == (0, 25, 0, 0)
        assert await Run(hasten).bring(here[:26], prune="/here") == (1, 25, 0, 0), "what was removed may come back"


async def test_documents_of_one_slot_are_one_page(bus: Bus, hasten: Hasten, tmp_path: Path) -> None:
    async with running(bus, tmp_path):
        await Run(hasten).bring([document("d1")])
        at = slot(Key("acme", "help", "d1").id)
        for after, found in ((0, 1), (at, 1), (at + 1, 0), (SLOTS, 0)):
            page = await hasten.documents("help", source="/here", after=after)
            assert (len(page.documents), page.next) == (found, None)


async def test_what_cannot_be_asked_of_the_catalogue_is_said(bus: Bus, hasten: Hasten, tmp_path: Path) -> None:
    async with running(bus, tmp_path) as rig:
        for wrong, sentence in (
            ({"ids": ["x"] * 257}, "257 ids, at most 256"),
            ({}, "name the ids"),
        ):
            with pytest.raises(Failed, match=sentence):
                await hasten.documents("help", **wrong)  # type: ignore[arg-type]
        with pytest.raises(Failed, match="collection must be"):
            await hasten.documents("no.name", ids=["x"])
        rig.vectors.broken = {"scroll"}
        with pytest.raises(Failed, match="the store is down"):
            await hasten.documents("help", ids=["x"])


async def test_a_deleted_document_is_no_longer_held_from_the_moment_it_is_hidden(
    bus: Bus, hasten: Hasten, tmp_path: Path
) -> None:
    async with running(bus, tmp_path) as rig:
        await Run(hasten).bring([document("d1")])
        rig.vectors.broken = {"upsert"}
        await rig.send(Document(id="d1", op="delete"))
        await until(lambda: rig.retriever._library.hidden)
        assert (await hasten.documents("help", ids=["d1"])).documents == []
        assert (await hasten.documents("help", source="/here")).documents == []
        rig.vectors.broken = set()


async def test_two_documents_with_one_id_are_not_both_taken(bus: Bus, hasten: Hasten, tmp_path: Path) -> None:
    async with running(bus, tmp_path) as rig:
        run = Run(hasten)
        assert await run.bring([document("d1", "the first fee"), document("d1", "the second fee")]) == (1, 0, 0, 1)
        assert run.said == ["d1.md: another document in this run has its id 'd1': rename one of them"]
        assert [one.text for one in await rig.found("fee")] == ["the first fee of d1"]


async def test_what_is_refused_is_said_and_the_others_are_there(
    bus: Bus, hasten: Hasten, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "LOOK_S", PATIENCE_S)
    async with running(bus, tmp_path) as rig:
        large = Document(id="large", text="word " * 400_000)
        odd = Document(id="odd", text="fee", metadata={'a "quote"': 1})
        run = Run(hasten)
        assert await run.bring([document("d1"), large, odd, document("d2")]) == (2, 0, 0, 2)
        assert sorted(run.said)[0].startswith("large.md: the message has 2000")
        assert sorted(run.said)[0].endswith("split the file, or raise max_payload of the NATS server")
        assert sorted(run.said)[1].startswith("odd.md: metadata names have")
        assert await held(rig) == {"d1", "d2"}


async def test_a_word_that_is_lost_is_asked_for(
    bus: Bus, hasten: Hasten, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "LOOK_S", 0.05)

    async def deaf(sequence: int) -> Ingested:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(hasten, "applied", deaf)
    async with running(bus, tmp_path) as rig:
        run = Run(hasten)
        odd = Document(id="odd", text="fee", metadata={'a "quote"': 1})
        assert await run.bring([document("d1"), odd]) == (1, 0, 0, 1)
        assert run.said == ["odd.md: it was refused, and the reason was lost: run it again to hear it"]
        assert run.delivery.tally.chunks == 1
        assert await Run(hasten).bring([], prune="") == (0, 0, 0, 0)
        assert await Run(hasten).bring([document("d2")], prune="/here") == (1, 0, 1, 0)
        assert await held(rig) == {"d2"}


async def test_a_slow_retriever_is_waited_for_and_no_more_is_on_the_way_than_it_needs(
    bus: Bus, hasten: Hasten, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "LOOK_S", 0.1)
    async with running(bus, tmp_path, retry_max_s=0.1) as rig:
        rig.words.broken = Failed("unavailable", "the model is loading")
        run = Run(hasten)
        bringing = asyncio.create_task(run.bring(document(f"d{n}") for n in range(3 * WINDOW)))
        await until(lambda: run.delivery.on_the_way == WINDOW)
        await until(lambda: run.delivery.waits_for == "the retriever")
        assert run.delivery.on_the_way == WINDOW
        assert run.delivery.tally.done == 0
        rig.words.broken = None
        assert await bringing == (3 * WINDOW, 0, 0, 0)
        assert run.delivery.waits_for == ""


async def test_who_does_not_want_to_wait_for_ever_need_not(
    bus: Bus, hasten: Hasten, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "LOOK_S", 0.1)
    async with running(bus, tmp_path) as rig:
        rig.words.broken = Failed("unavailable", "the model is loading")
        with pytest.raises(Failed, match=r"nothing has moved for 0\.5 s"):
            await Run(hasten, patience_s=0.5).bring([document("d1")])
        rig.words.broken = None
        await until(lambda: rig.heard)
        assert await held(rig) == {"d1"}, "it was stored, so it is indexed when that can be done"


async def test_what_went_wrong_is_raised_though_nothing_is_left_to_wait_for(
    bus: Bus, hasten: Hasten, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "LOOK_S", 0.1)
    async with running(bus, tmp_path) as rig:
        rig.words.broken = Failed("unavailable", "the model is loading")
        run = Run(hasten, patience_s=0.2)
        for number in range(BATCH):
            await run.delivery.offer(document(f"d{number}"), "")
        await until(lambda: not run.delivery.on_the_way)
        with pytest.raises(Failed, match="nothing has moved"):
            await run.delivery.finish()
        rig.words.broken = None


async def test_without_a_retriever_nothing_is_sent(
    bus: Bus, hasten: Hasten, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "PATIENCE_S", 0.2)
    run = Run(hasten)
    with pytest.raises(Failed) as raised:
        await run.bring([document("d1")])
    assert raised.value.failure.code == "unavailable"
    async with running(bus, tmp_path) as rig:
        await Run(hasten).bring([document("d2")])
        assert await held(rig) == {"d2"}


async def test_an_interrupted_run_goes_on_where_it_was(bus: Bus, hasten: Hasten, tmp_path: Path) -> None:
    """What was on the way when it was interrupted is applied, and at most that is sent again."""
    documents = [document(f"d{n}") for n in range(4 * WINDOW)]
    async with running(bus, tmp_path, url="embedded") as rig:
        rig.words.delay_s = 0.01
        run = Run(hasten)
        bringing = asyncio.create_task(run.bring(documents))
        await until(lambda: run.delivery.tally.ingested >= 50)
        bringing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await bringing
        before = run.delivery.tally.ingested
        assert before < len(documents)
        again = Run(hasten)
        ingested, unchanged, _, refused = await again.bring(documents)
        assert (ingested + unchanged, refused) == (len(documents), 0)
        assert unchanged >= before
        assert await stored(bus) <= len(documents) + WINDOW
        await settled(rig, len(documents))


async def test_a_retriever_and_a_server_that_restart_cost_a_run_nothing_but_time(
    nats_server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "LOOK_S", 0.5)
    documents = [document(f"d{n}") for n in range(3 * WINDOW)]
    async with contextlib.AsyncExitStack() as stack:
        bus = await Bus.connect(nats_server.url)
        stack.push_async_callback(bus.close)
        hasten = await stack.enter_async_context(Hasten.connect(nats_server.url, tenant="acme"))
        words = HashedWords(bus)
        await words.start()
        stack.push_async_callback(words.close)
        words.delay_s = 0.02
        settings = {"url": "embedded", "words": words, "ack_wait_s": 2.0, "embed_timeout_s": 3.0}
        run = Run(hasten)
        async with running(bus, tmp_path, **settings):  # type: ignore[arg-type]
            bringing = asyncio.create_task(run.bring(documents))
            await until(lambda: run.delivery.tally.ingested >= 20)
            await nats_server.stop(kill=True)
            await asyncio.sleep(0.2)
            await nats_server.start()
            await until(lambda: run.delivery.tally.ingested >= 60)
        async with running(bus, tmp_path, **settings) as rig:  # type: ignore[arg-type]
            assert await bringing == (len(documents), 0, 0, 0)
            await settled(rig, len(documents))
