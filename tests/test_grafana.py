"""The board and the alerts: they parse as what they are, and every query names metrics and labels that exist."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from hasten.metrics import metrics

ROOT = Path(__file__).parents[1]
BOARD = ROOT / "deploy" / "grafana" / "hasten.json"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
SCRAPED = {"up", "job", "instance", "le"}
"""What Prometheus itself adds."""


def panels() -> list[dict[str, Any]]:
    return list(json.loads(BOARD.read_text())["panels"])


def rules() -> list[dict[str, Any]]:
    return list(yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"])


QUERIES = [target["expr"] for panel in panels() for target in panel.get("targets", [])]
KNOWN = {sample: one for one in metrics() for sample in one.samples}
EXPRESSIONS = [*QUERIES, *(rule["expr"] for rule in rules())]


def plain(query: str) -> str:
    """A query with Grafana's variables filled in."""
    return query.replace("$__rate_interval", "1m")


@pytest.mark.parametrize("query", EXPRESSIONS)
def test_a_query_names_only_what_exists(query: str) -> None:
    known = KNOWN
    named = set(re.findall(r"\b(?:hasten|process)_[a-z0-9_]+", query))
    assert named <= set(known), "a metric"
    labels = {label for name in named for label in known[name].labels} | SCRAPED
    asked = {label for found in re.findall(r"by \(([^)]*)\)", query) for label in re.split(r",\s*", found)}
    asked |= {found for inside in re.findall(r"\{([^}]*)\}", query) for found in re.findall(r"(\w+)\s*[=!]", inside)}
    assert asked <= labels, "a label"


def test_every_query_is_promql() -> None:
    parser = pytest.importorskip("promql_parser", reason="promql-parser is not installed")
    for query in EXPRESSIONS:
        parser.parse(plain(query))
    with pytest.raises(ValueError, match=r"."):
        parser.parse("sum by (le) (rate(hasten_x[5m])")


def test_the_board_parses_as_grafanas_own_model() -> None:
    models = pytest.importorskip("grafana_foundation_sdk.models.dashboard", reason="grafana-foundation-sdk is missing")
    from grafana_foundation_sdk.cog.plugins import register_default_plugins

    register_default_plugins()
    given = json.loads(BOARD.read_text())
    board = models.Dashboard.from_json(given)
    kept = json.loads(json.dumps(board, cls=_encoder()))
    assert not list(_lost(given, kept, "")), "what Grafana's model does not know it would leave out"


def _encoder() -> Any:
    from grafana_foundation_sdk.cog.encoder import JSONEncoder

    return JSONEncoder


def _lost(given: Any, kept: Any, path: str) -> list[str]:
    """Where something of `given` is not in `kept`."""
    if isinstance(given, dict):
        missing = [f"{path}.{name}" for name in given if not isinstance(kept, dict) or name not in kept]
        return missing + [
            one for name in given.keys() & kept.keys() for one in _lost(given[name], kept[name], f"{path}.{name}")
        ]
    if isinstance(given, list):
        pairs = zip(given, kept, strict=True)
        return [one for at, (left, right) in enumerate(pairs) for one in _lost(left, right, f"{path}[{at}]")]
    return [] if given == kept else [path]


def test_panels_have_places_of_their_own_and_say_what_they_show() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells
        assert panel["type"] == "row" or (panel["description"] and panel["targets"])
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_an_alert_says_what_to_do() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description"}
        labels = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        kept = {label for found in re.findall(r"by \(([^)]*)\)", rule["expr"]) for label in re.split(r",\s*", found)}
        assert labels <= kept or "by (" not in rule["expr"]


def test_compose_mounts_files_that_are_there() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    for name in ("prometheus", "grafana", "otel"):
        assert services[name]["profiles"] == ["metrics"]
        for mounted in services[name]["volumes"]:
            source = mounted.split(":")[0]
            assert not source.startswith(".") or (ROOT / source).exists()
    scraped = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())["scrape_configs"][0]
    ours = {name for name, service in services.items() if service["image"] == "hasten"}
    assert set(scraped["dns_sd_configs"][0]["names"]) == ours
