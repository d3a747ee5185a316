"""Calibration: the bound is the one of Clopper and Pearson, and what too few pairs prove is nothing."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.cache.calibration import Scored, by_collection, calibrated, proof, upper
from hasten.commands.calibrate import Line, read, share, toml
from hasten.settings import SettingsError


@pytest.mark.parametrize(
    ("wrong", "hits", "bound"),
    [(0, 59, 0.0495), (0, 299, 0.00997), (1, 100, 0.0466), (5, 100, 0.1023), (3, 3, 1.0), (0, 0, 1.0)],
)
def test_the_bound_is_the_exact_one(wrong: int, hits: int, bound: float) -> None:
    """By scipy.stats.beta.ppf(0.95, wrong + 1, hits - wrong)."""
    assert upper(wrong, hits) == pytest.approx(bound, abs=1e-4)


@given(st.integers(0, 40), st.integers(1, 400))
def test_more_wrong_hits_never_lower_the_bound_and_more_hits_never_raise_it(wrong: int, hits: int) -> None:
    assert upper(wrong, hits) <= upper(wrong + 1, hits)
    assert upper(wrong, hits + 1) <= upper(wrong, hits) + 1e-9
    assert upper(wrong, hits) >= min(1.0, wrong / hits)


@pytest.mark.parametrize("error", [0.01, 0.05, 0.2])
def test_so_many_hits_without_a_wrong_one_are_just_enough(error: float) -> None:
    assert upper(0, proof(error)) <= error < upper(0, proof(error) - 1)


def pairs(right: int, wrong: int, confidence: float, collection: str = "") -> list[Scored]:
    good = [Scored(confidence=confidence, same=True, collection=collection)] * right
    return good + [Scored(confidence=confidence, same=False, collection=collection)] * wrong


def test_the_loosest_threshold_that_is_proven_is_learnt() -> None:
    made = pairs(400, 0, 0.99) + pairs(100, 1, 0.9) + pairs(100, 60, 0.6) + [Scored(confidence=None, same=True)] * 50
    found = calibrated(made, 0.02)
    assert found.threshold == 0.9
    assert found.found is not None
    assert (found.found.hits, found.found.wrong) == (501, 1)
    assert found.found.hit_rate == pytest.approx(500 / 650)
    assert calibrated(made, 0.005).threshold is None


def test_a_looser_threshold_is_not_tried_past_one_that_fails() -> None:
    lucky = pairs(300, 0, 0.99) + pairs(0, 30, 0.9) + pairs(5000, 0, 0.5)
    assert calibrated(lucky, 0.01).threshold == 0.99


def test_too_few_pairs_prove_nothing_and_say_how_many_would() -> None:
    found = calibrated(pairs(80, 0, 0.9) + pairs(0, 5, 0.2), 0.01)
    assert (found.threshold, found.needed) == (None, 299)
    assert found.guess is not None
    assert (found.guess.threshold, found.guess.wrong) == (0.9, 0)
    assert toml([found], 0.01) == ""
    assert calibrated([], 0.01).guess is None


def test_each_collection_has_its_own_and_only_what_is_proven_is_written() -> None:
    made = (
        pairs(400, 0, 0.8, "faq") + pairs(400, 0, 0.97, "health") + pairs(0, 30, 0.9, "health") + pairs(9, 0, 0.9, "x")
    )
    found = by_collection(made, 0.01)
    assert [one.collection for one in found] == ["", "faq", "health", "x"]
    assert [one.threshold for one in found] == [0.97, 0.8, 0.97, None]
    written = toml(found, 0.01)
    assert '[cache]\nthreshold = 0.970\n[cache.thresholds]\n"faq" = 0.800\n"health" = 0.970\n' in written


@pytest.mark.parametrize(("text", "value"), [("1%", 0.01), ("0.5%", 0.005), ("0.02", 0.02)])
def test_an_error_bound_is_a_share(text: str, value: float) -> None:
    assert share(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "x", "0", "100%", "-1%", "1.5", "nan"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="--max-error"):
        share(text)


def test_pairs_are_read_from_both_forms(tmp_path: Path) -> None:
    table, lines = tmp_path / "p.csv", tmp_path / "p.jsonl"
    table.write_text('a,b,same,collection\n"What, is it?",And why?,yes,faq\nOne?,Two?,0,\n')
    lines.write_text('{"id":"x","a":"One?","b":"Two?","same_answer":false}\n\n{"a":"1?","b":"2?","same":true}\n')
    assert read(table) == [
        Line(a="What, is it?", b="And why?", same=True, collection="faq"),
        Line(a="One?", b="Two?", same=False),
    ]
    assert read(lines) == [Line(a="One?", b="Two?", same=False), Line(a="1?", b="2?", same=True)]


@pytest.mark.parametrize("text", ["a;b;same\nx;y;1\n", "A\tB\tSame\nx\ty\tyes\n", "a, b, same\nx, y, 1\n"])
def test_a_table_as_spreadsheets_write_it(tmp_path: Path, text: str) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text(text)
    assert read(file) == [Line(a="x", b="y", same=True)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "no column same"),
        ("a,b,same\nx,y,perhaps\n", "line 2: same must be"),
        ("a,b,same\nx,,1\n", "line 2: a and b must be"),
        ('{"a":"x","b":"y","same":true}\n{"a":\n', "line 2: this is not a JSON object"),
        ("a,b,same\n", "no pairs"),
        ("\n", "is empty; it needs a line with the columns a, b and same"),
        ('[{"a":"x","b":"y","same":true}]', "is a JSON list: write each object on a line of its own"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text(text)
    with pytest.raises(SettingsError, match=said):
        read(file)


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        read(tmp_path / "none.csv")
