"""The terms of chunks and questions: codes stay whole, any script has terms, and products are BM25."""

import math

import numpy as np
import pytest

from hasten import terms
from hasten.retriever import bm25
from hasten.retriever.bm25 import AVERAGE, K1, MAX_QUESTION_TERMS, B, codes, document_terms, question_terms
from hasten.vectors.store import Terms


def shared(question: str, text: str) -> int:
    """How many terms of a question a text has."""
    return len(np.intersect1d(question_terms(question).ids, document_terms(text).ids))


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("KX-440B", "Replace the KX-440B first."),
        ("kx440b", "Replace the KX-440B first."),
        ("What does part 48213 cost?", "48213 costs 5 euro"),
        ("48213", "The stock number is 48,213."),
        ("v2.10.3", "Fixed in V2.10.3."),
        ("ISO/IEC 27001", "certified by ISO/IEC 27001:2022"),
        ("user_id_7", "the column `user_id_7`"),
        ("ＫＸ－４４０Ｂ", "Replace the KX-440B first."),
        ("KX-440B", "KX\u2011440B and KX\u2013440C"),
        ("refunds", "A refund takes 14 days."),
        ("退款需要几天", "退款需要十四天。"),
        ("返金は何日", "返金には14日かかります"),
        ("ค่าธรรมเนียม", "ค่าธรรมเนียมคือ 5 ยูโร"),
        ("Возврат денег", "возврат занимает 14 дней"),
        ("Gebühr", "Die Gebühr beträgt 5 Euro"),
    ],
)
def test_what_is_asked_for_verbatim_shares_terms(question: str, text: str) -> None:
    assert shared(question, text) > 0


@pytest.mark.parametrize(
    ("question", "text"), [("48213", "48231"), ("KX-440B", "KX-404B"), ("2.10.3", "2.10.13"), ("", "text"), ("!?", "…")]
)
def test_codes_that_differ_are_different_codes(question: str, text: str) -> None:
    whole = set(codes(question)) & set(codes(text))
    assert whole == set()
    assert shared(question, text) < max(1, len(question_terms(question).ids))


def test_the_weights_of_a_text_are_those_of_bm25() -> None:
    text = "apple apple pear"
    norm = K1 * (1 - B + B * 3 / AVERAGE)
    expected = {2 * (K1 + 1) / (2 + norm), 1 * (K1 + 1) / (1 + norm)}
    assert sorted(document_terms(text).weights.tolist()) == pytest.approx(sorted(expected))
    assert set(question_terms("apple apple pear").weights.tolist()) == {1.0}
    assert math.isclose(max(document_terms("word " * 500).weights), K1 + 1, rel_tol=0.05), "it saturates"


def test_ids_are_sorted_different_and_the_same_everywhere() -> None:
    made = document_terms("The pump KX-440B takes 3 l of oil; the pump KX-440C takes 4 l.")
    assert np.all(np.diff(made.ids.astype(np.int64)) > 0)
    assert made.ids.dtype == np.uint32
    assert document_terms("pump").ids.tolist() == [1479114796]


def test_a_long_question_keeps_its_codes() -> None:
    asked = question_terms(" ".join(f"word{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(400)) + " KX-440B")
    assert len(asked.ids) == MAX_QUESTION_TERMS
    assert np.isin(question_terms("KX-440B").ids, asked.ids).any()


@pytest.mark.parametrize("filler", ["a-", "1,", "\ufdfa", "word "])
def test_of_a_question_without_end_both_ends_are_read(filler: str) -> None:
    asked = question_terms(f"KX-440B {filler * 100_000} PT-771C")
    for code in ("KX-440B", "PT-771C"):
        assert np.isin(question_terms(code).ids, asked.ids).all()
    middle = question_terms(f"x {filler * 20_000} KX-440B {filler * 20_000} y")
    assert not np.isin(question_terms("KX-440B").ids, middle.ids).any()


def test_words_without_end_are_not_remembered() -> None:
    """Each would take memory for as long as the process runs; a run of Chinese takes 84 bytes a character."""
    document_terms("\u9000\u9000")
    words, numbers = terms._known_parts.cache_info().misses, bm25._known_number.cache_info().misses
    for long in ("\u9000" * 1000, "x" * 1000):
        document_terms(long)
    assert (terms._known_parts.cache_info().misses, bm25._known_number.cache_info().misses) == (words, numbers)


def test_no_text_has_no_terms() -> None:
    for text in ("", " \n", "…?!"):
        made: Terms = document_terms(text)
        assert (len(made.ids), len(made.weights)) == (0, 0)
