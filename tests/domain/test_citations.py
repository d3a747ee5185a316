"""Sentences of an answer and what a passage says of them: words, figures, names, denials, spans and citations."""

import time

import pytest

from hasten.messages.retrieve import Passage
from hasten.orchestrator.verification.citations import Verification
from hasten.orchestrator.verification.claim import claims
from hasten.orchestrator.verification.reading import reading
from hasten.orchestrator.verification.support import Shelf, evidence_of, support

PUMPS = Passage(
    id="shop/pumps#0",
    collection="shop",
    document="pumps",
    title="Pumps",
    text="A new pump costs 1,250 euro and is delivered by Mr. Halder within 3 days. It may not be returned after use. "
    "Pumps of the Orka series were built in 1990, not in 1991.",
)
HOSES = Passage(id="shop/hoses#0", collection="shop", document="hoses", text="A hose is 12 m long. Hoses are free.")


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ("A new pump costs 1,250 euro.", ""),
        ("A new pump costs 1250 euro.", ""),
        ("The new pump costs 1,250 euro and comes within three days.", ""),
        ("A new pump costs 1,350 euro.", "figures"),
        ("A new pump is delivered within five days.", "figures"),
        ("It is delivered by Mr. Halder.", ""),
        ("A new pump is delivered by Mr. Winter within 3 days.", "names"),
        ("Pumps may be returned after use.", "denial"),
        ("Pumps may not be returned after use.", ""),
        ("Pumps may not be returned before use.", "opposite"),
        ("A new pump does not cost 1,250 euro.", "denial"),
        ("Pumps of the Orka series were built in 1990.", ""),
        ("Whales sing to each other over great distances.", "words"),
    ],
)
def test_what_a_passage_bears_out(said: str, fault: str) -> None:
    best = support(reading(said), evidence_of(PUMPS))
    assert best is not None
    assert best.fault == fault


def test_the_span_is_of_the_passage_and_no_wider_than_needed() -> None:
    best = support(reading("Pumps may not be returned after use."), evidence_of(PUMPS))
    assert best is not None
    assert PUMPS.text[best.start : best.end] == "It may not be returned after use."


def test_an_empty_passage_bears_nothing_out() -> None:
    empty = Passage(id="e", collection="c", document="d", text=" \n")
    assert support(reading("Anything."), evidence_of(empty)) is None


def test_sentences_and_what_they_cite() -> None:
    text = (
        "Dr. Lee paid 3.5 euro [1]. It rose. [2][3]\n- A point [1, 3]\n```\nx[0] = a[1].\n```\n"
        "See [1](http://a.b) and `b[2]`. Ranges count [1-3]。好的。"
    )
    found = [(text[one.start : one.end], one.cites) for one in claims(text)]
    assert found == [
        ("Dr. Lee paid 3.5 euro [1].", [1]),
        ("It rose. [2][3]", [2, 3]),
        ("A point [1, 3]", [1, 3]),
        ("See [1](http://a.b) and `b[2]`.", []),
        ("Ranges count [1-3]。", [1, 2, 3]),
        ("好的。", []),
    ]


def verified(text: str, *passages: Passage) -> Verification:
    made = Verification(text, passages, Shelf())
    for _ in made.sentences():
        pass
    return made


def test_an_answer_is_judged_sentence_by_sentence() -> None:
    text = "A new pump costs 1,250 euro [1]. A hose is 15 m long [2]. Hoses are sold in large blue boxes. Sure!"
    made = verified(text, PUMPS, HOSES)
    assert [(one.outcome, one.borne_out, one.passage, one.fault) for one in made.found] == [
        ("supported", True, "shop/pumps#0", ""),
        ("unsupported", False, "shop/hoses#0", "figures"),
        ("uncited", False, made.found[2].passage, "words"),
    ]
    first = made.found[0]
    assert text[first.start : first.end] == "A new pump costs 1,250 euro [1]."
    assert first.span is not None
    assert PUMPS.text[slice(*first.span)].startswith("A new pump costs 1,250 euro")
    assert not made.passed(False)


@pytest.mark.parametrize(
    ("text", "passed", "strict"),
    [
        ("A new pump costs 1,250 euro [1].", True, True),
        ("A new pump costs 1,250 euro.", True, True),
        ("Whales sing over great distances.", True, False),
        ("Whales sing over great distances [1].", False, False),
        ("A new pump costs 1,250 euro [7].", False, False),
        ("", True, True),
    ],
)
def test_only_a_wrong_citation_fails_an_answer_unless_all_is_asked_for(text: str, passed: bool, strict: bool) -> None:
    made = verified(text, PUMPS, HOSES)
    assert (made.passed(False), made.passed(True)) == (passed, strict)


def test_a_citation_of_the_wrong_passage_is_corrected() -> None:
    text = "A hose is 12 m long [1]."
    (correction,) = verified(text, PUMPS, HOSES).corrections()
    assert text[: correction.start] + correction.text + text[correction.end :] == "A hose is 12 m long [2]."


@pytest.mark.parametrize(
    "hostile", ["." * 8000, ".?!" * 2700, "no " * 2700, "not the " * 1000, "!" * 4000 + "no " * 1300]
)
def test_no_text_takes_more_than_its_length_to_read(hostile: str) -> None:
    """A ratio, since the machine may be slow: twice the text takes about twice the time, not four times."""

    def taken(text: str) -> float:
        began = time.thread_time()
        for claim in claims(text):
            reading(claim.said)
        return time.thread_time() - began

    taken(hostile)
    assert min(taken(hostile * 4) for _ in range(3)) < 10 * min(taken(hostile) for _ in range(3)) + 0.005
