"""The page about loadtest/ names every command there is, and no other."""

import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "loadtest"


def commands() -> set[str]:
    """What can be run with `python -m`."""
    modules = [path for path in FOLDER.rglob("*.py") if 'if __name__ == "__main__"' in path.read_text()]
    names = {".".join(path.relative_to(FOLDER.parent).with_suffix("").parts) for path in modules}
    return {name.removesuffix(".__main__") for name in names}


def test_the_page_lists_every_command() -> None:
    listed = re.findall(r"^\| `(loadtest\.[\w.]+)", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == commands()


def test_the_page_names_files_that_are_there() -> None:
    named = re.findall(r"\]\((\w+\.py)\)", (FOLDER / "README.md").read_text())
    assert [name for name in named if not (FOLDER / name).exists()] == []
