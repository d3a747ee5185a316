"""The figures of docs/affinity.md: the ways to choose a worker at several loads, and what changes the result."""

from collections.abc import Sequence

import msgspec
import numpy as np

from hasten.models import EngineConfig
from hasten.router.settings import Settings
from hasten.worker.engines.prefix_cache import decode_s, prefill_s
from loadtest.affinity.policy import policies, product
from loadtest.affinity.replay import Outcome, replay
from loadtest.affinity.trace import Asked, ceiling

LOADS = (0.5, 0.7, 0.9)
CACHES = (300_000, 1_000_000, 4_000_000, 16_000_000)
ROUTERS = (1, 2, 4)
SLOWER = 4
PRESSURES = (0.0, 0.2, 0.5, 1.0)
NEARS = (0.0, 0.02, 0.1)
ENGINE = EngineConfig(
    kind="sim", slots=8, sim_prefill_per_s=4000, sim_decode_per_s=100, cache_tokens=4_000_000, queue=100_000
)
"""A slot computes 4,000 prompt tokens and writes 100 tokens a second; 4 million tokens of an 8-billion model with
grouped-query attention are half a terabyte of host memory."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One replay. Times in ms; `load` is the work offered, were nothing cached, as a share of what the workers can do;
    `most` is the share of the requests at the busiest worker and `first` that at the first."""

    case: str
    load: float
    hit_rate: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    most: float
    first: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Every table. `ceiling` is the hit rate of one cache without bounds on the requests that are reported, and
    `whole_ceiling` that on the whole trace."""

    requests: int
    workers: int
    ceiling: float
    compared: list[Row]
    whole: list[Row]
    whole_ceiling: float
    caches: list[Row]
    routers: list[Row]
    slower: list[Row]
    tuned: list[Row]
    curves: dict[str, list[float]]
    """For the plot, by way to choose: first-token times in ms at every percent of the requests, at the last load."""


def work_s(trace: Sequence[Asked], config: EngineConfig) -> float:
    """How long a request holds a slot on average when nothing of it is cached."""
    held = (prefill_s(config, one.input_length, 0) + decode_s(config, one.output_length) for one in trace)
    return sum(held) / len(trace)


def faster_for(load: float, trace: Sequence[Asked], configs: Sequence[EngineConfig]) -> float:
    """How much faster than they came the requests have to come for this load."""
    span_s = max(1e-3, trace[-1].at_s - trace[0].at_s)
    can = sum(config.slots / work_s(trace, config) for config in configs)
    return load * can / (len(trace) / span_s)


def _row(case: str, load: float, outcome: Outcome) -> Row:
    p50, p95, p99 = (float(np.percentile(outcome.ttft_s, q)) * 1000 for q in (50, 95, 99))
    total = sum(outcome.shares)
    return Row(
        case=case,
        load=load,
        hit_rate=round(outcome.hit_rate, 4),
        p50_ms=round(p50),
        p95_ms=round(p95),
        p99_ms=round(p99),
        most=round(max(outcome.shares) / total, 3),
        first=round(outcome.shares[0] / total, 3),
    )


def halves(trace: Sequence[Asked]) -> tuple[Sequence[Asked], Sequence[Asked]]:
    """The half that parameters may be chosen on, and the half that is reported."""
    return trace[: len(trace) // 2], trace[len(trace) // 2 :]


def report(trace: Sequence[Asked], workers: int) -> Report:
    """Replays the second half of the trace in every way, and the first with other parameters."""
    tuning, reported = halves(trace)
    same = [ENGINE] * workers
    compared, curves = [], {}
    for load in LOADS:
        for name, policy in policies(Settings()).items():
            outcome = replay(reported, policy, same, faster=faster_for(load, reported, same))
            compared.append(_row(name, load, outcome))
            curves[name] = [float(np.percentile(outcome.ttft_s, q)) * 1000 for q in range(101)]
    return Report(
        requests=len(reported),
        workers=workers,
        ceiling=round(ceiling(reported), 4),
        compared=compared,
        whole=_caches(trace, workers, CACHES[-2:]),
        whole_ceiling=round(ceiling(trace), 4),
        caches=_caches(reported, workers, CACHES),
        routers=_routers(reported, same),
        slower=_slower(reported, workers),
        tuned=tuned(tuning, workers),
        curves=curves,
    )


def _caches(trace: Sequence[Asked], workers: int, sizes: Sequence[int]) -> list[Row]:
    rows = []
    for tokens in sizes:
        configs = [msgspec.structs.replace(ENGINE, cache_tokens=tokens)] * workers
        for name in ("least loaded", "consistent hashing", "hasten"):
            outcome = replay(trace, policies(Settings())[name], configs, faster=faster_for(0.7, trace, configs))
            rows.append(_row(f"{name}, {tokens / 1e6:g} million tokens", 0.7, outcome))
    return rows


def _routers(trace: Sequence[Asked], configs: Sequence[EngineConfig]) -> list[Row]:
    policy, faster = product(Settings(), cached=True), faster_for(0.7, trace, configs)
    rows = []
    for count in ROUTERS:
        for told in (True, False) if count > 1 else (True,):
            outcome = replay(trace, policy, configs, faster=faster, routers=count, told=told)
            rows.append(_row(f"{count} routers{'' if told else ' that do not hear of each other'}", 0.7, outcome))
    return rows


def _slower(trace: Sequence[Asked], workers: int) -> list[Row]:
    """The first worker is slower than the others; the load is a share of what all of them can do."""
    slow = msgspec.structs.replace(
        ENGINE,
        sim_prefill_per_s=ENGINE.sim_prefill_per_s / SLOWER,
        sim_decode_per_s=ENGINE.sim_decode_per_s / SLOWER,
    )
    configs = [slow] + [ENGINE] * (workers - 1)
    names, rows = ("round robin", "least loaded", "hasten"), []
    for load in LOADS:
        for name in names:
            outcome = replay(trace, policies(Settings())[name], configs, faster=faster_for(load, trace, configs))
            rows.append(_row(name, load, outcome))
    return rows


def tuned(trace: Sequence[Asked], workers: int) -> list[Row]:
    """The product's choice with other parameters, at the two higher loads."""
    configs, rows = [ENGINE] * workers, []
    for load in LOADS[1:]:
        for pressure in PRESSURES:
            for near in NEARS:
                policy = product(Settings(pressure=pressure, near_worker=near), cached=True)
                outcome = replay(trace, policy, configs, faster=faster_for(load, trace, configs))
                rows.append(_row(f"pressure {pressure:g}, near {near:g}", load, outcome))
    return rows
