"""Who asks what in the before-and-after: the shares that are pinned, and the same requests each time."""

from collections import Counter

import pytest

from loadtest.pairs import DataError
from loadtest.workload import SHARES, Question, requests

REWORDED = ("medical", "fow")
POOL = {
    source: [
        Question(id=f"{source}-{at}", source=source, text=f"{source} {at}?", other=f"reworded {source} {at}?")
        if source in REWORDED
        else Question(id=f"{source}-{at}", source=source, text=f"{source} {at}?")
        for at in range(400)
    ]
    for source in SHARES
}


@pytest.mark.parametrize("repeats", [0.0, 0.2, 0.35, 0.55])
def test_a_stated_share_is_repeated_half_of_it_in_other_words(repeats: float) -> None:
    made = requests(POOL, 200, repeats, seed=3)
    kinds = Counter(one.kind for one in made)
    assert kinds["exact"] + kinds["paraphrase"] == round(200 * repeats)
    assert 0 <= kinds["exact"] - kinds["paraphrase"] <= 1
    asked: set[str] = set()
    for one in made:
        assert (one.question.id in asked) == (one.kind != "new")
        assert one.text == (one.question.other if one.kind == "paraphrase" else one.question.text)
        asked.add(one.question.id)


def test_of_the_questions_60_percent_are_simple_and_each_source_has_its_share() -> None:
    new = [one.question for one in requests(POOL, 400, 0.5, seed=3) if one.kind == "new"]
    assert sum(one.simple for one in new) / len(new) == pytest.approx(0.6)
    assert {source: count / len(new) for source, count in Counter(one.source for one in new).items()} == SHARES


def test_requests_are_the_same_for_a_seed_and_others_for_another() -> None:
    assert requests(POOL, 100, 0.35, seed=1) == requests(POOL, 100, 0.35, seed=1)
    assert requests(POOL, 100, 0.35, seed=1) != requests(POOL, 100, 0.35, seed=2)


def test_what_was_asked_first_is_repeated_most_by_zipf() -> None:
    """Over many runs the question asked second is repeated half as often as the first, and so on: exponent 1."""
    ranks: Counter[int] = Counter()
    for seed in range(400):
        order: list[str] = []
        for one in requests(POOL, 60, 0.5, seed=seed):
            if one.kind == "new":
                order.append(one.question.id)
            elif one.kind == "exact" and len(order) >= 10:
                ranks[order.index(one.question.id) + 1] += 1
    assert ranks[1] / ranks[2] == pytest.approx(2.0, rel=0.15)
    assert ranks[1] / ranks[4] == pytest.approx(4.0, rel=0.2)


def test_a_paraphrase_is_asked_once_while_there_is_another() -> None:
    said = [one.text for one in requests(POOL, 200, 0.35, seed=5) if one.kind == "paraphrase"]
    assert len(set(said)) == len(said)


def test_a_pool_that_is_too_small_says_what_is_missing() -> None:
    with pytest.raises(DataError, match="medical has 400 questions, 700 are needed"):
        requests(POOL, 2000, 0.0, seed=1)


def test_evidence_is_an_answer_or_all_sentences() -> None:
    one = Question(id="a", source="nq", text="?", answers=["Wilhelm  Röntgen", "Röntgen"])
    assert one.evidence_in("It was wilhelm\nröntgen of Germany.")
    assert not one.evidence_in("It was Planck.")
    two = Question(id="b", source="hotpot", text="?", sentences=["A is B.", "B is C."])
    assert two.evidence_in("B is C. And A is B.")
    assert not two.evidence_in("A is B. B is D.")
