"""What the compressor says a prompt has is what the embedded engine reads, on awkward texts: never less."""

import time
from pathlib import Path

from hasten.models import SMALL
from hasten.weights import folder, prepare
from loadtest.engine_rig import model_of, running
from loadtest.prompt_counting import WINDOW, measured

DATA = Path(__file__).parents[2] / ".hasten"


async def test_our_count_is_the_engines_own() -> None:
    prepare(DATA, print)
    path = str((folder(DATA) / SMALL.engine.path).resolve())
    async with running(model_of("llama", path, WINDOW), DATA, time.perf_counter) as rig:
        report = await measured(rig, 8, DATA)
    assert report.smallest >= 0
    assert report.largest_without_calls <= 1
    assert report.equal >= 4
    assert report.nearest <= 1.0
