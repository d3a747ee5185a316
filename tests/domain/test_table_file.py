"""An edit of the model table: taken when it is whole and right, refused with its line and reason otherwise."""

import logging
from pathlib import Path

import pytest

from hasten.models import ModelTable, model_table
from hasten.settings import SettingsError, read_config
from hasten.table_file import TableFile, changes

TWO = """# the models
[router]
probe_share = 0.1

[[models]]
name = "small"
quality = 0.4

[[models]]
name = "large"
aliases = ["best"]
quality = 0.9
engine = { kind = "sim", slots = 2 }
"""


class Edited:
    """A config file, its table and what keeps them together."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_text(TWO)
        self.table = ModelTable(model_table(read_config(path)))
        self.file = TableFile(path, self.table)

    def write(self, text: str) -> "Edited":
        self.path.write_text(text)
        self.file.read()
        return self

    @property
    def names(self) -> list[str]:
        return [model.name for model in self.table]


@pytest.fixture
def edited(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Edited:
    caplog.set_level(logging.WARNING, logger="hasten")
    return Edited(tmp_path / "hasten.toml")


def test_an_edit_is_taken_and_the_log_says_what_it_means(edited: Edited, caplog: pytest.LogCaptureFixture) -> None:
    before = edited.table.digest
    text = TWO.replace('name = "small"', 'name = "tiny"').replace("quality = 0.9", "quality = 0.8")
    edited.write(text.replace("slots = 2", "slots = 8"))
    assert edited.names == ["tiny", "large"]
    assert (edited.table[1].quality, edited.table.problem) == (0.8, "")
    assert edited.table.digest != before
    said = caplog.text
    assert "tiny is new; `hasten run worker --model tiny` runs it" in said
    assert "small is removed; its workers finish what they have" in said
    assert "large: engine, quality changed; for engine restart its workers" in said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("quality = 0.9", "quality = 90", ", line 12: [[models]], row 2: quality: expected `float` <= 1.0"),
        ("quality = 0.4", 'quality = "0.4"', ", line 7: [[models]], row 1: quality: expected `float`, got `str`"),
        ("quality = 0.4", "quality = nan", ", line 7: [[models]], row 1: quality: expected `float` >= 0.0"),
        ("quality = 0.4", "qualty = 0.4", ", line 7: [[models]], row 1: there is no field `qualty`"),
        ("slots = 2", 'slots = "many"', ", line 13: [[models]], row 2: engine.slots: expected `int`, got `str`"),
        ("slots = 2", "slotz = 2", ", line 13: [[models]], row 2: engine: there is no field `slotz`"),
        ('name = "large"\n', "", ", line 9: [[models]], row 2: Object missing required field `name`"),
        (
            'aliases = ["best"]',
            "ttft_prior_ms = inf",
            ", line 11: [[models]], row 2: ttft_prior_ms must be a number of at",
        ),
        (
            'aliases = ["best"]',
            f"max_tokens = {10**400}",
            ", line 11: [[models]], row 2: max_tokens must be a number of at",
        ),
        ('aliases = ["best"]', 'tokenizer = "meta/llama"', ", line 11: [[models]], row 2: a tokenizer is the name of"),
        ('aliases = ["best"]', 'aliases = ["small"]', ", line 11: [[models]], row 2: small is used twice"),
        ('name = "large"', 'name = "auto"', ", line 10: [[models]], row 2: auto is what leaves the choice"),
        ('name = "large"', 'name = "?"', ", line 10: [[models]], row 2: model slug must be 1 to 64 characters"),
        ('name = "small"', 'name = "small', " is not valid TOML: Illegal character '\\n' (at line 6,"),
    ],
)
def test_a_broken_edit_keeps_the_table_and_names_line_and_reason(
    edited: Edited, caplog: pytest.LogCaptureFixture, old: str, new: str, said: str
) -> None:
    rows = edited.table.rows
    edited.write(TWO.replace(old, new))
    assert edited.table.rows == rows
    assert said in edited.table.problem
    assert str(edited.path) in edited.table.problem
    assert edited.table.problem in caplog.text
    edited.write(TWO)
    assert edited.table.problem == "", "the file is right again"


def test_an_empty_file_and_one_that_is_gone_are_broken_edits(edited: Edited) -> None:
    assert "[[models]] is gone" in edited.write("").table.problem
    assert "[[models]] is empty" in edited.write("models = []").table.problem
    edited.path.unlink()
    edited.file.read()
    assert "cannot be read: No such file" in edited.table.problem
    assert edited.names == ["small", "large"]


def test_other_sections_are_said_to_take_a_restart(edited: Edited, caplog: pytest.LogCaptureFixture) -> None:
    edited.write(TWO.replace("quality = 0.9", "quality = 0.8"))
    assert "restart" not in caplog.text
    edited.write(TWO.replace("0.1", "0.2"))
    assert "other sections have changed as well: they take a restart" in caplog.text


def test_a_file_without_models_keeps_the_embedded_ones(tmp_path: Path) -> None:
    path = tmp_path / "hasten.toml"
    path.write_text("[router]\nprobe_share = 0.1\n")
    table = ModelTable(model_table({}))
    file = TableFile(path, table)
    path.write_text("[router]\nprobe_share = 0.2\n")
    file.read()
    assert (len(table), table.problem) == (2, "")
    path.write_text(TWO)
    file.read()
    assert [model.name for model in table] == ["small", "large"]


def test_a_file_is_read_when_it_has_come_to_rest(edited: Edited) -> None:
    assert not edited.file.rests()
    edited.path.write_text(TWO[:40])
    assert not edited.file.rests(), "it may be half written"
    edited.path.write_text(TWO + "\n")
    assert not edited.file.rests()
    assert edited.file.rests()
    assert not edited.file.rests(), "once"
    assert edited.file.rests(told=True), "or when somebody says so"


def test_a_link_that_is_set_anew_is_an_edit(edited: Edited, tmp_path: Path) -> None:
    """As a mounted ConfigMap is replaced."""
    other = tmp_path / "other.toml"
    other.write_text(TWO)
    link = tmp_path / "link"
    link.symlink_to(other)
    link.replace(edited.path)
    edited.file.rests()
    assert edited.file.rests()


def test_changes_of_nothing_are_none() -> None:
    rows = model_table({})
    assert changes(rows, rows) == []


def test_a_table_without_headings_has_no_line(edited: Edited) -> None:
    edited.write('models = [{ name = "small", quality = 3 }]')
    assert edited.table.problem.startswith(f"{edited.path}: [[models]], row 1: quality")


def test_bad_values_are_refused_at_the_start_too() -> None:
    for row in ({"cost_per_1k_prompt": -1}, {"context_window": 0}, {"ttft_prior_ms": 0}, {"max_tokens": 0}):
        with pytest.raises(SettingsError, match=next(iter(row))):
            model_table({"models": [{"name": "a", **row}]})
    for rows in (["small"], {"name": "small"}):
        with pytest.raises(SettingsError, match=r"\[\[models\]\]"):
            model_table({"models": rows})
