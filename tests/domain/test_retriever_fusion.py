"""How two orders become one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.retriever.fusion import Blend, fused

SCORES = st.dictionaries(st.sampled_from("abcdefghij"), st.floats(0.01, 1), max_size=8)


def test_a_score_is_the_weighted_sum_of_both() -> None:
    found = fused({"a": 0.8, "b": 0.6}, {"b": 10.0, "c": 5.0}, lambda _: 0.25)
    assert found == pytest.approx({"b": 0.75 * 0.6 + 0.25, "a": 0.75 * 0.8, "c": 0.75 * 0.6 + 0.25 * 0.5})
    assert list(found) == ["b", "a", "c"]


def test_a_code_wins_among_what_is_equally_near() -> None:
    dense = {f"sheet {number}": 0.9 - number / 1000 for number in range(40)}
    lexical = {"the sheet": 12.0} | dict.fromkeys(list(dense)[:30], 4.0)
    assert next(iter(fused(dense, lexical, lambda _: Blend().weight))) == "the sheet"


@given(SCORES, SCORES)
def test_at_either_end_it_is_the_order_of_one(dense: dict[str, float], lexical: dict[str, float]) -> None:
    by_meaning = [id_ for id_ in fused(dense, lexical, lambda _: 0.0) if id_ in dense]
    assert [dense[id_] for id_ in by_meaning] == sorted(dense.values(), reverse=True)
    by_words = [id_ for id_ in fused(dense, lexical, lambda _: 1.0) if id_ in lexical]
    assert [lexical[id_] for id_ in by_words] == sorted(lexical.values(), reverse=True)


@given(SCORES, SCORES, st.floats(0, 1))
def test_nothing_is_lost_or_made_up_and_what_wins_both_wins(
    dense: dict[str, float], lexical: dict[str, float], weight: float
) -> None:
    found = fused(dense, lexical, lambda _: weight)
    assert found.keys() == dense.keys() | lexical.keys()
    assert list(found.values()) == sorted(found.values(), reverse=True)
    both = fused({"best": 1.01, **dense}, {"best": 1.01, **lexical}, lambda _: weight)
    assert next(iter(both)) == "best"


def test_the_weight_of_a_collection_is_its_own_its_tenants_or_the_default() -> None:
    blend = Blend(weight=0.1, weights={"help": 0.2, "acme/help": 0.3})
    given = [blend.of("acme", "help"), blend.of("other", "help"), blend.of("acme", "news")]
    assert given == [0.3, 0.2, 0.1]
