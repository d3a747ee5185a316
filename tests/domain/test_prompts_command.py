"""`hasten prompts lint` as a person and a build use it: its exit codes, its forms of input, and what it writes."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from hasten.cli import app

CLEAN = "You translate tariffs. Keep every figure, and the names of the plans.\n"
WORDY = "You are a helpful assistant.\nPlease quote the tariff in cents per kWh. Never round it.\n"
SHORT = "Quote the tariff in cents per kWh. Never round it.\n"


def lint(*arguments: str | Path, given: bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["prompts", "lint", *map(str, arguments)], input=given)


@pytest.fixture
def data(tmp_path: Path) -> tuple[str, str]:
    """An empty data folder, so that tokens are estimated."""
    return "--data", str(tmp_path / "data")


def body(system: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "system", "content": system}, {"role": "user", "content": "Go."}], **more}


def test_exit_codes_are_for_builds(tmp_path: Path, data: tuple[str, str]) -> None:
    clean, wordy = tmp_path / "clean.txt", tmp_path / "wordy.md"
    clean.write_text(CLEAN)
    wordy.write_text(WORDY)
    assert lint(clean, *data).exit_code == 0
    assert lint(wordy, *data).exit_code == 1
    found = lint(clean, wordy, *data)
    assert found.exit_code == 1
    assert "1 filler" in found.stdout
    assert "1 preamble" in found.stdout
    assert "| Quote the tariff in cents per kWh. Never round it." in found.stdout


@pytest.mark.parametrize(
    ("name", "raw", "sentence"),
    [
        ("none.txt", None, "cannot be read"),
        ("empty.txt", b" \n", "is empty"),
        ("latin.txt", b"\xff\xfe\x00", "is not UTF-8"),
        ("deep.json", b"[" * 100_000, "is not JSON"),
        ("deep.jsonl", b'{"messages":' * 50_000, "is not JSON"),
        ("half.json", b'{"messages": [', "is not JSON"),
        ("list.json", b"[1, 2]", "is not a chat body"),
        ("no.json", b'{"prompt": "x"}', "messages must be a list"),
    ],
)
def test_what_cannot_be_read_is_said(
    tmp_path: Path, data: tuple[str, str], name: str, raw: bytes | None, sentence: str
) -> None:
    if raw is not None:
        (tmp_path / name).write_bytes(raw)
    done = lint(tmp_path / name, *data)
    assert done.exit_code == 2
    assert sentence in done.stderr


def test_a_model_that_nobody_knows_is_refused(tmp_path: Path, data: tuple[str, str]) -> None:
    (tmp_path / "a.txt").write_text(CLEAN)
    done = lint(tmp_path / "a.txt", "--model", "gpt-17", *data)
    assert done.exit_code == 2
    assert "no model and no tokenizer is called gpt-17" in done.stderr


def test_json_has_spans_tokens_and_the_whole_suggestion(tmp_path: Path, data: tuple[str, str]) -> None:
    done = lint("-", "--json", *data, given=WORDY.encode())
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    (one,) = told["prompts"]
    assert not told["ok"]
    assert one["suggested"] == SHORT
    assert one["suggested_tokens"] < one["tokens"]
    for finding in one["findings"]:
        assert WORDY[finding["start"] : finding["end"]].startswith(finding["text"][:20])
        assert finding["tokens"] > 0


def test_a_suggestion_is_written_where_asked_and_never_over_a_file(tmp_path: Path, data: tuple[str, str]) -> None:
    prompt, out = tmp_path / "p.txt", tmp_path / "out.txt"
    prompt.write_text(WORDY)
    assert lint(prompt, "--write", out, *data).exit_code == 1
    assert (out.read_text(), prompt.read_text()) == (SHORT, WORDY)
    out.write_text("mine")
    refused = lint(prompt, "--write", out, *data)
    assert (refused.exit_code, out.read_text()) == (2, "mine")
    assert lint(prompt, "--write", prompt, *data).exit_code == 2
    assert prompt.read_text() == WORDY
    assert lint(prompt, "--write", out, "--force", *data).exit_code == 1
    assert out.read_text() == SHORT
    assert lint(prompt, prompt, "--write", tmp_path / "two.txt", *data).exit_code == 2
    assert not (tmp_path / "two.txt").exists()


def test_of_a_body_the_system_text_is_suggested_and_the_rest_stays(tmp_path: Path, data: tuple[str, str]) -> None:
    tools = [{"type": "function", "function": {"name": "sum", "parameters": {"b": 1, "a": 2}}}]
    sent = body(WORDY, tools=tools, model="gpt-4.1", reasoning_effort="low")
    prompt, out = tmp_path / "b.json", tmp_path / "out.json"
    prompt.write_text(json.dumps(sent))
    assert lint(prompt, "--write", out, *data).exit_code == 1
    assert json.loads(out.read_text()) == body(SHORT, tools=tools, model="gpt-4.1", reasoning_effort="low")


def test_lines_of_bodies_are_reviewed_once_each_and_compared(tmp_path: Path, data: tuple[str, str]) -> None:
    rest = " You plan trips by train. Offer the fastest and the cheapest one. Name the platforms. Warn of delays."
    rest += " Give prices for adults and for children, with the card and without. Say how long tickets last."
    lines = [body(f"Desk {desk} is yours.{rest}") for desk in ("north", "north", "south")]
    batch = tmp_path / "batch.jsonl"
    batch.write_text("".join(json.dumps({"custom_id": "x", "body": one}) + "\n" for one in lines))
    done = lint(batch, "--json", *data)
    told = json.loads(done.stdout)["prompts"]
    assert [one["source"] for one in told] == [f"{batch}#1", f"{batch}#3"]
    assert [[finding["kind"] for finding in one["findings"]] for one in told] == [[], ["volatile"]]
