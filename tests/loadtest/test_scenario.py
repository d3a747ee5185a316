"""A scenario that cannot be run says which field is wrong and why; those that are shipped can."""

from pathlib import Path
from typing import Any

import pytest

from hasten.settings import SettingsError
from loadtest.load import Loads
from loadtest.scenario import ScenarioError, load, read

SHIPPED = sorted((Path(__file__).parents[2] / "loadtest" / "scenarios").glob("*.toml"))
MODEL = {"name": "sim", "engine": {"kind": "sim"}}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_scenario_loads_and_says_what_is_simulated(path: Path) -> None:
    found = load(path)
    assert "imulated" in found.about
    assert found.own.config["models"]


def given(**tables: Any) -> dict[str, Any]:
    return {"about": "Simulated", **tables}


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"about": 3}, "about: expected `str`"),
        ({"arrivals": {"rate": 0}}, "arrivals.rate"),
        ({"arrivals": {"rate": "10"}}, "arrivals.rate: expected `float`"),
        ({"arrivals": {"kind": "poison"}}, "arrivals.kind: invalid enum value 'poison'"),
        ({"arrivals": {"sceonds": 3}}, "there is no field `sceonds`; did you mean seconds?"),
        ({"arivals": {}}, "there is no field `arivals`; did you mean arrivals?"),
        ({"arrivals": {"kind": "azure"}}, "arrivals.file: a azure trace needs"),
        ({"arrivals": {"file": "x.csv"}}, "arrivals.file: poisson arrivals have no file"),
        ({"arrivals": []}, "arrivals: expected `object`"),
        ({"prompts": {"repeated": 1.5}}, "prompts.repeated"),
        ({"prompts": {"source": "list"}}, "prompts.texts: give at least one text"),
        ({"prompts": {"body": {"messages": []}}}, "prompts.body.messages: is made here"),
        ({"bound": {}}, "bound: object missing required field `ttft_ms`"),
        ({"bound": {"ttft_ms": -1}}, "bound.ttft_ms"),
        ({"bound": {"ttft_ms": 1, "first": 9, "most": 4}}, "bound.first: must be at most bound.most"),
        ({"late_ms": 0}, "late_ms"),
        ({"via": "carrier pigeon"}, "via: invalid enum value"),
        ({"via": "http", "own": {"services": ["router"]}}, "via http needs the gateway"),
        ({"own": {"services": ["ruoter"]}}, "there is no service ruoter; there are"),
        ({"own": {"replicas": {"worker": 0}}}, "own.replicas"),
        ({"own": {"replicas": {"gateway": 2}}}, "own.replicas.gateway: one gateway is asked"),
        ({"own": {"config": {"models": [{"name": "x", "slot": 3}]}}}, "own.config: [[models]], row 1"),
        ({"own": {"config": {"orchestrator": {"limits": 3}}}}, "own.config: [orchestrator] has no setting limits"),
    ],
)
def test_a_wrong_field_is_named(tables: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as raised:
        read(given(**tables))
    assert said in str(raised.value)


def test_a_scenario_without_its_first_line_is_refused() -> None:
    with pytest.raises(SettingsError, match="missing required field `about`"):
        read({})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"none\.toml cannot be read"):
        load(tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("about = ")
    with pytest.raises(ScenarioError, match=r"broken\.toml is not valid TOML"):
        load(broken)
    broken.write_text('about = "Simulated"\nlate_ms = -1\n')
    with pytest.raises(ScenarioError, match=r"broken\.toml: late_ms"):
        load(broken)


def test_data_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    trace = read(given(arrivals={"kind": "azure", "file": "none.csv"}))
    with pytest.raises(ScenarioError, match="--data, which was not given"):
        Loads(trace, None, 1)
    with pytest.raises(ScenarioError, match=r"none\.csv cannot be read"):
        Loads(trace, tmp_path, 1)
    (tmp_path / "none.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ScenarioError, match="is not a trace of the kind azure"):
        Loads(trace, tmp_path, 1)
    bank = read(given(prompts={"source": "banking77"}))
    with pytest.raises(ScenarioError, match="banking77 is not in the folder --data"):
        Loads(bank, tmp_path, 1).at()
