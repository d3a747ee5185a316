"""Files found in folders: each once, in order, nothing hidden, and what is wrong said instead of raised."""

import os
from pathlib import Path

import pytest

from hasten.files import File, LoadError, shown, walk
from hasten.loading import SUFFIXES


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


def found(*paths: Path, below: Path) -> list[str]:
    return [
        one.path.relative_to(below).as_posix() if isinstance(one, File) else str(one)
        for one in walk(list(paths), SUFFIXES)
    ]


def test_a_folder_is_walked_without_what_is_hidden_or_foreign(tmp_path: Path) -> None:
    write(tmp_path, "b/2.md", "b/1.TXT", "a.html", ".git/x.md", "b/.hidden.md", "b/pic.png", "c/d/e.pdf", "rows.csv")
    assert found(tmp_path, below=tmp_path) == ["a.html", "b/1.TXT", "b/2.md", "c/d/e.pdf", "rows.csv"]


def test_a_file_comes_once_however_often_it_is_named(tmp_path: Path) -> None:
    write(tmp_path, "b/2.md", "a.html")
    paths = (tmp_path, tmp_path / "a.html", tmp_path / "b", tmp_path)
    assert [(file.path.name, file.root) for file in walk(paths, SUFFIXES) if isinstance(file, File)] == [
        ("a.html", tmp_path),
        ("2.md", tmp_path),
    ]


def test_what_is_named_is_tried_so_that_the_reason_is_heard(tmp_path: Path) -> None:
    write(tmp_path, "odd.docx", ".hidden.md")
    assert found(tmp_path, tmp_path / "odd.docx", tmp_path / ".hidden.md", below=tmp_path) == ["odd.docx", ".hidden.md"]


def test_links_to_files_are_followed_and_links_to_folders_are_not(tmp_path: Path) -> None:
    write(tmp_path, "in/a.md", "out/b.md")
    (tmp_path / "in" / "loop").symlink_to(tmp_path)
    (tmp_path / "in" / "self.md").symlink_to(tmp_path / "in" / "self.md")
    (tmp_path / "in" / "gone.md").symlink_to(tmp_path / "nowhere.md")
    (tmp_path / "in" / "c.md").symlink_to(tmp_path / "out" / "b.md")
    os.mkfifo(tmp_path / "in" / "pipe.md")
    itself = f"{tmp_path / 'in' / 'self.md'} cannot be read: Too many levels of symbolic links"
    assert found(tmp_path / "in", below=tmp_path / "in") == ["a.md", "c.md", itself]


def test_a_folder_that_cannot_be_read_spoils_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a/1.md", "b/2.md")
    real = os.scandir

    def scandir(folder: Path) -> object:
        if Path(folder).name == "a":
            raise PermissionError(13, "Permission denied")
        return real(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    assert found(tmp_path, below=tmp_path) == [f"{tmp_path / 'a'} cannot be read: Permission denied", "b/2.md"]


def test_a_path_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="absent is not there"):
        next(walk([tmp_path, tmp_path / "absent"], SUFFIXES))


def test_a_name_of_any_bytes_can_be_printed(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(b"sch\xf6n.md"))
    assert shown(odd) == "sch\\xf6n.md"
    shown(odd).encode()
    assert shown(Path("a\x1b[31m\nb\x9b.md")) == r"a\x1b[31m\x0ab\x9b.md"


def test_a_large_folder_is_not_gathered_before_the_first_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, *(f"{number}/x.md" for number in range(9)))
    scanned: list[Path] = []
    real = os.scandir

    def scandir(folder: Path) -> object:
        scanned.append(folder)
        return real(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    next(walk([tmp_path], SUFFIXES))
    assert len(scanned) == 2
