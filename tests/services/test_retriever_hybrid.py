"""Searching by words beside vectors: what it finds, for whom, and what becomes of a store from before it."""

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from indexed_words import DIM, MODEL, hashed
from patience import until
from qdrant_front import QdrantFront, listening
from retriever_rig import Faulty, running, vectors_for

from hasten.bus import Bus
from hasten.messages.retrieve import Document, Passage, Retrieved
from hasten.retriever.bm25 import document_terms, question_terms
from hasten.retriever.chunking import Chunk
from hasten.retriever.fusion import Blend
from hasten.retriever.library import Library
from hasten.retriever.records import Key, Manifest, chunk_point
from hasten.retriever.settings import Settings
from hasten.retriever.words import PAGE
from hasten.vectors.opening import store
from hasten.vectors.store import VectorStore, Where

STORES = pytest.mark.parametrize("url", [":memory:", "embedded"])
ELSEWHERE = hashed("entirely different words").tobytes()


async def test_a_code_is_found_verbatim_though_its_vector_says_nothing(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path) as rig:
        for number in range(60):
            sheet = f"Part {48200 + number} is pump KX-{400 + number}B and lies on shelf {number}."
            await rig.put(Document(id=f"sheet-{number}", text=sheet))
        for question, sheet in (("48231", "sheet-31"), ("Where is the kx440b?", "sheet-40"), ("shelf 17", "sheet-17")):
            found = await rig.found(question, vector=ELSEWHERE, limit=3)
            assert found[0].document == sheet, question
            assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


@STORES
async def test_no_branch_finds_what_the_filter_or_another_tenant_has(bus: Bus, tmp_path: Path, url: str) -> None:
    async with running(bus, tmp_path, url=url) as rig:
        text = "The code is KX-440B."
        for id_, tenant, collection, lang in (
            ("mine", "acme", "help", "en"),
            ("german", "acme", "help", "de"),
            ("elsewhere", "acme", "news", "en"),
            ("theirs", "other", "help", "en"),
        ):
            document = Document(id=id_, text=text if id_ != "mine" else "Nothing of it.", metadata={"lang": lang})
            await rig.put(document, tenant=tenant, collection=collection)
        assert [one.document for one in await rig.found("KX-440B", filter={"lang": "en"})] == ["mine"]
        rig.vectors.unfiltered = True
        assert {one.document for one in await rig.found("KX-440B")} == {"mine", "german"}, "it is checked again"


async def test_what_another_tenant_writes_changes_no_score(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path) as rig:
        for number in range(6):
            await rig.put(Document(id=f"{number}", text=f"The fee of plan {number} is {number} euro."))
        before = await rig.found("fee of plan 3")
        for number in range(12):
            await rig.put(Document(id=f"{number}", text="The fee of plan 3, the fee."), tenant="other")
        assert await rig.found("fee of plan 3") == before


async def test_a_replaced_and_a_deleted_text_are_not_found_by_their_words(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path) as rig:
        await rig.put(Document(id="a", text="The code is OLD-17."))
        await rig.put(Document(id="a", text="The code is NEW-18."))
        await rig.put(Document(id="b", text="Another one: OLD-17."))
        await rig.put(Document(id="b", op="delete"))
        assert [one.text for one in await rig.found("OLD-17")] == ["The code is NEW-18."]


async def test_words_count_as_much_as_the_settings_say(bus: Bus, tmp_path: Path) -> None:
    near, worded = Document(id="near", text="entirely different words"), Document(id="worded", text="It is KX-440B.")
    weights = {"loud": 1.0, "acme/loud": 0.0}
    async with running(bus, tmp_path, lexical_weight=0.0, lexical_weights=weights) as rig:
        for tenant in ("acme", "other"):
            for document in (near, worded):
                await rig.put(document, tenant=tenant, collection="loud")
        ask = {"knowledge": ["loud"], "vector": ELSEWHERE}
        assert [one.document for one in await rig.found("KX-440B", **ask)] == ["near", "worded"]
        assert [one.document for one in await rig.found("KX-440B", tenant="other", **ask)] == ["worded", "near"]
        rig.vectors.broken = {"search_terms"}
        assert len(await rig.found("KX-440B", **ask)) == 2, "words are not even searched"


def test_a_weight_beyond_its_bounds_is_refused() -> None:
    for wrong in ({"lexical_weight": 1.5}, {"lexical_weights": {"help": -0.1}}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, Settings)


async def test_switched_off_it_keeps_and_searches_no_words(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path, hybrid=False) as rig:
        await rig.put(Document(id="a", text="The code is KX-440B."))
        rig.vectors.broken = {"search_terms", "set_terms"}
        assert len(await rig.found("KX-440B")) == 1
        (chunk,) = await rig.vectors.scroll(Where(equal={"kind": "chunk"}), 5, vectors=True)
        assert chunk.terms is None
        assert "terms_version" not in chunk.payload


async def test_an_embedded_store_from_before_is_mended_and_says_so(
    bus: Bus, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await _mended(bus, lambda: vectors_for("embedded", tmp_path), caplog)


async def test_a_servers_store_from_before_is_mended_and_says_so(
    bus: Bus, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(QdrantFront()) as url:
        await _mended(bus, lambda: vectors_for(url, tmp_path), caplog)


async def _mended(bus: Bus, opened: Callable[[], Faulty], caplog: pytest.LogCaptureFixture) -> None:
    texts = {f"sheet-{number}": f"# Pumps\n\nThe code is KX-{400 + number}B." for number in range(PAGE + 6)}
    async with running(bus, Path(), vectors=opened(), hybrid=False) as rig:
        for id_, text in texts.items():
            await rig.put(Document(id=id_, title="Sheet ALPHA-1", text=text))
    broken = opened()
    broken.broken = {"set_terms"}
    async with running(bus, Path(), vectors=broken) as rig:
        report = rig.retriever.report()
        assert report["mended"] == ["terms"]
        assert report["wordless"] == len(texts)
        assert "the store lacked indexes" in caplog.text
        assert "cannot be found by words yet" in caplog.text
        assert len(await rig.found("KX-431B", limit=3)) == 3, "by vectors alone"
        assert "KX" not in caplog.text
    async with running(bus, Path(), vectors=opened()) as rig:
        await until(lambda: rig.retriever.report()["wordless"] == 0)
        found = await rig.found("KX-431B", vector=ELSEWHERE, limit=1)
        assert [one.document for one in found] == ["sheet-31"]
        assert len(await rig.vectors.inner.scroll(Where(equal={"terms_version": 1}), 500)) == len(texts)
    async with running(bus, Path(), vectors=opened()) as rig:
        assert (rig.retriever.report()["wordless"], rig.retriever.report()["mended"]) == (0, [])


async def test_every_filter_has_an_index(bus: Bus, tmp_path: Path) -> None:
    """A server in strict mode refuses filters by what has none."""
    front = QdrantFront()
    front.strict = True
    async with listening(front) as url, running(bus, tmp_path, url=url, indexed=["lang"]) as rig:
        await rig.put(Document(id="a", text="The code is KX-440B.", metadata={"lang": "en"}))
        await rig.put(Document(id="a", text="The code is KX-441B.", metadata={"lang": "en"}))
        assert len(await rig.found("KX-441B", filter={"lang": "en"})) == 1
        assert await rig.vectors.count(Where(equal={"kind": "chunk"})) == 1
        await rig.put(Document(id="a", op="delete"))
        reply = await rig.ask("KX-441B")
        assert isinstance(reply, Retrieved)
        assert (reply.passages, reply.missing) == ([], ["help"])
        assert not isinstance(await rig.ask("KX-441B", filter={"year": 2024}), Retrieved)
    assert set(front.indexes["passages"]) >= {"tenant", "collection", "kind", "key", "version", "meta.lang"}


def _texts() -> dict[str, str]:
    """Documents of a tenant, made of few words so that many share some."""
    random = np.random.default_rng(7)
    vocabulary = [*"abcdefgh", "fee", "plan", "refund", "KX-440B", "48213", "7 days"]
    return {f"d{number}": " ".join(random.choice(vocabulary, size=int(random.integers(3, 9)))) for number in range(80)}


def _scanned(texts: dict[str, str], question: str, weight: float) -> list[str]:
    """The order of an exact scan: every document compared, nothing left out."""
    known = {id_: document_terms(text) for id_, text in texts.items()}
    having = Counter(term for one in known.values() for term in one.ids.tolist())
    total = len(texts)
    rarity = {term: math.log(1 + (total - n + 0.5) / (n + 0.5)) for term, n in having.items()}
    asked = set(question_terms(question).ids.tolist())
    words = {
        id_: sum(w * rarity[t] for t, w in zip(one.ids.tolist(), one.weights.tolist(), strict=True) if t in asked)
        for id_, one in known.items()
    }
    best = max(words.values()) or 1.0
    scores = {
        id_: (1 - weight) * float(hashed(text) @ hashed(question)) + weight * words[id_] / best
        for id_, text in texts.items()
    }
    return sorted(scores, key=lambda id_: -round(scores[id_], 5))


async def _filled(vectors: VectorStore, texts: dict[str, str], weight: float) -> Library:
    library = Library(vectors, Blend(weight=weight))
    await library.open(DIM, MODEL, [])
    for tenant, own in (("acme", texts), ("other", dict.fromkeys(texts, "fee plan KX-440B 48213"))):
        for id_, text in own.items():
            key, document = Key(tenant, "help", id_), Document(id=id_, text=text)
            chunk = Chunk(
                number=0, start=0, end=len(text), heading="", passage=0, passage_start=0, passage_end=len(text)
            )
            await library.add([chunk_point(key, 1, document, chunk, hashed(text), words=True)])
            await library.flip(key, Manifest(version=1, chunks=1))
    return library


@pytest.mark.parametrize("weight", [0.15, 0.6])
@STORES
async def test_results_are_those_of_an_exact_scan(tmp_path: Path, url: str, weight: float) -> None:
    texts = _texts()
    library = await _filled(store(url, tmp_path, "passages"), texts, weight)
    for question in ("fee of plan KX-440B", "48213 refund", "a b c", "7 days", "h"):
        expected = _scanned(texts, question, weight)
        found = await library.search(hashed(question), "acme", ["help"], {}, len(texts), question=question)
        assert _grouped(found, lambda one: texts[one.document]) == [texts[id_] for id_ in _first(expected, texts)]
    await library.close()


def _grouped(found: list[Passage], text: Callable[[Passage], str]) -> list[str]:
    """The texts in order, each once: equal texts have equal scores."""
    return list(dict.fromkeys(text(one) for one in found))


def _first(order: list[str], texts: dict[str, str]) -> list[str]:
    return list({texts[id_]: id_ for id_ in reversed(order)}.values())[::-1]
