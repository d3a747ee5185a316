"""Rows of files become documents: JSON lines and CSV, their columns, their encodings, and what is wrong with them."""

import os
from pathlib import Path
from typing import Any

import pytest

from hasten.files import File, LoadError
from hasten.loading import documents
from hasten.messages.retrieve import Document
from hasten.row_file import Columns


def read(folder: Path, name: str, content: str | bytes, **options: Any) -> tuple[list[Document], list[str]]:
    """The documents of a file, and the sentences, without the path they begin with."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    found = list(documents(File(path, folder, 0), **options))
    said = [str(one).removeprefix(str(path)) for one in found if isinstance(one, LoadError)]
    return [one for one in found if isinstance(one, Document)], said


def test_a_line_of_json_is_a_document(tmp_path: Path) -> None:
    line = (
        '{"id": 7, "title": "Fees", "text": "Five.", "url": "https://x/7", "tags": ["prices:7"], "year": 2024, '
        '"ratio": 0.5, "new": true, "langs": ["en", "de"], "nested": {"a": 1}, "none": null, "metadata": {"kind": "q"}}'
    )
    (one,), said = read(tmp_path, "a.jsonl", f"{line}\n\n")
    assert said == []
    assert (one.id, one.title, one.text, one.url, one.tags) == ("7", "Fees", "Five.", "https://x/7", ["prices:7"])
    assert one.metadata == {"year": 2024, "ratio": 0.5, "new": True, "langs": ["en", "de"], "kind": "q"}


def test_a_row_of_csv_is_a_document_and_its_line_its_name(tmp_path: Path) -> None:
    content = 'sku;body;label;code\n1;"Two\nlines; here";Lamp;007\n\n2;Chair text;;\n;No key;;x\n'
    columns = Columns(id="sku", text="body", title="label")
    found, said = read(tmp_path, "goods.csv", content, columns=columns)
    assert said == []
    assert [(one.id, one.title, one.text) for one in found] == [
        ("1", "Lamp", "Two\nlines; here"),
        ("2", "", "Chair text"),
        ("goods/6", "", "No key"),
    ]
    assert [one.metadata for one in found] == [{"code": "007"}, {}, {"code": "x"}]


def test_a_metadata_column_that_is_no_object_is_kept_by_its_own_name(tmp_path: Path) -> None:
    columns = Columns(metadata="months")
    (one,), said = read(tmp_path, "goods.csv", "id,text,months\n1,Kettle,24\n", columns=columns)
    assert (one.metadata, said) == ({"months": "24"}, [])


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_that_of_the_header(tmp_path: Path, delimiter: str) -> None:
    rows = [["id", "text", "tags"], ["a", "some text", "one"], ["b", "more", ""]]
    (first, second), said = read(tmp_path, "t.tsv", "\r\n".join(delimiter.join(row) for row in rows))
    assert (first.id, first.tags, second.text, said) == ("a", ["one"], "more", [])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize(("name", "content"), [("x.csv", "id,text\n1,Größe"), ("x.jsonl", '{"id":1,"text":"Größe"}')])
def test_rows_in_their_encodings(tmp_path: Path, encoding: str, name: str, content: str) -> None:
    (one,), said = read(tmp_path, name, content.encode(encoding))
    assert (one.id, one.text, said) == ("1", "Größe", [])


def test_an_encoding_that_is_named_is_taken(tmp_path: Path) -> None:
    raw = "id,text\n1,Größe".encode("latin-1")
    assert read(tmp_path, "x.csv", raw) == ([], [" is not UTF-8 text: name its encoding with --encoding"])
    (one,), _ = read(tmp_path, "x.csv", raw, encoding="latin-1")
    assert one.text == "Größe"
    (one,), _ = read(tmp_path, "x.txt", "Größe".encode("cp1252"), encoding="cp1252")
    assert one.text == "Größe"
    (one,), _ = read(tmp_path, "x.html", "<p>Größe</p>".encode("cp1252"), encoding="cp1252")
    assert one.text == "Größe"


def test_a_bad_row_spoils_no_other(tmp_path: Path) -> None:
    lines = ["[1]", "{broken", '{"id": "x"}', '{"text": " "}', '{"text": 5}', "[" * 100_000, '{"text": "good"}']
    found, said = read(tmp_path, "a.ndjson", "\n".join(lines))
    assert [(one.id, one.text) for one in found] == [("a/7", "good")]
    assert said == [
        ", line 1, is not a JSON object",
        ", line 2, is not JSON",
        *(f", line {line}, has no text in text" for line in (3, 4, 5)),
        ", line 6, is not JSON",
    ]
    found, said = read(tmp_path, "a.csv", "id,text\n1,a,b\n2,good\n")
    assert ([one.text for one in found], said) == (["good"], [", line 2, has 3 fields, the header has 2"])


@pytest.mark.parametrize("content", ["", "id,body\n1,x", "\0\1\2"])
def test_a_table_without_the_text_says_what_it_has(tmp_path: Path, content: str) -> None:
    found, said = read(tmp_path, "a.csv", content)
    assert found == []
    assert len(said) == 1
    assert "name it with --column text=NAME" in said[0]


def test_halves_of_characters_do_not_reach_the_wire(tmp_path: Path) -> None:
    line = '{"text": "a \\uD800 b \\ud83d\\ude00", "id": "x\\ud800", "tags": ["\\udc00"], "m\\ud800": "\\ud800"}'
    (one,), _ = read(tmp_path, "a.jsonl", line)
    assert (one.text, one.id, one.tags, one.metadata) == ("a ? b 😀", "x?", ["?"], {"m?": "?"})
    assert len(one.digest) == 24


def test_a_file_that_changes_while_it_is_read_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one"}\n')
    reading = documents(File(path, tmp_path, 0))
    assert isinstance(next(reading), Document)
    with path.open("a") as file:
        file.write('{"text": "two"}\n')
    assert "was changed while it was read" in [str(one) for one in reading][-1]


def test_rows_come_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one"}\n' * 100_000)
    assert isinstance(next(documents(File(path, tmp_path, 0))), Document)


def test_rows_are_read_of_files_only(tmp_path: Path) -> None:
    """A pipe that nobody writes to, or a device without an end, would be waited for without end."""
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "endless.jsonl").symlink_to("/dev/zero")
    for name in ("pipe.csv", "endless.jsonl"):
        path = tmp_path / name
        assert [str(one) for one in documents(File(path, None, 0))] == [f"{path} is not a file"]
