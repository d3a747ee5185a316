"""The page of metrics is complete, what is named anywhere exists, and names follow the conventions of Prometheus."""

import re
from pathlib import Path

import pytest

from hasten import metrics
from hasten.metrics import Metric

ROOT = Path(__file__).parents[1]
KNOWN = {one.name: one for one in metrics.metrics()}
SAMPLES = {sample for one in KNOWN.values() for sample in one.samples} | set(KNOWN)
SOURCES = [*ROOT.glob("services/**/*.py"), *ROOT.glob("shared/**/*.py")]
OTHERS = {name for path in SOURCES for name in re.findall(r'"(?:KV_)?(hasten_[a-z_]+)"', path.read_text())}
"""Buckets, which have names like metrics."""
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *ROOT.rglob("docs/*.md"), *ROOT.glob("services/hasten/*/README.md"))
    if ".venv" not in path.parts and path.name != "CHANGELOG.md"
)


def test_the_page_is_fresh() -> None:
    text = (ROOT / metrics.PAGE).read_text()
    assert metrics.page(text) == text, "run python -m hasten.metrics"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_only_metrics_that_exist(page: Path) -> None:
    named = set(re.findall(r"`(hasten_[a-z0-9_]+)(?:\{[^`]*)?`", page.read_text()))
    assert named - SAMPLES - OTHERS == set()


@pytest.mark.parametrize("metric", KNOWN.values(), ids=KNOWN)
def test_a_name_follows_the_conventions(metric: Metric) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", metric.name)
    assert (metric.kind == "counter") == metric.name.endswith("_total")
    assert not re.search(r"_(ms|milliseconds|minutes|kb|mb|percent|counter|gauge|histogram)(_|$)", metric.name)
    assert metric.text
    assert not {"request_id", "key", "question", "document", "user"} & set(metric.labels)
    if metric.kind == "histogram":
        assert {"seconds", "tokens"} & set(metric.name.split("_")), "its unit is in its name"


def test_tenants_and_workers_are_bounded() -> None:
    from hasten.telemetry import Names

    names = Names(2)
    assert [names.of(name) for name in ("a", "b", "c", "a", "d")] == ["a", "b", "other", "a", "other"]
