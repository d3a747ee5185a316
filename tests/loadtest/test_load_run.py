"""The command: a scenario against a system of its own, over the bus and over HTTP, and what it writes."""

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from hasten.run import run_loop
from hasten.settings import SettingsError
from loadtest.own_system import own_system
from loadtest.run import Options, carried_out, told
from loadtest.runner import Runner
from loadtest.scenario import Scenario, read
from loadtest.summary import summary

pytestmark = pytest.mark.timeout(300)
SCENARIO = """
about = "Simulated models"
warm = 2
late_ms = 60000.0

[arrivals]
rate = 40
seconds = 0.5

[bound]
ttft_ms = 60000.0
seconds = 0.3
most = 2
steps = 1

[own]
services = ["router", "compressor", "worker", "orchestrator", "gateway"]

[[own.config.models]]
name = "sim"
cost_per_1k_prompt = 1.0
engine = { kind = "sim", slots = 64, sim_prefill_per_s = 20000.0, sim_decode_per_s = 2000.0 }
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "small.toml"
    made.write_text(SCENARIO)
    return made


async def test_the_command_writes_a_page_and_the_same_figures_as_json(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = path.parent / "out"
    assert await carried_out(Options(scenario=path, out=out)) == 0
    page, plain = (out / "small.html").read_text(), msgspec.json.decode((out / "small.json").read_bytes())
    assert re.findall(r"https?:|<script|<link|<img|src=", page) == []
    assert page.count("<svg") == 4
    found = plain["summary"]
    assert found["asked"] == found["answered"] > 5
    assert found["outcomes"] == {"done": found["asked"]}
    assert found["queue_ms"]["n"] == found["stages_ms"]["first_token"]["n"] == found["asked"]
    assert found["tokens_before"] > 0
    assert found["cost"] > 0
    assert plain["search"]["open_end"]
    assert [point["multiple"] for point in plain["search"]["points"]] == [1, 2]
    assert {"orchestrator", "worker", "router", "nats-server", "generator"} <= set(plain["busy"])
    assert "samples" not in plain
    assert "Simulated models" in capsys.readouterr().out


async def test_the_same_scenario_is_asked_over_the_bus_and_over_http() -> None:
    scenario: Scenario = read(tomllib.loads(SCENARIO))
    counts = []
    async with own_system(scenario.own, None) as target:
        for via in ("bus", "http"):
            asked = msgspec.structs.replace(scenario, via=via)
            async with Runner.connect(asked, target, None, 7) as runner:
                samples, _ = await runner.run()
            found = summary(samples, late_ms=60_000)
            assert found.outcomes == {"done": found.asked}
            assert found.by_source.keys() == {"miss"}
            assert found.queue_ms.n == found.asked, "also over HTTP, where the orchestrator's announcement says it"
            assert all(one.model == "sim" and one.chunks and one.completion_tokens for one in samples)
            counts.append([(one.at_s, one.prompt_tokens, one.cost) for one in samples])
        wrong = msgspec.structs.replace(target, key="hk-of-nobody")
        with pytest.raises(SettingsError, match=r"none of the 2 .* unauthorized: .*HASTEN_API_KEY"):
            async with Runner.connect(msgspec.structs.replace(scenario, via="http"), wrong, None, 7):
                pass
    assert counts[0] == counts[1], "the same seed asks the same, which costs the same, whichever way it goes"


def test_a_scenario_that_cannot_be_run_is_a_sentence_and_no_traceback(tmp_path: Path) -> None:
    assert run_loop(carried_out(Options(scenario=tmp_path / "none.toml"))) == 2


async def test_a_target_that_is_not_one_is_refused(path: Path) -> None:
    with pytest.raises(SettingsError, match="--against must be"):
        await carried_out(Options(scenario=path, against="localhost:4222"))


def test_a_report_tells_neither_secrets_nor_folders_of_this_machine(tmp_path: Path) -> None:
    given = Options(scenario=tmp_path / "x.toml", against="nats://someone:secret@host:4222", data=tmp_path, multiple=2)
    said = told(given)
    assert said == "python -m loadtest.run x.toml --against nats://host:4222 --data DIR --multiple 2 --seed 1"
