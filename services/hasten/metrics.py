"""Every metric of hasten, as its source declares it; `python -m hasten.metrics` writes the table in docs/metrics.md.

Read without importing: what needs an extra that is not installed is there all the same.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

PAGE = Path("docs/metrics.md")
BEGIN, END = "<!-- made by `python -m hasten.metrics` -->", "<!-- end -->"
_KINDS = ("counter", "gauge", "histogram")
_EVERYWHERE = "every process"
_PROCESS = {
    "process_cpu_seconds_total": ("counter", "Processor time of the process, in the system and itself"),
    "process_resident_memory_bytes": ("gauge", "Memory of the process"),
    "process_virtual_memory_bytes": ("gauge", "Address space of the process"),
    "process_start_time_seconds": ("gauge", "When the process began, as Unix time"),
    "process_open_fds": ("gauge", "Open files and connections of the process"),
    "process_max_fds": ("gauge", "How many it may have open"),
}
"""Of prometheus-client's ProcessCollector, where there is a /proc."""


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """A metric: its name as Prometheus has it, its kind, labels and help, and which processes have it."""

    name: str
    kind: str
    text: str
    labels: list[str] = []
    where: str = _EVERYWHERE

    @property
    def samples(self) -> list[str]:
        """The names that a query may use."""
        if self.kind != "histogram":
            return [self.name]
        return [f"{self.name}{suffix}" for suffix in ("_bucket", "_count", "_sum")]


def metrics() -> list[Metric]:
    """All of them, by name."""
    declared = (one for root in _roots() for file in sorted(root.rglob("*.py")) for one in _declared(root, file))
    found = {one.name: one for one in declared}
    found |= {name: Metric(name=name, kind=kind, text=text) for name, (kind, text) in _PROCESS.items()}
    return [found[name] for name in sorted(found)]


def _roots() -> list[Path]:
    """Where the source is: in a checkout there are two roots, in an installation one."""
    here = Path(__file__).parent
    return [root for root in (here, here.parents[1] / "shared" / "hasten") if root.is_dir()]


def _declared(root: Path, file: Path) -> Iterator[Metric]:
    source = file.read_text(encoding="utf-8")
    if "hasten.telemetry import" not in source:
        return
    package = file.relative_to(root).parts[0]
    where = package if (root / package / "service.py").exists() else _EVERYWHERE
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _KINDS:
            name, text, *labels = [str(ast.literal_eval(one)) for one in node.args]
            yield Metric(name=f"hasten_{name}", kind=node.func.id, text=text, labels=labels, where=where)


def table(found: list[Metric]) -> str:
    """The table as Markdown."""
    rows = ["| metric | kind | labels | of | |", "|---|---|---|---|---|"]
    for one in found:
        labels = ", ".join(f"`{label}`" for label in one.labels)
        rows.append(f"| `{one.name}` | {one.kind} | {labels} | {one.where} | {one.text} |")
    return "\n".join(rows)


def page(text: str) -> str:
    """The page with the table as it is now."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{table(metrics())}\n\n{END}{tail}"


def main() -> int:
    """Writes the page, or with --check says whether it is stale."""
    text = PAGE.read_text(encoding="utf-8")
    fresh = page(text)
    if "--check" in sys.argv[1:]:
        if text != fresh:
            print(f"{PAGE} is stale: run python -m hasten.metrics", file=sys.stderr)
        return int(text != fresh)
    PAGE.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
