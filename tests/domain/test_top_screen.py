"""The screen of `hasten top` fits 80 columns whatever it shows, and says when NATS is away."""

import io
from typing import Any

import pytest
from rich.console import Console

from hasten.board import Board, View
from hasten.commands.top_screen import MOST_ROWS, Frame, screen, spark
from hasten.discovery import Running
from hasten.messages.cache import Invalidated
from hasten.messages.chat import Finished, Usage
from hasten.messages.generate import Status


def text(frame: Frame, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, markup=False, emoji=False).print(screen(frame))
    return out.getvalue()


def busy(tenant: str | None = None) -> View:
    board = Board(0.0)
    for at in range(40):
        usage = Usage(completion_tokens=10)
        kinds: tuple[Any, ...] = ("miss", "exact", "semantic", "shared")
        event = Finished(
            source="o1",
            seq=at + 1,
            request_id=f"r{at}",
            outcome="done",
            cache=kinds[at % 4],
            model="model-0",
            ttft_ms=10.0 * (at + 1),
            usage=usage,
        )
        board.hear(event, {"tenant": f"tenant-with-a-long-name-{at % 20}"}, 1.0 + at)
    for at in range(12):
        name = f"worker-with-a-name-that-is-much-longer-than-a-column-{at}"
        status = Status(
            seq=1, started_ms=1, state="ready", engine="sim", model=f"model-{at}", slots=4, active=1, queued=2
        )
        board.hear(status, {"slug": f"model-{at}", "worker": name}, 50.0)
    evicted = Invalidated(tags=[f"prices:{at}" for at in range(50)], entries=3, reason="change")
    board.hear(evicted, {"tenant": "tenant-with-a-long-name-0"}, 50.0)
    return board.view(50.5, tenant)


SERVICES = [
    Running(
        name="cache", id="c1", version="1", endpoints=[{"num_requests": 12345678, "num_errors": 9}], data={"active": 3}
    ),
    Running(name="cache", id="c2", version="1"),
]


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("tenant", [None, "tenant-with-a-long-name-0", "nobody"])
def test_no_line_is_longer_than_the_terminal(tenant: str | None, width: int) -> None:
    shown = text(Frame(view=busy(tenant), services=SERVICES, url="nats://" + "host" * 40), width)
    assert max(map(len, shown.splitlines())) <= width


def test_everything_is_there() -> None:
    shown = text(Frame(view=busy(), services=SERVICES, url="nats://bus:4222"), 120)
    for words in (
        "40 requests",
        "hit rate 50.0%",
        "12/48 slots, 24 in line",
        "model-0",
        "cache",
        "and 4 more",
        "prices:0",
    ):
        assert words in shown
    assert shown.count("tenant-with-a-long-name-") == MOST_ROWS


def test_nothing_has_happened_yet() -> None:
    shown = text(Frame(view=Board(0.0).view(1.0), url="nats://bus:4222"))
    assert "0 requests" in shown
    assert "hit rate -" in shown


def test_it_says_that_nats_is_away() -> None:
    frame = Frame(view=busy(), away_s=7.2, url="nats://bus:4222")
    assert "away for 7 s" in text(frame)
    assert "away" not in text(Frame(view=busy(), url="nats://bus:4222"))


def test_the_line_of_blocks_shows_none_as_none_and_the_most_as_a_whole_block() -> None:
    assert spark([0, 1, 8, 4]) == " ▁█▄"
    assert spark([]) == ""
    assert spark([0, 0]) == "  "
    assert len(spark([1] * 100, width=60)) == 60
