"""The demo's help centre: enough articles, each short and plain, none repeating or spoiling what another says."""

import re
from collections import Counter
from importlib.resources import files

import pytest

ARTICLES = {
    entry.name: entry.read_text(encoding="utf-8")
    for entry in (files("hasten.demo") / "articles").iterdir()
    if entry.name.endswith(".md")
}


def sentences(text: str) -> list[str]:
    prose = " ".join(line for line in text.splitlines() if line and not line.startswith("#"))
    return re.split(r"(?<=[.?!]) (?=[A-Z])", prose)


def test_there_are_enough() -> None:
    assert len(ARTICLES) >= 44


@pytest.mark.parametrize("name", sorted(ARTICLES))
def test_an_article_has_a_title_sections_and_a_readable_length(name: str) -> None:
    text = ARTICLES[name]
    assert re.match(r"# \S.*\n\n", text)
    assert text.count("\n## ") >= 2
    assert 60 <= len(re.sub(r"#+", "", text).split()) <= 180


def test_titles_and_sentences_are_said_once() -> None:
    said = Counter(sentence for text in ARTICLES.values() for sentence in sentences(text))
    assert [sentence for sentence, times in said.items() if times > 1] == []
    assert len({text.splitlines()[0] for text in ARTICLES.values()}) == len(ARTICLES)


@pytest.mark.parametrize(
    ("fact", "name"),
    [
        ("The Family plan costs 9 euros per month.", "family-plan.md"),
        ("The Solo plan costs 4 euros per month.", "solo-plan.md"),
        ("Deleted files are kept for 30 days.", "deleted-files.md"),
    ],
)
def test_what_the_demo_asks_stands_in_one_article_as_a_sentence_of_its_own(fact: str, name: str) -> None:
    assert [one for one, text in ARTICLES.items() if fact in sentences(text)] == [name]
    telling = re.search(r"\b\d+ (?:euros|days)", fact)
    assert telling is not None
    same_kind = [one for one, text in ARTICLES.items() if re.search(rf"\b{telling[0]}\b", text)]
    assert same_kind == [name]
