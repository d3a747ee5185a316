"""The measuring of engines, on the simulator: every client is served in every number of slots."""

from pathlib import Path

from loadtest.engine_settings import PARTS, measure, table


async def test_a_report_has_a_row_for_each_setting_that_the_engine_has() -> None:
    base = {"path": "", "sim_decode_per_s": 1e6, "sim_prefill_per_s": 1e6}
    report = await measure("sim", base, Path(), list(PARTS), "wall")
    assert [(row.part, row.setting) for row in report.rows] == [("slots", "1"), ("slots", "4"), ("slots", "8")]
    for row in report.rows:
        assert row.figures["same"] == 1.0
        assert row.figures["per_s"] > 0
        assert 0 < row.figures["ttft_p50_ms"] <= row.figures["ttft_max_ms"]
    text = table(report)
    assert text.count("slots") == 3
    assert "clock: wall" in text
