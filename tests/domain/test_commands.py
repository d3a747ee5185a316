"""What commands refuse before they do anything, and what `hasten ask` says of an answer."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from hasten.answered import Answered
from hasten.cli import app
from hasten.commands.ask import reasons, summary
from hasten.commands.ingest import columns_of
from hasten.commands.worker_table import wide_console, worker_table
from hasten.messages.route import ModelInfo, WorkerInfo

ENTRY = "2f1c9bde-6a1f-5b53-9c8e-0d6a2b0b7c11"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("ask", "  "), "the question is empty"),
        (("invalidate",), "say what to invalidate"),
        (("invalidate", "--document", "fees"), "--document must be COLLECTION/ID"),
        (("invalidate", "--document", "help/"), "--document must be COLLECTION/ID"),
        (("invalidate", "--entry", "42"), "--entry must be the id of an entry"),
        (("invalidate", "--event", "e.json"), "--event needs --dry-run and --subject"),
        (("invalidate", "--event", "none.json", "--dry-run", "--subject", "a.b"), "none.json cannot be read"),
        (("invalidate", "--event", "e.json", "--dry-run", "--subject", "shop.>"), "--subject must be the one that the"),
        (("ingest", ".", "-c", "help", "--encoding", "klingon"), "--encoding klingon is not known"),
        (("ingest", ".", "-c", "help", "--column", "body=text"), "--column body must be id, title, text"),
        (("ingest", ".", "-c", "help", "--column", "text"), "--column text must be id, title, text"),
        (("ask", "q", "--cache", "none"), "'none'"),
        (("status", "--nats", "nats://127.0.0.1:1"), "answers at nats://127.0.0.1:1"),
        (("status", "--nats", "nats://127.0.0.1:1"), "--nats or HASTEN_NATS"),
    ],
)
def test_what_a_person_can_put_right_is_said(arguments: tuple[str, ...], sentence: str) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert sentence in done.stderr


@pytest.mark.parametrize(
    ("fields", "knowledge", "said"),
    [
        ({"notes": {"cache": {"hit": "exact", "entry_id": ENTRY}}}, [], f"entry {ENTRY}"),
        ({"finish_reason": "length"}, [], "cut at the token limit, so not stored"),
        ({"notes": {"sources": {"passages": [{"title": "Fees", "document": "fees"}]}}}, ["help"], "from Fees"),
        ({"notes": {"sources": {"passages": [], "missing": ["help"]}}}, ["help"], "nothing found in help"),
        ({"notes": {"sources": {"passages": []}}}, ["help"], "no passages used"),
    ],
)
def test_the_last_line_says(fields: dict[str, Any], knowledge: list[str], said: str) -> None:
    parts = summary(Answered(cache="miss", model="m", **fields), knowledge).split(" · ")
    assert said in parts
    assert len(parts) == 5


def test_without_knowledge_nothing_is_said_of_it() -> None:
    assert summary(Answered(cache="miss", model="m")) == "generated · m · no text · total 0 ms"


ROUTE = {"model": "m", "worker": "w1", "reason": "m is the only one", "confidence": 0.9}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"cache": "miss", "notes": {"route": ROUTE}}, ["w1: m is the only one, confidence 0.90"]),
        ({"cache": "exact", "notes": {"route": ROUTE}}, ["no model was chosen: the answer comes from the cache"]),
        ({"cache": ""}, ["no model was chosen"]),
        (
            {
                "cache": "miss",
                "notes": {"route": ROUTE, "cascade": {"model": "s", "escalated": True, "reason": "empty"}},
            },
            ["w1: m is", "cascade: s answered first, another model was asked (empty)"],
        ),
        (
            {"cache": "miss", "notes": {"route": ROUTE, "cascade": {"model": "s", "escalated": False}}},
            ["w1: m is", "cascade: s answered first, its draft was shown"],
        ),
        (
            {
                "cache": "miss",
                "notes": {"route": ROUTE, "hedge": {"workers": ["w1", "w2"], "won": "w2", "after_ms": 80.4}},
            },
            ["w1: m is", "hedge: a second worker was asked after 80 ms; w2 spoke first"],
        ),
    ],
)
def test_why_says_how_the_model_was_chosen(fields: dict[str, Any], said: list[str]) -> None:
    lines = reasons(Answered(**fields))
    assert len(lines) == len(said)
    assert all(line.startswith(start) for line, start in zip(lines, said, strict=True))


def test_a_narrow_terminal_cuts_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    console = wide_console()
    with console.capture() as shown:
        console.print(worker_table([ModelInfo(name="m" * 20, slug="m", each=[WorkerInfo(name="w-12345678", sent=30)])]))
    assert "…" not in shown.get()
    assert len(shown.get().splitlines()) == 2


def test_columns_are_named_by_their_fields() -> None:
    columns = columns_of(["text=body", "id=sku"])
    assert (columns.text, columns.id, columns.title) == ("body", "sku", "title")


def test_the_share_of_each_worker_is_shown() -> None:
    each = [WorkerInfo(name="w1", slots=4, in_flight=6, waiting=2, sent=30, token_ms=0.25, answer_ms=900.0)]
    each.append(WorkerInfo(name="w2", ready=False, sent=10, breaker="half_open"))
    console = Console(file=StringIO(), width=200)
    console.print(worker_table([ModelInfo(name="m", slug="m", each=each)]))
    assert isinstance(console.file, StringIO)
    rows = [line.split("  ") for line in console.file.getvalue().splitlines()[1:]]
    first, second = ([cell.strip() for cell in row if cell.strip()] for row in rows)
    assert first == ["m", "w1", "ready", "4", "4", "2", "30", "75.0%", "4000 tok/s", "900 ms", "closed"]
    assert second == ["m", "w2", "not ready", "1", "0", "0", "10", "25.0%", "-", "-", "half open"]
