"""The replay of a trace: it is deterministic, keeps its books, and shows what the choice of workers is for."""

import random
from pathlib import Path

import msgspec
import pytest

from hasten.models import EngineConfig
from hasten.router.settings import Settings
from loadtest.affinity.__main__ import main
from loadtest.affinity.policy import policies
from loadtest.affinity.replay import Outcome, replay
from loadtest.affinity.report import faster_for, work_s
from loadtest.affinity.trace import FILE, Asked, ceiling, read

ENGINE = EngineConfig(kind="sim", slots=4, sim_prefill_per_s=4000, sim_decode_per_s=100, cache_tokens=1_000_000)
SLOW = msgspec.structs.replace(ENGINE, sim_prefill_per_s=1000, sim_decode_per_s=25)


def conversations(turns: int = 700, talks: int = 60) -> list[Asked]:
    """Talks that grow by two blocks each turn, all with the same first block, coming at random."""
    draws, made, now = random.Random(7), [], 0.0
    blocks: dict[int, list[int]] = {}
    fresh = iter(range(1, 1_000_000))
    for _ in range(turns):
        now += draws.expovariate(1 / 300)
        talk = draws.randrange(talks)
        blocks[talk] = [*blocks.get(talk, [0]), next(fresh), next(fresh)]
        if len(blocks[talk]) > 30:
            blocks[talk] = [0, next(fresh)]
        made.append(Asked(now, 512 * len(blocks[talk]), draws.randint(50, 500), list(blocks[talk])))
    return made


TRACE = conversations()


def replayed(
    name: str,
    load: float = 0.8,
    *,
    trace: list[Asked] = TRACE,
    configs: tuple[EngineConfig, ...] = (ENGINE,) * 4,
    routers: int = 1,
) -> Outcome:
    faster = faster_for(load, trace, configs)
    return replay(trace, policies(Settings())[name], configs, faster=faster, routers=routers)


def mean(outcome: Outcome) -> float:
    return sum(outcome.ttft_s) / len(outcome.ttft_s)


def test_a_replay_answers_every_request_the_same_way_each_time() -> None:
    one, two = replayed("hasten"), replayed("hasten")
    assert one == two
    assert (len(one.ttft_s), sum(one.shares)) == (len(TRACE), len(TRACE))


def test_talks_return_to_their_worker_and_nobody_waits_longer_for_it() -> None:
    affinity, blind, hashed = (replayed(name) for name in ("hasten", "least loaded", "consistent hashing"))
    assert affinity.hit_rate > 0.9 * ceiling(TRACE)
    assert affinity.hit_rate > 1.3 * blind.hit_rate
    assert mean(affinity) < min(mean(blind), mean(hashed))
    assert sorted(affinity.ttft_s)[-35] <= sorted(blind.ttft_s)[-35], "the P95 too"


def test_no_way_to_choose_finds_more_than_there_is() -> None:
    assert all(0 < replayed(name).hit_rate <= ceiling(TRACE) for name in policies(Settings()))


def test_replicas_that_tell_each_other_are_as_good_as_one() -> None:
    assert replayed("hasten", routers=3) == replayed("hasten")


def test_a_worker_of_a_quarter_of_the_speed_gets_its_part_and_no_more() -> None:
    """Its part of the capacity is 0.25 of 3.25; no prompt has anything in common with another."""
    configs = (SLOW, ENGINE, ENGINE, ENGINE)
    strangers = [msgspec.structs.replace(one, hash_ids=[at]) for at, one in enumerate(TRACE)]
    outcome, even, in_turn = (
        replayed("hasten", 0.7, trace=strangers, configs=configs),
        replayed("hasten", 0.7, trace=strangers),
        replayed("round robin", 0.7, trace=strangers, configs=configs),
    )
    assert 0.01 < outcome.shares[0] / len(TRACE) < 1.3 * 0.25 / 3.25
    assert mean(outcome) < 1.5 * mean(even)
    assert mean(in_turn) > 5 * mean(outcome)


def test_the_load_is_what_it_says() -> None:
    assert faster_for(0.5, TRACE, [ENGINE] * 4) == pytest.approx(faster_for(1.0, TRACE, [ENGINE] * 4) / 2)
    assert work_s(TRACE, SLOW) == pytest.approx(4 * work_s(TRACE, ENGINE))


def test_the_command_reads_a_trace_and_skips_without_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(tmp_path)]) == 0
    assert "skipped" in capsys.readouterr().out
    (tmp_path / FILE).parent.mkdir()
    (tmp_path / FILE).write_bytes(b"\n".join(msgspec.json.encode(_row(one)) for one in TRACE[:60]))
    assert read(tmp_path) == TRACE[:60]
    assert main(["--data", str(tmp_path), "--json", "--plot", str(tmp_path / "plot.svg")]) == 0
    found = msgspec.json.decode(capsys.readouterr().out)
    assert found["requests"] == 30
    assert {row["case"] for row in found["compared"]} == set(policies(Settings()))
    assert (tmp_path / "plot.svg").read_text().startswith("<?xml")


def _row(one: Asked) -> dict[str, object]:
    return {name: getattr(one, name) for name in one.__struct_fields__}
