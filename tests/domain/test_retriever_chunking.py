"""Chunks: spans are verbatim, nothing is lost, nothing is cut that belongs together, and no text takes for ever."""

import itertools
import re
import time
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hasten.retriever.chunking import MAX_WHOLE, MAX_WORDS, Chunk, chunks
from hasten.retriever.sentences import Span, divided, sentences, size

ARTICLE = """# Aurora thermostat

Welcome to the manual.

## Billing

### Refunds

You can return it within 30 days, e.g. by mail. Dr. Berg decides. The limits are:

- 5 euro in Norway
- 7 euro elsewhere
  - and 9 on islands

| plan | price |
|------|-------|
| S    | 5     |

### Empty

## Codes

```
# not a heading

E42 means that the filter is full.
```

Last words.
"""
WORDS = st.sampled_from(["fee", "refund", "14", "A-4711", "naïve", "返品", "Größe", "x" * 40, "e.g.", "Dr.", "?", "😀"])
LINES = st.lists(WORDS, min_size=1, max_size=30).map(" ".join)
PARAGRAPHS = st.lists(LINES.map(lambda line: line + "."), min_size=1, max_size=6).map(" ".join)
BLOCKS = st.one_of(
    PARAGRAPHS,
    LINES.map(lambda line: f"## {line[:60]}"),
    st.lists(LINES, min_size=1, max_size=25).map(lambda lines: "\n".join(f"- {line}" for line in lines)),
    st.lists(LINES, min_size=1, max_size=25).map(lambda lines: "```\n" + "\n".join(lines) + "\n```"),
    st.lists(LINES, min_size=1, max_size=9).map(
        lambda rows: "| a | b |\n|---|---|\n" + "\n".join(f"| {r} | 1 |" for r in rows)
    ),
    st.just("---"),
)
DOCUMENTS = st.lists(BLOCKS, max_size=12).map("\n\n".join)
KINDS = st.sampled_from(["text/markdown", "text/plain"])


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def check(text: str, kind: str, found: list[Chunk]) -> None:
    """What holds for every text."""
    end = 0
    for number, chunk in enumerate(found):
        assert chunk.number == number
        own = text[chunk.start : chunk.end]
        assert own.strip() == own != "", "no chunk is empty or padded"
        assert chunk.start >= end, "chunks are in order and do not overlap"
        assert chunk.passage_start <= chunk.start < chunk.end <= chunk.passage_end
        assert size(own) <= MAX_WHOLE
        assert all(chunk.start <= one.start < one.end <= chunk.end for one in chunk.sentences)
        assert all(one.end <= two.start for one, two in itertools.pairwise(chunk.sentences))
        assert chunk.lead.end <= chunk.start, "what a chunk hangs on comes before it"
        end = chunk.end
    missing = Counter(words(text)) - Counter(words("\n".join(text[chunk.start : chunk.end] for chunk in found)))
    lines = [line for line in text.split("\n") if line.startswith("## ") and kind == "text/markdown"]
    assert missing <= Counter(words("\n".join(lines))), "only headings are in no chunk"
    above = " > ".join(chunk.heading for chunk in found)
    assert set(missing) <= set(words(above)), "and those are above one"


def check_passages(found: list[Chunk]) -> None:
    passages = {(chunk.passage, chunk.passage_start, chunk.passage_end) for chunk in found}
    ordered = sorted(passages)
    assert [number for number, _, _ in ordered] == list(range(len(ordered)))
    assert all(one[2] <= two[1] for one, two in itertools.pairwise(ordered)), "passages do not overlap"


@given(DOCUMENTS, KINDS)
def test_nothing_is_lost_and_spans_are_verbatim(text: str, kind: str) -> None:
    found = chunks(text, kind)
    check(text, kind, found)
    check_passages(found)


@given(st.text(max_size=600), KINDS)
@example("\x1f", "text/markdown")
def test_any_text_at_all(text: str, kind: str) -> None:
    found = chunks(text, kind)
    check_passages(found)
    if kind == "text/plain":
        kept = "".join(text[one.start : one.end] for one in found)
        missing = Counter("".join(text.split())) - Counter("".join(kept.split()))
        above = "".join(chunk.heading for chunk in found)
        assert set(missing) <= set(above) | set("=-*_:"), "what is in no chunk is a heading above one"


@given(st.text(alphabet=st.sampled_from("ab .!?\n。！"), max_size=400))
def test_sentences_cover_the_text(text: str) -> None:
    found = sentences(text, Span(0, len(text)))
    kept = "".join("".join(text[one.start : one.end].split()) for one in found)
    assert kept == "".join(text.split())


@given(st.text(alphabet=st.sampled_from("aé .\n漢-"), max_size=900), st.integers(1, 40))
def test_pieces_of_what_is_too_large_keep_to_the_limit(text: str, limit: int) -> None:
    found = divided(text, Span(0, len(text)), limit)
    assert len(found) == 1 or all(size(text[one.start : one.end]) <= limit for one in found)
    assert "".join("".join(text[one.start : one.end].split()) for one in found) == "".join(text.split())


def test_sections_keep_their_headings_and_lists_their_introduction() -> None:
    found = chunks(ARTICLE, "text/markdown", title="Aurora thermostat")
    assert [chunk.heading for chunk in found] == ["", "Billing > Refunds", "Billing > Empty", "Codes"]
    refunds = ARTICLE[found[1].start : found[1].end]
    assert refunds.startswith("You can return it")
    assert refunds.endswith("| S    | 5     |")
    assert ARTICLE[found[1].passage_start : found[1].passage_end].startswith("### Refunds\n\nYou")
    assert ARTICLE[found[2].start : found[2].end] == "### Empty"
    assert "# not a heading\n\nE42" in ARTICLE[found[3].start : found[3].end]
    assert chunks(ARTICLE, "text/markdown")[1].heading == "Aurora thermostat > Billing > Refunds"


def test_a_list_is_cut_between_items_only_when_it_is_enormous() -> None:
    small = "Intro:\n\n" + "\n".join(f"- item {n} has a few words" for n in range(12))
    assert len(chunks(small, "text/markdown")) == 1
    enormous = "\n".join(f"- item {n} has a few words" for n in range(200))
    found = chunks(enormous, "text/markdown")
    assert len(found) > 5
    assert all(enormous[chunk.start : chunk.end].startswith("- item ") for chunk in found)


def test_chunks_of_a_long_section_are_about_equal_and_share_passages() -> None:
    text = " ".join(f"Sentence number {n} says something about the fee." for n in range(41))
    found = chunks(text, "text/plain", passage_chars=1500)
    sizes = [size(text[chunk.start : chunk.end]) for chunk in found]
    assert max(sizes) <= MAX_WORDS
    assert min(sizes) > MAX_WORDS // 2
    assert all(text[chunk.start : chunk.end].endswith(".") for chunk in found)
    assert len({chunk.passage for chunk in found}) < len(found)
    assert all(chunk.passage_end - chunk.passage_start <= 1500 for chunk in found)
    assert len({chunk.passage for chunk in chunks(text, "text/plain", passage_chars=1)}) == len(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("See Dr. Berg at no. 5, e.g. today. Then go.", ["See Dr. Berg at no. 5, e.g. today.", "Then go."]),
        ("It costs 3.50 euro. Really.", ["It costs 3.50 euro.", "Really."]),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
        ("返品できます。手数料は？はい！", ["返品できます。", "手数料は？", "はい！"]),
        ("「はい。」と言った。", ["「はい。」", "と言った。"]),
        ("यह है। वह था।", ["यह है।", "वह था।"]),
        ("هل هذا؟ نعم.", ["هل هذا؟", "نعم."]),
        ("Wait... what", ["Wait... what"]),
    ],
)
def test_sentence_ends_in_several_languages(text: str, expected: list[str]) -> None:
    assert [text[one.start : one.end] for one in sentences(text, Span(0, len(text)))] == expected


def test_a_language_without_spaces_is_cut_at_its_sentences() -> None:
    text = "これは返品についての説明です。" * 60
    found = chunks(text, "text/plain")
    assert len(found) > 5
    assert all(text[chunk.start : chunk.end].endswith("。") for chunk in found)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_every_line_end_counts_alike(ending: str) -> None:
    text = ARTICLE.replace("\n", ending)
    found, reference = chunks(text, "text/markdown"), chunks(ARTICLE, "text/markdown")
    assert [text[chunk.start : chunk.end].replace(ending, "\n") for chunk in found] == [
        ARTICLE[chunk.start : chunk.end] for chunk in reference
    ]


@pytest.mark.parametrize("text", ["", " \n\t\n", "---\n\n***\n"])
def test_a_text_without_words_has_no_chunks(text: str) -> None:
    assert chunks(text, "text/markdown") == []


def test_lines_that_markdown_does_not_show_are_kept() -> None:
    text = "[one]: https://example.com/first\n\nText.\n\n[two]: https://example.com/second\n"
    found = chunks(text, "text/markdown")
    kept = "\n".join(text[chunk.start : chunk.end] for chunk in found)
    assert "first" in kept
    assert "second" in kept


def test_a_heading_that_is_too_long_to_be_one_is_text() -> None:
    text = "# " + "very long " * 60
    found = chunks(text, "text/markdown")
    assert found[0].heading == ""
    assert "".join(text[chunk.start : chunk.end] for chunk in found).count("long") == 60


@pytest.mark.parametrize(
    "evil",
    [
        "." * 60_000,
        "[" * 60_000,
        "# " + "[" * 60_000,
        ">" * 60_000,
        "`" * 60_000,
        "- " * 30_000,
        "- a\n" * 20_000,
        "x" * 60_000,
        " " * 60_000,
        "a. " * 20_000,
        '."' * 30_000,
        "<div>" * 12_000,
        "|" * 60_000,
        "漢" * 60_000,
        "[a]: b\n" * 8_000,
        "".join(" " * min(depth, 90) + "- a\n" for depth in range(1_000)),
    ],
    ids=lambda evil: repr(evil[:8]),
)
def test_no_text_takes_more_than_linear_time(evil: str) -> None:
    """Four times the text may take at most twelve times as long (four and noise), unless both are instant."""

    def seconds(text: str) -> float:
        started = time.process_time()
        chunks(text, "text/markdown")
        chunks(text, "text/plain")
        return time.process_time() - started

    once = min(seconds(evil[: len(evil) // 4]) for _ in range(2))
    assert seconds(evil) <= 12 * once + 0.5
