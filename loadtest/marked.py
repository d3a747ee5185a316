"""Keeps figures in a page of the documentation: a command replaces what stands between two marks, and nothing else."""

from pathlib import Path


def put(page: Path, name: str, text: str) -> None:
    """Replaces what is between `<!-- NAME -->` and `<!-- end of NAME -->`; raises ValueError for a page without."""
    begin, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
    whole = page.read_text()
    before, found, rest = whole.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"{page} has no {begin.strip()} … {end.strip()}")
    page.write_text(before + begin + text.strip() + end + after)
