"""The tables of the replayed traces, from results whose figures are known."""

import msgspec

from loadtest.processor import Busy
from loadtest.result import Machine, Result
from loadtest.sample import Sample
from loadtest.scenario import read
from loadtest.search import Found, Point
from loadtest.summary import summary
from loadtest.traces import tables


def a_result() -> Result:
    samples = [
        Sample(index=at, at_s=at, cache="miss", ttft_ms=100.0 + at, total_ms=1000.0, stages={"first_token": 90.0})
        for at in range(10)
    ]
    figures = summary(samples, late_ms=20)
    point = Point(multiple=4.0, within=0.9, held=False, summary=figures)
    return Result(
        name="azure-code",
        about="Simulated",
        command="",
        seed=1,
        machine=Machine(cores=2, load=0.1, system="Linux", python="3.11"),
        scenario=read({"about": "Simulated", "bound": {"ttft_ms": 105}}),
        summary=figures,
        busy={"router": Busy(processes=1, cores=0.5, busiest=0.5)},
        search=Found(points=[point], best=None, open_end=False),
    )


def test_the_tables_have_a_row_for_each_trace_and_each_rate() -> None:
    first, second, third = tables([a_result()]).split("\n\n")
    assert first.splitlines()[2] == "| azure, code | 10 | 0 | 104 | 109 | 109 | 14.0 | 19.0 | 0 |"
    assert second.splitlines()[2] == "| azure, code | 105 ms | 4 | 1.11 | 0 | 109 | 90.0% | broken | 0 |"
    assert third.splitlines() == [
        "| ms of processor time per request | router |",
        "| --- | ---: |",
        "| azure, code | 500 |",
    ]


def test_a_result_is_read_back_from_its_file() -> None:
    result = a_result()
    assert msgspec.json.decode(result.plain(), type=Result) == result
