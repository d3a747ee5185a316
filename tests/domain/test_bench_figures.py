"""The benchmark's arithmetic."""

import os
from pathlib import Path

import numpy as np
import pytest

from hasten.bench.chunk_delay import Streams, Tapped, delays_ms
from hasten.bench.figures import Measured, Together, figure, figures, percentile
from hasten.bench.held import held
from hasten.bench.likeness import alike, asked
from hasten.bench.metrics import Metrics, above, at_most, between, total


def test_percentiles_are_values_that_were_measured() -> None:
    values = [5.0, 1.0, 3.0, 2.0, 4.0]
    assert percentile(values, 0.5) == 3.0
    assert percentile(values, 0.99) == 5.0
    assert percentile([7.0], 0.99) == 7.0
    hundred = [float(one) for one in range(100, 0, -1)]
    assert [percentile(hundred, share) for share in (0.0, 0.5, 0.95, 0.99, 1.0)] == [1.0, 50.0, 95.0, 99.0, 100.0]


def test_a_budget_is_met_only_if_both_of_its_limits_are() -> None:
    values = [1.0] * 98 + [9.0, 9.0]
    assert figure("x", values, p50=1.0, p99=9.0).met is True
    assert figure("x", values, p50=1.0, p99=8.0).met is False
    assert figure("x", values, p50=0.5).met is False
    assert figure("x", values).met is None


def test_a_ratio_is_of_medians() -> None:
    row = figure("x", [3.0, 3.0, 90.0], baseline=("bare NATS", [0.5, 0.5, 8.0]))
    assert (row.ratio, row.baseline, row.baseline_ms) == (6.0, "bare NATS", 0.5)


@pytest.mark.parametrize(("exact", "met"), [(1.4, True), (1.6, False)])
def test_exact_hits_are_judged_by_the_bare_round_trips_of_the_same_run(exact: float, met: bool) -> None:
    seen = Measured(bare=[0.5] * 10, embed=[8.0], exact_first=[exact] * 10, exact_whole=[2.0] * 10, route=[1.0])
    rows = {row.what: row for row in figures(seen)}
    assert rows["exact hit, publish to first chunk"].met is met
    assert rows["whole cached answer"].met is True


def test_hits_by_meaning_and_misses_are_judged_by_the_embedding() -> None:
    seen = Measured(
        entries=10_000,
        bare=[0.5],
        embed=[8.0],
        semantic=[12.9],
        lookup=[2.6],
        engine=[300.0],
        overhead=[15.1],
        route=[1.4],
    )
    rows = {row.what.strip(): row.met for row in figures(seen)}
    assert rows["semantic hit at 10,000 entries"] is True
    assert rows["of which the lookup"] is False
    assert rows["miss, added to it"] is False
    assert rows["route, given the vector"] is True


def test_what_was_not_measured_has_no_row() -> None:
    assert "miss, added to it" not in [row.what for row in figures(Measured(bare=[1.0], embed=[1.0], route=[1.0]))]


def test_what_many_did_at_once_says_how_many_in_a_second() -> None:
    many = Together(parallel=32, seconds=0.5, times=[4.0] * 100)
    rows = {row.what: row for row in figures(Measured(bare=[1.0], embed=[1.0], route=[1.0], put_many=many))}
    assert (rows["puts, 32 at once"].per_s, rows["puts, 32 at once"].p50_ms) == (200.0, 4.0)


@pytest.mark.parametrize(("half_s", "met"), [(0.002, True), (0.0025, False)])
def test_the_search_is_judged_by_the_bound_that_half_of_them_kept(half_s: float, met: bool) -> None:
    seen = Measured(bare=[1.0], embed=[1.0], route=[1.0], search=(half_s, 0.01, 300))
    (row,) = [row for row in figures(seen) if "search" in row.what]
    assert (row.p50_ms, row.p99_ms, row.samples, row.met) == (half_s * 1000, 10.0, 300, met)


TEXT = """# TYPE hasten_vectors_search_seconds histogram
hasten_vectors_search_seconds_bucket{collection="cache",le="0.001"} %d
hasten_vectors_search_seconds_bucket{collection="cache",le="0.02"} %d
hasten_vectors_search_seconds_bucket{collection="cache",le="+Inf"} %d
hasten_vectors_search_seconds_bucket{collection="passages",le="+Inf"} 7
"""


def test_a_histogram_is_read_between_two_moments() -> None:
    name = "hasten_vectors_search_seconds"
    before, after = (Metrics(TEXT % counts).buckets(name, collection="cache") for counts in ((5, 9, 10), (55, 99, 110)))
    seen = between(before, after)
    assert (total(seen), above(seen, 0.02)) == (100, 10)
    assert (at_most(seen, 0.5), at_most(seen, 0.9), at_most(seen, 0.99)) == (0.001, 0.02, float("inf"))
    assert total(Metrics(TEXT % (5, 9, 10)).buckets(name)) == 17
    assert total(Metrics().buckets(name)) == 0


def test_filler_lies_as_questions_do() -> None:
    rows = alike(4000)
    nearest = np.sort(rows[:200] @ rows.T, axis=1)
    assert 0.8 < np.median(nearest[:, -2]) < 0.93
    assert abs(np.median(nearest)) < 0.1
    assert np.median(np.max(asked(rows, 100) @ rows.T, axis=1)) > 0.9
    spectrum = np.linalg.eigvalsh(np.cov(rows.T))
    assert 20 < spectrum.sum() ** 2 / (spectrum**2).sum() < 80


def test_a_chunk_took_until_the_reader_had_all_of_its_text() -> None:
    streams = Streams()
    for subject, name, start in (("a", "s1n", 0.0), ("b", "s2n", 1.0)):
        streams.heard(f"worker.{subject}", f"{name}1", start, shown=False)
        streams.heard(f"reader.{subject}", f"{name}1", start + 0.001, shown=True)
        streams.heard(f"worker.{subject}", f" {name}2", start + 0.1, shown=False)
        streams.heard(f"worker.{subject}", f" {name}3", start + 0.105, shown=False)
        streams.heard(f"reader.{subject}", f" {name}2 {name}3", start + 0.11, shown=True)
    streams.heard("worker.c", "s3n1", 2.0, shown=False)
    assert delays_ms(streams) == pytest.approx([1.0, 10.0, 5.0] * 2)
    assert streams.lasted_s == pytest.approx(1.109)


@pytest.mark.parametrize(("slow", "met"), [(1.9, True), (2.1, False)])
def test_chunks_are_judged_by_the_slowest_hundredth(slow: float, met: bool) -> None:
    chunks = Tapped(streams=200, chunks=[0.3] * 98 + [slow] * 2, bare=[0.1] * 100)
    row = figures(Measured(bare=[1.0], embed=[1.0], route=[1.0], chunks=chunks))[-1]
    assert (row.met, row.ratio, row.baseline) == (met, 3.0, "bare NATS relay")


def test_a_file_of_two_generations_is_held_once_and_one_that_is_gone_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "vectors" / "cache"
    for generation in ("one", "two"):
        (folder / generation).mkdir(parents=True)
    (folder / "one" / "matrix").write_bytes(b"x" * (3 << 20))
    os.link(folder / "one" / "matrix", folder / "two" / "matrix")
    (found,) = [row for row in held(os.getpid(), tmp_path) if "disk" in row.what]
    assert found.disk_mb == 3
    monkeypatch.setattr(os, "walk", lambda _: [(str(folder), [], ["gone"])])
    (found,) = [row for row in held(os.getpid(), tmp_path) if "disk" in row.what]
    assert found.disk_mb == 0
