"""One self-contained HTML file from tables and plots: no script, no font, no picture from anywhere else.

Pictures are SVG inside the page, in the colours of its text, so that they can be read in the dark and in the light.
"""

import html
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#3b82c4", "#d97706", "#2f9e63", "#c2417c", "#8b6fd0", "#7a8794", "#b8a100", "#d9534f")
"""Of the series of a plot, each to be told from the others and from either background."""
_INK = "#010203"
"""Drawn in place of the colour of the page's text, which a picture does not know."""
_STYLE = """
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 18%, transparent); }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem;
  background: Canvas; color: CanvasText; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p.lead { font-weight: 600; } p.note { opacity: .8; max-width: 60rem; }
p.invalid { border-left: 4px solid #d9534f; padding-left: .8rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
svg { max-width: 100%; height: auto; } svg text { font-family: system-ui, sans-serif; }
pre { overflow-x: auto; padding: .6rem; border: 1px solid var(--line); }
"""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A named table. Cells are shown as `shown` writes them; each row is as long as `columns`."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""


class Plot(msgspec.Struct, frozen=True, kw_only=True):
    """A named picture; `svg` is what `drawn` gives."""

    title: str
    svg: str
    note: str = ""


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """A named text, as it is: a command, a scenario."""

    title: str
    text: str
    note: str = ""


Part = Table | Plot | Words


def shown(value: Any) -> str:
    """A cell: a dash for nothing, numbers with as many figures as can be believed."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        size = abs(value)
        digits = 0 if size >= 100 or value == 0 else 1 if size >= 10 else 2 if size >= 0.1 else 3 if size >= 0.01 else 6
        return f"{value:,.{digits}f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def page(title: str, lead: str, parts: Sequence[Part], *, invalid: str = "") -> str:
    """The page. `lead` is its first line: what the figures are of; `invalid` says why they must not be believed."""
    heading = html.escape(title)
    warning = f'<p class="invalid"><strong>Not valid:</strong> {html.escape(invalid)}</p>' if invalid else ""
    body = "\n".join(_part(part) for part in parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{heading}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>\n'
        f'<p class="lead">{html.escape(lead)}</p><h1>{heading}</h1>{warning}\n{body}\n</body></html>\n'
    )


def _part(part: Part) -> str:
    note = f'<p class="note">{html.escape(part.note)}</p>' if part.note else ""
    return f"<section><h2>{html.escape(part.title)}</h2>{note}{_inside(part)}</section>"


def _inside(part: Part) -> str:
    if isinstance(part, Plot):
        return part.svg
    if isinstance(part, Words):
        return f"<pre>{html.escape(part.text)}</pre>"
    head = "".join(f"<th>{html.escape(column)}</th>" for column in part.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(shown(cell))}</td>" for cell in row) + "</tr>\n" for row in part.rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


@contextmanager
def canvas(width: float = 8.6, height: float = 3.8) -> Iterator[tuple["Figure", Any]]:
    """An empty figure of this size (inches) and its axes, to be given to `drawn`; needs matplotlib (extra `dev`)."""
    try:
        import matplotlib
        from cycler import cycler
        from matplotlib.figure import Figure
    except ImportError:
        raise SystemExit("plots need matplotlib: install the extra dev") from None
    ink: dict[Any, Any] = dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _INK
    )
    look: dict[Any, Any] = {
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": cycler(color=COLOURS),
        "axes.grid": True,
        "grid.color": _INK,
        "grid.alpha": 0.12,
        "legend.frameon": False,
        "svg.fonttype": "none",
        "svg.hashsalt": "hasten",
        "path.simplify_threshold": 0.5,
    }
    with matplotlib.rc_context({**ink, **look}):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots()


def drawn(figure: "Figure", name: str) -> str:
    """A figure as SVG to put into a page, within its `canvas`; `name` (letters) keeps its ids from those of others."""
    target = io.StringIO()
    figure.savefig(target, format="svg", transparent=True, metadata={"Date": None})
    text = target.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\s+xmlns(:\w+)?="[^"]*"', "", text).replace("xlink:href", "href").replace(_INK, "currentColor")
    used = set(re.findall(r"#([A-Za-z][\w-]*)[\")]", text))
    text = re.sub(r'\s+id="([^"]*)"', lambda found: found[0] if found[1] in used else "", text)
    text = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", text, flags=re.DOTALL)
    text = re.sub(r"font-family: [^;\"]*;? ?", "", text)
    shorter = re.compile(r"(\d+\.\d{2})\d+")
    return re.sub(r"<[^>]*>", lambda tag: shorter.sub(r"\1", tag[0]), text).replace("\n", "")
