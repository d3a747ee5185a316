"""Selection: by relevance and not by position, whole units only, nothing said twice, never over the room."""

import random
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.compressor.byte_estimate import ByteEstimate
from hasten.compressor.document import Document, documents
from hasten.compressor.selection import choose, query_of
from hasten.messages.retrieve import Passage
from hasten.terms import terms


def read(*texts: str, scores: Sequence[float] = (), title: str = "") -> list[Document]:
    given = [*scores, *[0.0] * len(texts)]
    passages = [
        Passage(id=text, collection="c", document=text, text=text, title=title, score=given[at])
        for at, text in enumerate(texts)
    ]
    return documents(passages, lambda text: text, ByteEstimate().counts)


def chosen(docs: list[Document], question: str, room: int, earlier: str = "") -> list[str]:
    kept = choose(docs, query_of(question, earlier, docs), room)
    return [doc.units[at].text for doc, units in zip(docs, kept, strict=True) for at in units]


CHUNKS = [f"The {name} office opens at nine. It is closed on Sundays in {name}." for name in "abcdefghi"]
RELEVANT = "A refund of the annual fee is paid within 14 days. Write to billing for a refund."


def test_the_relevant_chunk_is_found_wherever_it_stands() -> None:
    sets = []
    for seed in range(10):
        texts = [*CHUNKS, RELEVANT]
        random.Random(seed).shuffle(texts)
        sets.append(set(chosen(read(*texts), "How soon is a refund of the annual fee paid?", 60)))
    assert "A refund of the annual fee is paid within 14 days." in sets[0]
    assert all(one == sets[0] for one in sets)


def test_the_retrievers_score_counts_and_its_scale_does_not() -> None:
    texts = [f"The {name} plan has support." for name in ("amber", "cobalt", "jade")]
    for scores in ((0.1, 0.9, 0.2), (1.0, 9.0, 2.0), (-5.0, 30.0, -4.0)):
        assert chosen(read(*texts, scores=scores), "support", 20) == ["The cobalt plan has support."]


def test_the_sentence_with_the_answer_is_kept_of_a_long_passage() -> None:
    filler = " ".join(f"Paragraph {n} tells of something else entirely." for n in range(60))
    text = f"{filler} The Family plan costs 9 euros per month. {filler}"
    assert "The Family plan costs 9 euros per month." in chosen(read(text), "What does the Family plan cost?", 60)


def test_kept_units_stay_in_the_order_of_the_text() -> None:
    docs = read("Zebras eat grass. Lions eat zebras. Grass eats nothing.")
    assert chosen(docs, "grass zebras", 1000) == ["Zebras eat grass.", "Lions eat zebras.", "Grass eats nothing."]


def test_what_is_said_already_is_not_said_again() -> None:
    docs = read("The limit is 5 GB per file.", "the limit is 5 GB, per file!", "The limit is 50 GB per file.")
    assert chosen(docs, "limit", 1000) == ["The limit is 5 GB per file.", "The limit is 50 GB per file."]


def test_figures_signs_negations_names_and_order_make_a_difference() -> None:
    pairs = [
        ("Exempt if < 50,000.", "Exempt if > 50,000."),
        ("It works at -5 degrees.", "It works at 5 degrees."),
        ("Refunds are possible.", "Refunds are not possible."),
        ("Amber replaces Cobalt.", "Cobalt replaces Amber."),
        ("Photos and videos.", "Photos or videos."),
        ("All plans have it.", "Some plans have it."),
    ]
    for one, other in pairs:
        assert chosen(read(one, other), "exempt degrees refunds amber photos plans", 1000) == [one, other]


def test_a_unit_brings_its_heading_and_its_tables_header() -> None:
    table = "## Prices\n\n| Plan | Monthly |\n|---|---|\n| Free | 0 |\n| Family | 9 |\n| Team | 19 |"
    docs = read(table)
    room = docs[0].total - 8
    kept = chosen(docs, "family", room)
    assert kept[:2] == ["## Prices", "| Plan | Monthly |\n|---|---|"]
    assert "| Family | 9 |" in kept
    assert len(kept) < len(docs[0].units)


def test_a_heading_that_repeats_the_title_is_not_paid_for() -> None:
    docs = read("# Refunds\n\nMoney comes back in 14 days. Ask billing. Ask again. And once more.", title="Refunds")
    assert chosen(docs, "money", docs[0].head + 14) == ["Money comes back in 14 days."]


def test_a_short_question_leans_on_the_turn_before() -> None:
    docs = read("A pump for the Orka dishwasher costs 40.", "A pump for the Delfin washer costs 60.")
    asked = chosen(docs, "And a new pump?", 25, earlier="What does a filter for the Delfin washer cost?")
    assert asked == ["A pump for the Delfin washer costs 60."]


def test_unspaced_scripts_are_matched() -> None:
    docs = read("送料は無料です。解約は月末の三日前までです。住所は東京です。")
    assert chosen(docs, "解約はいつまでですか", 50) == ["解約は月末の三日前までです。"]


def test_terms_keep_figures_and_fold_endings() -> None:
    assert terms("Costs 9.50 euros for KX-440B") == ["cost", "9.50", "euro", "kx", "440", "b"]
    assert terms("the of") == ["the", "of"]


SENTENCE = st.lists(
    st.sampled_from(["plan", "price", "refund", "9", "Not", "euros", "data", "the", "limit", "KX-440B"]),
    min_size=1,
    max_size=9,
)
PASSAGES = st.lists(st.lists(SENTENCE, min_size=0, max_size=8), max_size=8)


@settings(deadline=None)
@given(
    PASSAGES,
    st.integers(0, 300),
    st.randoms(use_true_random=False),
    st.lists(st.integers(0, 3), min_size=8, max_size=8),
)
def test_never_over_the_room_and_the_same_set_in_any_order(
    passages: list[list[list[str]]], room: int, shuffle: random.Random, scores: list[int]
) -> None:
    texts = [" ".join(f"{' '.join(words).capitalize()}." for words in sentences) for sentences in passages]
    scored = list(zip(texts, scores, strict=False))
    docs = read(*texts, scores=[score for _, score in scored])
    kept = choose(docs, query_of("what is the refund limit", "", docs), room)
    assert sum(doc.size(units) for doc, units in zip(docs, kept, strict=True)) <= room
    for doc, units in zip(docs, kept, strict=True):
        assert units == sorted(set(units))
        assert all(doc.units[at].text in doc.text for at in units)
    first = sorted(doc.units[at].text for doc, units in zip(docs, kept, strict=True) for at in units)
    shuffle.shuffle(scored)
    again = read(*[text for text, _ in scored], scores=[score for _, score in scored])
    if len(set(texts)) == len(texts):
        assert sorted(chosen(again, "what is the refund limit", room)) == first
