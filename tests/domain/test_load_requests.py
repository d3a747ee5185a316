"""What a load test asks: the same for a seed, popular questions by Zipf's law, prompts as long as recorded ones."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from loadtest.load import Load, Loads
from loadtest.scenario import read
from loadtest.trace import BLOCK, Row, azure, mooncake, stretch
from loadtest.trace_prompt import answering, body, prompt

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:04.0319600,3180,8
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:06.4799600,110,27
"""


def loads(seed: int = 1, **prompts: Any) -> Load:
    scenario = read({"about": "x", "arrivals": {"rate": 200, "seconds": 10}, "prompts": prompts})
    return Loads(scenario, None, seed).at()


def text(asked: dict[str, Any]) -> str:
    return str(asked["messages"][-1]["content"])


def test_a_seed_asks_the_same_at_the_same_moments() -> None:
    one, again, other = loads(repeated=0.5), loads(repeated=0.5), loads(seed=2, repeated=0.5)
    assert one == again
    assert one.arrivals != other.arrivals
    assert [text(asked) for asked in one.bodies] != [text(asked) for asked in other.bodies]


def test_what_is_repeated_is_as_popular_as_zipf_says_and_the_rest_is_asked_once() -> None:
    load = loads(repeated=0.6, distinct=50, zipf=1.0)
    popular = Counter(text(asked) for kind, asked in zip(load.kinds, load.bodies, strict=True) if kind == "repeated")
    new = [text(asked) for kind, asked in zip(load.kinds, load.bodies, strict=True) if kind == "new"]
    assert 0.55 < popular.total() / len(load.bodies) < 0.65
    assert len(popular) <= 50
    first, second = (count for _, count in popular.most_common(2))
    harmonic = sum(1 / rank for rank in range(1, 51))
    assert first / popular.total() == pytest.approx(1 / harmonic, rel=0.2)
    assert second / popular.total() == pytest.approx(0.5 / harmonic, rel=0.3)
    assert len(set(new)) == len(new)
    assert not set(new) & set(popular)


def test_texts_of_a_list_do_not_run_out_and_the_body_goes_along() -> None:
    load = loads(source="list", texts=["Where is my card?", "Is it open?"], system="Be brief.", body={"max_tokens": 7})
    assert len({text(asked) for asked in load.bodies}) == len(load.bodies) > 2
    assert load.bodies[0]["max_tokens"] == 7
    assert load.bodies[0]["messages"][0] == {"role": "system", "content": "Be brief."}


def test_a_higher_rate_asks_more_in_the_same_time() -> None:
    made = Loads(read({"about": "x", "arrivals": {"rate": 20, "seconds": 10}}), None, 1)
    assert 3.5 < len(made.at(4.0).arrivals) / len(made.at(1.0).arrivals) < 4.5
    assert made.at(4.0).arrivals[-1] < 10
    assert len(made.warm().bodies) == 10
    assert not {text(one) for one in made.warm().bodies} & {text(one) for one in made.at(1.0).bodies}


def test_what_is_new_in_one_load_is_new_in_every_later_one(tmp_path: Path) -> None:
    made = Loads(read({"about": "x", "arrivals": {"rate": 50}, "prompts": {"repeated": 0.5, "distinct": 20}}), None, 1)
    first, second = made.at(), made.at()
    both = [list(zip(load.kinds, map(text, load.bodies), strict=True)) for load in (first, second)]
    new, popular = ([{said for kind, said in one if kind == wanted} for one in both] for wanted in ("new", "repeated"))
    assert not new[0] & new[1]
    assert len(popular[0] | popular[1]) <= 20
    (tmp_path / "a.csv").write_text(AZURE)
    traced = Loads(read({"about": "x", "arrivals": {"kind": "azure", "file": "a.csv"}}), tmp_path, 1)
    assert not {text(one)[:20] for one in traced.at().bodies} & {text(one)[:20] for one in traced.at().bodies}


def test_azure_rows_come_in_the_order_of_their_times(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(AZURE)
    rows = azure(tmp_path / "a.csv")
    assert [(round(row.at_s, 3), row.prompt_tokens, row.answer_tokens) for row in rows] == [
        (0.0, 4808, 10),
        (0.052, 3180, 8),
        (2.5, 110, 27),
    ]
    assert [round(row.at_s, 3) for row in stretch(rows, 0.05, 2.0)] == [0.002]


def test_a_trace_is_replayed_faster_by_shorter_gaps(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(AZURE)
    scenario = read({"about": "x", "arrivals": {"kind": "azure", "file": "a.csv", "seconds": 10}})
    load = Loads(scenario, tmp_path, 1).at(2.0)
    assert [round(at, 3) for at in load.arrivals] == [0.0, 0.026, 1.25]
    assert [len(text(asked).split()) + 1 for asked in load.bodies] == [4808, 3180, 110]
    assert [asked["max_tokens"] for asked in load.bodies] == [10, 8, 27]
    assert len(Loads(scenario, tmp_path, 1).at(2.0, seconds=0.5).arrivals) == 2


def test_mooncake_prompts_share_the_beginnings_that_were_shared(tmp_path: Path) -> None:
    lines = [(3000, [7, 8], 900), (0, [7, 9], 1024), (6000, [3, 8], 1000)]
    names = ("timestamp", "hash_ids", "input_length")
    plain = [dict(zip(names, line, strict=True)) | {"output_length": 5} for line in lines]
    (tmp_path / "m.jsonl").write_text("\n".join(json.dumps(line) for line in plain))
    rows = mooncake(tmp_path / "m.jsonl")
    assert [row.at_s for row in rows] == [0.0, 3.0, 6.0]
    first, second, third = (prompt(row, index).split() for index, row in enumerate(rows))
    assert first[:BLOCK] == second[:BLOCK] != third[:BLOCK]
    assert first[BLOCK:900] != second[BLOCK:]
    assert [len(words) + 1 for words in (first, second, third)] == [1024, 900, 1000]


def test_prompts_without_blocks_share_nothing() -> None:
    row = Row(at_s=0, prompt_tokens=600, answer_tokens=0)
    assert prompt(row, 1) == prompt(row, 1)
    assert not prompt(row, 1).startswith(prompt(row, 2)[:40])
    assert body(row, 1)["max_tokens"] == 1


def test_only_simulated_models_without_an_answer_get_a_long_one() -> None:
    rows = [{"name": "a", "engine": {"kind": "sim"}}, {"name": "b", "engine": {"kind": "sim", "sim_answer": "x"}}]
    made = answering({"models": [*rows, {"name": "c", "engine": {"kind": "llama"}}]})["models"]
    assert [len(row["engine"].get("sim_answer", "").split()) for row in made] == [2000, 1, 0]
    assert rows[0]["engine"] == {"kind": "sim"}
