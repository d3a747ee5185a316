"""What `hasten models` shows a person."""

from io import StringIO

from rich.console import Console

from hasten.commands.models import problems_of, show
from hasten.messages.route import ModelInfo, ModelList, WorkerInfo

BUSY = ModelInfo(
    name="large",
    slug="large",
    aliases=["best"],
    quality=0.9,
    cost_per_1k_prompt=0.0005,
    cost_per_1k_completion=0.01,
    workers=2,
    p50_ttft_ms=310.4,
    p95_ttft_ms=905.0,
    samples=412,
    error_rate=0.0321,
    age_s=3.2,
    breaker="partly open",
    each=[
        WorkerInfo(name="w1", slots=4, in_flight=6, waiting=2),
        WorkerInfo(name="w2", slots=4, in_flight=1, breaker="open", cooling_ms=1500.0),
    ],
)


def shown(listed: ModelList, *routers: dict[str, str]) -> str:
    out = StringIO()
    show(Console(file=out, width=140, highlight=False, markup=False), listed, routers)
    return out.getvalue()


def test_every_figure_of_a_model_is_there() -> None:
    row = next(line for line in shown(ModelList(models=[BUSY])).splitlines() if "large" in line)
    for cell in ("best", "0.9", "0.5/10", "5/8", "310 ms", "905 ms", "3.2%", "partly open", "412", "3 s ago"):
        assert cell in row
    assert row.split()[4:7] == ["2", "5/8", "2"], "workers, slots in use, in line"


def test_what_is_not_known_is_a_dash() -> None:
    fresh = ModelList(models=[ModelInfo(name="unused", slug="unused")])
    row = next(line for line in shown(fresh).splitlines() if "unused" in line)
    assert row.split().count("-") == 4


def test_a_refused_edit_and_different_tables_are_said() -> None:
    refused = "/etc/hasten.toml, line 9: [[models]], row 2: quality: expected `float` <= 1.0"
    text = shown(ModelList(models=[BUSY]), {"table": "aa", "table_problem": refused}, {"table": "bb"})
    assert refused in text
    assert "different model tables" in text
    assert problems_of([{"table": "aa", "table_problem": ""}, {"table": "aa"}]) == []
    assert len(problems_of([{"table_problem": refused}, {"table_problem": refused}])) == 1
