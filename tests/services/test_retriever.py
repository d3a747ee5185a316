"""The retriever over a real NATS and real stores: what goes in is found, by whom it may be, and nothing else is."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest
from indexed_words import hashed
from patience import until
from retriever_rig import running

from hasten.bus import Bus
from hasten.messages.change import CHANGE, STREAM, Change
from hasten.messages.chat import Scalar
from hasten.messages.failure import Failure
from hasten.messages.retrieve import RETRIEVE, Document, Retrieve, Retrieved
from hasten.vectors.store import Where

STORES = pytest.mark.parametrize("url", [":memory:", "embedded"])
REFUNDS = Document(
    id="guide/refunds",
    title="Refunds",
    text="# Refunds\n\nHow money comes back.\n\n## Time\n\nA refund takes 14 days.\n\n## Fee\n\nThe fee is 5 euro.\n",
    url="https://help.example/refunds",
    tags=["prices:7"],
    metadata={"lang": "en", "year": 2024, "audience": ["new", "old"], "beta": False},
)


@STORES
async def test_a_document_is_found_with_its_source_and_span(bus: Bus, tmp_path: Path, url: str) -> None:
    async with running(bus, tmp_path, url=url) as rig:
        event = await rig.put(REFUNDS)
        assert (event.chunks, event.error, event.id, event.collection) == (3, None, "guide/refunds", "help")
        best = (await rig.found("what is the fee in euro"))[0]
        assert best.text == "## Fee\n\nThe fee is 5 euro." == REFUNDS.text[best.start : best.end]
        assert (best.id, best.heading, best.title, best.url) == ("help/guide/refunds#2", "Fee", "Refunds", REFUNDS.url)
        assert best.tags == ["document:help/guide/refunds", "collection:help", "prices:7"]
        assert best.metadata == REFUNDS.metadata
        assert best.version == event.sequence


@STORES
async def test_what_was_said_to_be_applied_is_seen_by_the_next_question(bus: Bus, tmp_path: Path, url: str) -> None:
    async with running(bus, tmp_path, url=url) as rig:
        for number in range(12):
            event = await rig.put(msgspec.structs.replace(REFUNDS, text=f"The fee is {number} euro."))
            reply = await rig.ask("fee")
            assert isinstance(reply, Retrieved)
            assert [one.text for one in reply.passages] == [f"The fee is {number} euro."]
            assert reply.read_seq >= event.sequence
        gone = await rig.put(Document(id=REFUNDS.id, op="delete"))
        reply = await rig.ask("fee")
        assert isinstance(reply, Retrieved)
        assert (reply.passages, reply.missing) == ([], ["help"])
        assert reply.read_seq >= gone.sequence
        assert await rig.vectors.count(Where(equal={"kind": "chunk"})) == 0


@STORES
async def test_a_tenant_finds_its_own_only(bus: Bus, tmp_path: Path, url: str) -> None:
    async with running(bus, tmp_path, url=url) as rig:
        await rig.put(Document(id="a", text="alpha secret", metadata={"tenant": "a"}), tenant="a")
        await rig.put(Document(id="b", text="beta secret", metadata={"tenant": "b"}), tenant="b")
        for filters in ({}, {"tenant": "b"}, {"tenant": ["a", "b"]}):
            found = await rig.found("beta secret", tenant="a", filter=filters)
            assert {one.document for one in found} <= {"a"}
        assert await rig.found("beta secret", tenant="a", filter={"tenant": "b"}) == []
        rig.vectors.unfiltered = True
        assert {one.document for one in await rig.found("beta secret", tenant="a")} == {"a"}


async def test_a_filter_of_the_stores_own_kind_is_refused(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path):
        body = {"query": "x", "knowledge": ["help"], "filter": {"should": [{"tenant": "b"}], "tenant": "b"}}
        reply = await bus.request(RETRIEVE, body, tenant="a")
        assert isinstance(reply, Failure)
        assert reply.code == "bad_request"


@STORES
async def test_filters_are_part_of_the_search(bus: Bus, tmp_path: Path, url: str) -> None:
    """The five that match rank behind everything else, and five come back."""
    async with running(bus, tmp_path, url=url, indexed=["kind"]) as rig:
        await asyncio.gather(*(rig.put(Document(id=f"near{n}", text="fee fee fee")) for n in range(120)))
        rare: dict[str, Scalar | list[Scalar]] = {"kind": "rare", "odd name.x": 1.5}
        for n in range(6):
            await rig.put(Document(id=f"far{n}", text="something else entirely", metadata=rare))
        for filters in ({"kind": "rare"}, {"kind": ["x", "rare"]}, {"odd name.x": 1.5}, rare):
            found = await rig.found("fee", filter=filters, limit=5)
            assert len(found) == 5
            assert {one.document[:3] for one in found} == {"far"}
        assert await rig.found("fee", filter={"kind": "other"}) == []
        assert await rig.found("fee", filter={"kind": []}) == []


async def test_filters_keep_types_apart(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path, url="embedded") as rig:
        await rig.put(REFUNDS)
        for good in ({"year": 2024}, {"year": [1, 2024]}, {"audience": "old"}, {"beta": False}, {"lang": "en"}):
            assert await rig.found("fee", filter=good), good
        for bad in ({"year": "2024"}, {"audience": "none"}, {"beta": True}, {"lang": "EN"}, {"absent": 1}):
            assert not await rig.found("fee", filter=bad), bad


async def test_collections_are_any_of_and_unknown_ones_are_named(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path) as rig:
        await rig.put(Document(id="x", text="the fee"), collection="one")
        await rig.put(Document(id="x", text="the other fee"), collection="two")
        await rig.put(Document(id="x", text="hidden fee"), collection="three")
        reply = await rig.ask("fee", knowledge=["two", "one", "none", "one"])
        assert isinstance(reply, Retrieved)
        assert {one.id for one in reply.passages} == {"one/x#0", "two/x#0"}
        assert reply.missing == ["none"]
        nothing = await rig.ask("fee", knowledge=["one", "none"], filter={"absent": True})
        assert isinstance(nothing, Retrieved)
        assert nothing.missing == ["none"]
        empty = await rig.ask("fee", knowledge=[])
        assert isinstance(empty, Retrieved)
        assert (empty.passages, empty.missing) == ([], [])


async def test_one_passage_is_returned_once_however_many_of_its_chunks_match(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path, passage_chars=3000) as rig:
        sentences = " ".join(f"The fee number {n} is paid for something in the shop of the town." for n in range(30))
        event = await rig.put(Document(id="long", text=sentences))
        found = await rig.found("fee", limit=5)
        assert event.chunks > 2
        assert [one.text for one in found] == [sentences]


async def test_a_reply_never_exceeds_a_message(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path) as rig:
        heavy: dict[str, Scalar | list[Scalar]] = {"note": "x" * 15_000}
        await asyncio.gather(*(rig.put(Document(id=f"d{n}", text=f"fee {n}", metadata=heavy)) for n in range(120)))
        reply = await rig.ask("fee", limit=200)
        assert isinstance(reply, Retrieved)
        assert reply.partial
        assert 50 < len(reply.passages) < 120
        scores = [one.score for one in reply.passages]
        assert scores == sorted(scores, reverse=True)
        assert not (await rig.ask("fee", limit=8)).partial  # type: ignore[union-attr]


async def test_what_cannot_be_asked_is_said(bus: Bus, tmp_path: Path) -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("limit", {"limit": 0}),
        ("limit", {"limit": 201}),
        ("knowledge", {"knowledge": ["Help"]}),
        ("knowledge", {"knowledge": ["a.>"]}),
        ("knowledge", {"knowledge": [f"c{n}" for n in range(33)]}),
        ("vector", {"vector": b"1234"}),
        ("vector", {"vector": b"\xff\xff\xff\x7f" * 64}),
        ("filter", {"filter": {'a"b': 1}}),
        ("filter", {"filter": {"n": 2**63}}),
    ]
    async with running(bus, tmp_path) as rig:
        for param, fields in wrong:
            reply = await rig.ask("fee", **fields)
            assert isinstance(reply, Failure), fields
            assert (reply.code, reply.param) == ("bad_request", param)


async def test_a_question_without_a_vector_is_embedded_and_one_with_is_not(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path) as rig:
        await rig.put(REFUNDS)
        rig.words.texts.clear()
        reply = await bus.request(RETRIEVE, Retrieve(query="the fee", knowledge=["help"]), tenant="acme")
        assert reply.passages[0].heading == "Fee"
        assert rig.words.texts == ["the fee"]
        await rig.ask("something")
        assert rig.words.texts == ["the fee"]


async def test_change_events_move_what_was_read_on(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path) as rig:
        first = await rig.put(REFUNDS)
        last = [await bus.store(CHANGE, Change(table="t", key=n), source="shop") for n in range(40)][-1]
        assert last == first.sequence + 40
        await until(lambda: rig.retriever.report()["applied"] == last)
        reply = await rig.ask("fee")
        assert isinstance(reply, Retrieved)
        assert reply.read_seq == last
        assert rig.retriever.report()["lag"] == 0


async def test_what_was_read_is_from_before_the_search(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path) as rig:
        first = await rig.put(REFUNDS)

        async def meanwhile() -> None:
            await rig.put(Document(id="x", text="another fee"))

        rig.vectors.after_search = meanwhile
        reply = await rig.ask("fee")
        assert isinstance(reply, Retrieved)
        assert reply.read_seq == first.sequence < rig.retriever.report()["applied"]


async def test_what_was_read_never_runs_ahead_and_survives_holes(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path) as rig:
        rig.words.delay_s = 0.3
        slow = await rig.send(REFUNDS)
        later = [await bus.store(CHANGE, Change(table="t", key=n), source="shop") for n in range(5)][-1]
        await until(lambda: rig.words.texts)
        assert rig.retriever.report()["applied"] < slow
        await bus.js.purge_stream(STREAM)
        while not rig.heard:
            reply = await rig.ask("fee")
            assert isinstance(reply, Retrieved)
            assert reply.read_seq < slow or reply.passages
        await until(lambda: rig.retriever.report()["applied"] >= later)
        assert (await rig.put(REFUNDS)).sequence > later


HOPELESS = [
    (b"{not json", "JSON"),
    (b'{"id":5}', "id"),
    (b'{"text":"no id"}', "id"),
    (b'{"id":""}', "id"),
    (b'{"id":"x","metadata":{"n":' + b"9" * 30 + b"}}", "64 bits"),
    (b'{"id":"x","metadata":{"a\\"b":1}}', "names"),
    (b'{"id":"x","text":"__debezium_unavailable_value"}', "placeholder"),
    (b'{"id":"x","text":"t","tags":["' + b"y" * 20_000 + b'"]}', "bytes"),
    (b"[" * 100_000, "levels"),
    (b'{"id":"x","text":"' + b"# a\\nb\\n" * 200 + b'"}', "chunks"),
]


async def test_a_message_that_can_never_be_applied_is_refused_once(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path, max_chunks=100) as rig:
        await rig.put(msgspec.structs.replace(REFUNDS, id="x"))
        for body, why in HOPELESS:
            event = await rig.applied(await bus.store_raw("hasten.v1.document.acme.help", body))
            assert why in (event.error or "")
            assert (await rig.found("fee"))[0].text == "## Fee\n\nThe fee is 5 euro."
        await until(lambda: rig.retriever.report()["applied"] == 1 + len(HOPELESS))
        assert sorted(one.sequence for one in rig.heard) == list(range(1, 2 + len(HOPELESS)))


async def test_a_bad_name_in_a_subject_blocks_nothing(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path) as rig:
        for tokens in ("ACME.help", "acme.Help", "acme", "acme.help.more"):
            await bus.store_raw(f"hasten.v1.document.{tokens}", b'{"id":"x","text":"t"}')
        event = await rig.put(REFUNDS)
        await until(lambda: rig.retriever.report()["applied"] == event.sequence)
        assert len(rig.heard) == 1


async def test_html_other_languages_and_empty_texts(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path) as rig:
        page = "<html><title>Prices</title><body><h2>Fee</h2><p>It is <b>5</b> euro.<script>evil()</script></body>"
        await rig.put(Document(id="page", text=page, media_type="text/html"))
        best = (await rig.found("fee euro"))[0]
        assert (best.title, best.heading, best.text) == ("Prices", "Fee", "## Fee\n\nIt is 5 euro.")
        await rig.put(Document(id="ja", text="返品は十四日以内です。手数料は五ユーロです。", media_type="text/plain"))
        assert any(one.document == "ja" for one in await rig.found("返品"))
        emptied = await rig.put(Document(id="ja", text=" \n"))
        assert emptied.chunks == 0
        assert not any(one.document == "ja" for one in await rig.found("返品"))


async def test_no_content_reaches_the_log(bus: Bus, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    secret = "NO0012345678901"
    caplog.set_level(logging.DEBUG, logger="hasten.retriever")
    async with running(bus, tmp_path) as rig:
        await rig.put(Document(id=secret, text=f"My number is {secret}"))
        await rig.applied(await bus.store_raw("hasten.v1.document.acme.help", b'{"id":"%s' % secret.encode()))
        bad = b'{"id":"%s","op":"%s","text":"%s"}' % ((secret.encode(),) * 3)
        await rig.applied(await bus.store_raw("hasten.v1.document.acme.help", bad))
        rig.vectors.broken = {"search", "upsert"}
        assert isinstance(await rig.ask(secret), Failure)
        await rig.send(Document(id="x", text=secret))
        await until(lambda: "tried again" in caplog.text)
        rig.vectors.broken = set()
    assert secret not in caplog.text


async def test_discovery_shows_its_figures(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path) as rig:
        event = await rig.put(REFUNDS)
        reply = await bus.client.request("$SRV.STATS.retriever", b"", timeout=10)
        stats = msgspec.json.decode(reply.data)["endpoints"][0]["data"]
        assert (stats["applied"], stats["lag"]) == (event.sequence, 0)
        assert {"documents", "passages"} <= stats.keys()


async def test_the_vectors_are_those_of_title_heading_and_text(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path) as rig:
        await rig.put(REFUNDS)
        assert "Refunds\nFee\nThe fee is 5 euro." in rig.words.texts
        assert hashed("a b").shape == (64,)
