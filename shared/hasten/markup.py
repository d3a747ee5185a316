"""Turns HTML into Markdown that reads well and keeps its structure: headings, lists, tables, code; no scripts.

Two passes over the parsed page, both linear and without recursion: no nesting is too deep, and forgotten end tags
(which nest rows in rows and items in items) do no harm.
"""

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

# fmt: off
_BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "body", "caption", "dd", "details", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "footer", "form", "header", "hr", "html", "li", "main", "ol", "p", "section", "summary",
    "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul",
})
_HIDDEN = frozenset({
    "script", "style", "template", "noscript", "svg", "nav", "head", "title", "iframe", "select", "button",
})
# fmt: on
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_LISTS, _CELLS = frozenset({"ul", "ol"}), frozenset({"td", "th"})
MAX_INDENT = 8
_UNCLOSED = re.compile(r"<(?=[^<>]*(?:<|\Z))")
_PADDING = re.compile(r"(?<!\s)\s{200,}")
"""A tag without an end, which is text, and padding: the parser would take quadratic time or worse for many of them."""
_PROLOG = re.compile(r"\A\s*<\?xml[^>]*\?>")


class _Place(NamedTuple):
    """Where a node stands. `unit` is the outermost code, heading or table of data around it, as (kind, id)."""

    hidden: bool = False
    block: int = 0
    item: int = 0
    depth: int = 0
    unit: tuple[str, int] | None = None


def html_to_markdown(html: str | bytes) -> tuple[str, str]:
    """The page's title and its text as Markdown; both may be empty. Bytes are decoded as the page itself says."""
    from bs4 import BeautifulSoup
    from bs4.dammit import UnicodeDammit

    if isinstance(html, bytes):
        html = UnicodeDammit(html, is_html=True).unicode_markup or ""
    if "<" not in html:
        return "", html.strip()
    html = _without(_without(_PROLOG.sub("", html, count=1), "<!--", "-->"), "<![", ">")
    html = _PADDING.sub("\n", _UNCLOSED.sub("&lt;", html))
    soup = BeautifulSoup(html, "html.parser")
    title = _words(soup.title.get_text()) if soup.title else ""
    return title, _Walk(_tables_of_data(soup)).text(_main(soup))


def _without(html: str, begin: str, end: str) -> str:
    """The page without its comments; the parser would take quadratic time for one that is never closed."""
    kept, at = [], 0
    while (start := html.find(begin, at)) >= 0:
        kept.append(html[at:start])
        if (stop := html.find(end, start)) < 0:
            return "".join([*kept, html[start:].replace(begin, "")])
        at = stop + len(end)
    return "".join([*kept, html[at:]])


def _words(text: str) -> str:
    return " ".join(text.split())


def _main(soup: "BeautifulSoup") -> "Tag":
    """The part of the page that is its content, where the page says which."""
    articles = soup("article", limit=2)
    return soup.find("main") or (articles[0] if len(articles) == 1 else None) or soup.body or soup


def _tables_of_data(soup: "BeautifulSoup") -> set[int]:
    """The ids of tables with a row of several cells; those with tables or headings in them only lay out a page."""
    table_of: dict[int, int] = {}
    cells: dict[int, int] = {}
    wide: set[int] = set()
    layout: set[int] = set()
    for tag in soup(True):
        table = table_of.get(id(tag.parent), 0)
        if tag.name in _HEADINGS or tag.name == "table":
            layout.add(table)
        if tag.name == "tr":
            cells[table] = 0
        elif tag.name in _CELLS:
            cells[table] = cells.get(table, 0) + 1
            if cells[table] > 1:
                wide.add(table)
        table_of[id(tag)] = id(tag) if tag.name == "table" else table
    return wide - layout - {0}


class _Walk:
    """Gathers the text of a page block by block, in the page's order."""

    def __init__(self, tables: set[int]) -> None:
        self._tables = tables
        self._places: dict[int, _Place] = {}
        self._blocks: list[str] = []
        self._words: list[str] = []
        self._rows: list[list[list[str]]] = []
        self._at = _Place()
        self._bulleted: set[int] = set()

    def text(self, root: "Tag") -> str:
        """The Markdown of everything below `root`."""
        from bs4.element import NavigableString, Tag

        for node in root.descendants:
            around = self._places.get(id(node.parent), _Place())
            if isinstance(node, Tag):
                self._places[id(node)] = place = self._place(node, around)
                if not place.hidden:
                    self._begin(node, place)
            elif type(node) is NavigableString and not around.hidden:
                self._move(around)
                self._into().append(str(node) if around.unit and around.unit[0] == "pre" else node.replace("\n", " "))
        self._end()
        return re.sub(r"\n{3,}", "\n\n", "\n".join(self._blocks)).strip()

    def _place(self, tag: "Tag", around: _Place) -> _Place:
        is_unit = tag.name == "pre" or tag.name in _HEADINGS or id(tag) in self._tables
        return _Place(
            hidden=around.hidden or tag.name in _HIDDEN,
            block=id(tag) if tag.name in _BLOCKS else around.block,
            item=id(tag) if tag.name == "li" else around.item,
            depth=around.depth + (tag.name in _LISTS),
            unit=around.unit or ((tag.name, id(tag)) if is_unit else None),
        )

    def _begin(self, tag: "Tag", place: _Place) -> None:
        if place.unit and place.unit[0] == "table":
            self._move(place)
            if tag.name == "tr" or (tag.name in _CELLS and not self._rows):
                self._rows.append([])
            if tag.name in _CELLS:
                self._rows[-1].append([])
        elif tag.name == "br":
            self._move(place)
            self._words.append("\n")

    def _into(self) -> list[str]:
        """Where words go: the current cell of a table, else the block."""
        return self._rows[-1][-1] if self._rows and self._rows[-1] else self._words

    def _move(self, place: _Place) -> None:
        """Ends what was gathered when the next words belong to another block or unit."""
        same = place.unit == self._at.unit if place.unit or self._at.unit else place.block == self._at.block
        if not same:
            self._end()
        self._at = place

    def _end(self) -> None:
        """Writes what has been gathered."""
        raw, here = "".join(self._words), self._at
        self._words.clear()
        kind = here.unit[0] if here.unit else ""
        if kind == "pre":
            self._blocks.append(f"\n{_fenced(raw)}\n" if raw.strip() else "")
        elif kind == "table":
            self._blocks.append(f"\n{_words(raw)}\n\n{_table(self._rows)}\n")
            self._rows = []
        elif kind:
            self._blocks.append(f"\n{'#' * int(kind[1])} {_words(raw)}\n" if raw.strip() else "")
        elif lines := [line for one in raw.split("\n") if (line := _words(one))]:
            self._paragraph(lines, here)

    def _paragraph(self, lines: list[str], here: _Place) -> None:
        if not here.item:
            self._blocks.append("\n" + "\n".join(lines) + "\n")
            return
        indent = "  " * min(max(0, here.depth - 1), MAX_INDENT)
        bullet = "  " if here.item in self._bulleted else "- "
        self._bulleted.add(here.item)
        self._blocks += [indent + bullet + lines[0], *(f"{indent}  {line}" for line in lines[1:])]


def _fenced(code: str) -> str:
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
    return f"{fence}\n{code.strip(chr(10))}\n{fence}"


def _table(rows: list[list[list[str]]]) -> str:
    texts = [[_words("".join(cell)).replace("|", "\\|") for cell in row] for row in rows]
    width = max(map(len, texts), default=0)
    lines = [f"| {' | '.join(row + [''] * (width - len(row)))} |" for row in texts if any(row)]
    lines.insert(1, "|" + " --- |" * width)
    return "\n".join(lines)
