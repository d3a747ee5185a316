"""The sentences of a passage that match a question: exact spans, scores, and documents that have none."""

from pathlib import Path

import pytest
from indexed_words import HashedWords, hashed
from retriever_rig import running

from hasten.bus import Bus
from hasten.messages.retrieve import Document, Passage

MANUAL = """Before any heading. Two sentences here.

# Fees

The fee for a return is five euro. Ring us at noon, e.g. on Tuesday. Nobody else decides.

| plan | price |
|------|-------|
| small | 5 euro |
| large | 9 euro |

- first item of the list
- second item about waterfalls

## 返品

返品は無料です。手数料はありません。

```
code = 1

more = 2
```
"""


def said(passage: Passage) -> dict[str, float]:
    """The sentences of a passage with their scores."""
    return {passage.text[one.start : one.end]: one.score for one in passage.sentences}


async def test_each_passage_says_how_near_its_sentences_are(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path) as rig:
        await rig.put(Document(id="manual", title="Manual", text=MANUAL))
        passages = await rig.found("fee for a return", limit=20)
        question = hashed("fee for a return")
    scores = {text: score for passage in passages for text, score in said(passage).items()}
    assert set(scores) == {
        "Before any heading.",
        "Two sentences here.",
        "The fee for a return is five euro.",
        "Ring us at noon, e.g. on Tuesday.",
        "Nobody else decides.",
        "| plan | price |",
        "| small | 5 euro |",
        "| large | 9 euro |",
        "- first item of the list",
        "- second item about waterfalls",
        "返品は無料です。",
        "手数料はありません。",
        "```\ncode = 1\n\nmore = 2\n```",
    }
    assert max(scores, key=scores.__getitem__) == "The fee for a return is five euro."
    for text, score in scores.items():
        assert score == pytest.approx(float(hashed(text) @ question), abs=0.02)
    for passage in passages:
        assert MANUAL[passage.start : passage.end] == passage.text
        for one in passage.sentences:
            source = MANUAL[passage.start + one.start : passage.start + one.end]
            assert source == passage.text[one.start : one.end]
        assert [one.start for one in passage.sentences] == sorted(one.start for one in passage.sentences)


async def test_a_new_version_and_a_deletion_take_the_old_sentences_along(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path) as rig:
        await rig.put(Document(id="a", text="The old fee. It was five."))
        await rig.put(Document(id="a", text="The new fee. It is nine."))
        (passage,) = await rig.found("fee")
        assert set(said(passage)) == {"The new fee.", "It is nine."}
        await rig.put(Document(id="a", op="delete"))
        assert await rig.vectors.count() == 2, "the collection's own point and the tombstone"


async def test_another_tenant_has_sentences_of_its_own(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path) as rig:
        await rig.put(Document(id="a", text="Ours is five."), tenant="acme")
        await rig.put(Document(id="a", text="Theirs is nine."), tenant="other")
        (ours,) = await rig.found("five")
        (theirs,) = await rig.found("five", tenant="other")
    assert (list(said(ours)), list(said(theirs))) == (["Ours is five."], ["Theirs is nine."])


async def test_documents_without_sentence_vectors_are_found_as_ever(bus: Bus, tmp_path: Path) -> None:
    """As those stored before there were any, or with an embedder that makes none; a new ingestion adds them."""
    words = HashedWords(bus)
    await words.start()
    async with running(bus, tmp_path, words=words) as rig:
        words.sentences = False
        await rig.put(Document(id="a", text="The fee is five. It is low."))
        (passage,) = await rig.found("fee")
        assert passage.sentences == []
        words.sentences = True
        await rig.put(Document(id="a", text="The fee is five. It is low."))
        (passage,) = await rig.found("fee")
        assert list(said(passage)) == ["The fee is five.", "It is low."]
    await words.close()


async def test_many_short_sentences_do_not_make_a_request_too_large(bus: Bus, tmp_path: Path) -> None:
    text = "\n\n".join(" ".join(f"No{n}x{m}." for m in range(30)) for n in range(60))
    async with running(bus, tmp_path) as rig:
        await rig.put(Document(id="many", text=text))
        passages = await rig.found("No3x4", limit=100)
    assert sum(len(passage.sentences) for passage in passages) == 60 * 30
