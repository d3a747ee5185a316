"""The measurement of the cache's judgement counts what it says it counts."""

import numpy as np

from hasten.cache.judge import Judgement, Line, judge_pairs, judge_stream, table
from hasten.cache.settings import Settings

NEAR = np.array([1, 0], np.float32)
ASIDE = np.array([0, 1], np.float32)
BOOTS, SHOES = "How long is the return period for boots?", "How long is the return period for shoes?"
AGAIN = "how long is the return period for shoes"


def test_a_row_counts_right_and_wrong_hits_above_its_threshold() -> None:
    judged = [
        Judgement(similarity=0.96, right=True, served=True),
        Judgement(similarity=0.91, right=False, served=True),
        Judgement(similarity=0.99, right=False, served=False),
    ]
    rows = table(judged, 4)
    assert rows[0] == "threshold 0.75: right 1 (25.0%), wrong 1 (50.00% of hits)"
    assert rows[-1] == "threshold 0.95: right 1 (25.0%), wrong 0 (0.00% of hits)"
    assert table([], 0)[0] == "threshold 0.75: right 0 (0.0%), wrong 0 (- of hits)"


def test_pairs_are_judged_with_and_without_guards() -> None:
    lines = [Line(a=SHOES, b=AGAIN, same_answer=True), Line(a=SHOES, b=BOOTS), Line(a="short one", b="short one")]
    vectors = {text: NEAR for line in lines for text in (line.a, line.b)}
    assert [one.served for one in judge_pairs(lines, vectors, Settings(), guarded=False)] == [True, True, True]
    assert [one.served for one in judge_pairs(lines, vectors, Settings(), guarded=True)] == [True, False, False]


def test_a_stream_is_asked_against_what_came_before() -> None:
    lines = [Line(text=SHOES, label="shoes"), Line(text=AGAIN, label="shoes"), Line(text=BOOTS, label="boots")]
    same = {line.text: NEAR for line in lines}
    assert [one.right for one in judge_stream(lines, same, Settings(), guarded=True)] == [True]
    assert len(judge_stream(lines, same, Settings(), guarded=False)) == 2
    assert judge_stream(lines, {**same, AGAIN: ASIDE}, Settings(), guarded=True) == []
