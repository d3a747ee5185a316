"""What the live view counts and says."""

import io

from rich.console import Console

from hasten.commands.watch import Tally, line, screen
from hasten.messages.cache import Invalidated
from hasten.messages.chat import Finished

BASE = {"source": "o1", "seq": 1, "request_id": "r1"}


def finished(**fields: object) -> Finished:
    return Finished(**{**BASE, "outcome": "done", **fields})  # type: ignore[arg-type]


def test_a_tally_is_kept_for_each_tenant() -> None:
    tally = Tally()
    for event in (
        finished(cache="exact", entry_id="e1", similarity=1.0),
        finished(cache="semantic", entry_id="e1", similarity=0.93),
        finished(reason="guard", guard="words"),
        finished(reason="guard", guard="words"),
        finished(reason="absent"),
        finished(outcome="deadline", reason="absent"),
        Invalidated(tags=["prices:7"], entries=3, reason="change", sequence=4),
        Invalidated(tags=[], entries=2, reason="no room"),
    ):
        tally.add("acme", event)
    tally.add("other", finished(cache="shared"))
    row = ["acme", "1", "1", "0", "3", "1", "40%", "guard words 2, absent 2", "change 3, no room 2"]
    assert tally.row("acme") == row
    assert tally.row("other") == ["other", "0", "0", "1", "0", "0", "0%", "", ""]


def test_what_callers_named_cannot_move_the_cursor() -> None:
    evil = Invalidated(tags=["a\x1b[2J", "b\n"], entries=1, reason="\x07beep")
    assert not set("\x1b\n\x07") & set(line("acme", evil))
    tally = Tally()
    tally.add("acme", evil)
    assert not set("\x1b\n\x07") & set("".join(tally.row("acme")))


def test_many_tags_are_counted_and_the_screen_holds_the_latest() -> None:
    many = Invalidated(tags=[f"prices:{n}" for n in range(9)], entries=9, reason="change")
    assert line("acme", many).endswith("prices:4 and 4 more")
    tally = Tally()
    for number in range(30):
        tally.add("acme", finished(request_id=f"r{number}"))
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(screen(tally))
    shown = console.export_text()
    assert "request r29" in shown
    assert "request r17" not in shown
