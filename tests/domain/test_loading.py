"""Files to documents: every kind of file, what is wrong with it, and what is in it."""

import json
from pathlib import Path

import pytest
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from hasten.files import LoadError
from hasten.loading import load
from hasten.markup import html_to_markdown

FRONT = """---
title: "Refund policy"
tags: [prices:7, 'policies:1']
year: 2024
ratio: 0.5
beta: false
audience:
  - new
  - old
nested:
  deeper: x
empty:
# a comment
---
# Heading

Body.
"""
PAGE = """<?xml version="1.0"?>
<!DOCTYPE html><html><head><title>Our  prices</title><style>b{}</style><script>evil()</script></head>
<body><nav><a href="/">Home</a></nav><header>Top</header>
<main><h1>Prices <em>2024</em></h1><p>It costs <b>5</b> euro.<br>Each month.</p>loose text
<h2>Plans</h2><ul><li>Small</li><li><p>Large</p><p>very</p><ol><li>inner</li></ol></li></ul>
<table><caption>Rates</caption><tr><th>plan</th><th>price</th></tr><tr><td>S</td><td>5|6</td></tr><tr><td>L</td></tr></table>
<pre><code>if a &lt; b:
    ```x</code></pre>
<table><tr><td><p>only layout</p></td></tr></table><!-- hidden --><script>evil()</script><p>Ende &amp; Größe</p></main>
<footer>Bottom</footer></body></html>"""


def write(folder: Path, name: str, content: str | bytes) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def pdf(*pages: str, title: str = "", password: str = "") -> PdfWriter:
    """A PDF with one line of text per page, made by hand so that no font has to be there."""
    writer = PdfWriter()
    for text in pages:
        page = writer.add_blank_page(300, 300)
        font = DictionaryObject(
            {
                NameObject("/Type"): NameObject("/Font"),
                NameObject("/Subtype"): NameObject("/Type1"),
                NameObject("/BaseFont"): NameObject("/Helvetica"),
            }
        )
        fonts = DictionaryObject({NameObject("/F1"): writer._add_object(font)})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
    if title:
        writer.add_metadata({"/Title": title})
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    return writer


def write_pdf(folder: Path, name: str, writer: PdfWriter) -> Path:
    file = folder / name
    with file.open("wb") as out:
        writer.write(out)
    return file


def test_markdown_with_front_matter(tmp_path: Path) -> None:
    document = load(write(tmp_path, "guide/refunds.v2.md", FRONT), tmp_path)
    assert (document.id, document.title) == ("guide/refunds.v2", "Refund policy")
    assert document.text == "# Heading\n\nBody.\n"
    assert document.tags == ["prices:7", "policies:1"]
    metadata = {"year": 2024, "ratio": 0.5, "beta": False, "audience": ["new", "old"]}
    assert document.metadata == metadata
    assert type(document.metadata["year"]) is int
    json.dumps(document.metadata)


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("# The *first*  `one` #\n\nx\n\n# Second", "The first one"),
        ("Text first\n\nTitle\n=====\n", "Title"),
        ("```\n# not this\n```\n\n## But this", "But this"),
        ("no heading at all", "file"),
        ("---\nnot front matter\n", "file"),
        ("---\ntags: a\n---\nbody", "file"),
    ],
)
def test_the_title_is_the_first_heading_or_the_files_name(tmp_path: Path, content: str, title: str) -> None:
    assert load(write(tmp_path, "file.md", content)).title == title


def test_ids_are_paths_below_the_root(tmp_path: Path) -> None:
    file = write(tmp_path, "a b/ü.x/page.HTML", "<p>x</p>")
    assert load(file, tmp_path).id == "a b/ü.x/page"
    assert load(file, tmp_path / "a b").id == "ü.x/page"
    assert load(file).id == "page"
    assert load(file, tmp_path / "elsewhere").id == "page"
    assert load(Path(f"{tmp_path}/a b/../a b/ü.x/page.HTML"), tmp_path).id == "a b/ü.x/page"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_in_its_encodings(tmp_path: Path, encoding: str) -> None:
    document = load(write(tmp_path, "t.txt", "Größe # 5\r\n返品".encode(encoding)))
    assert document.text == "Größe # 5\r\n返品"
    assert (document.media_type, document.title) == ("text/plain", "t")


def test_html_becomes_readable_markdown(tmp_path: Path) -> None:
    document = load(write(tmp_path, "p.html", PAGE))
    assert document.title == "Our prices"
    assert document.media_type == "text/markdown"
    assert document.text == (
        "# Prices 2024\n\nIt costs 5 euro.\nEach month.\n\nloose text\n\n## Plans\n\n"
        "- Small\n- Large\n  very\n  - inner\n\n"
        "Rates\n\n| plan | price |\n| --- | --- |\n| S | 5\\|6 |\n| L |  |\n\n"
        "````\nif a < b:\n    ```x\n````\n\nonly layout\n\nEnde & Größe"
    )


def test_html_says_its_own_encoding(tmp_path: Path) -> None:
    page = '<html><head><meta charset="iso-8859-1"></head><body><h1>Größe</h1><p>schön</p></body></html>'
    document = load(write(tmp_path, "p.htm", page.encode("iso-8859-1")))
    assert (document.title, document.text) == ("Größe", "# Größe\n\nschön")


@pytest.mark.parametrize(
    "html", ["", "just text", "https://example.com/page", "a < b", "<", "<!-- -->", "<p>", "</p></div>"]
)
def test_html_that_is_hardly_html_raises_nothing(html: str) -> None:
    title, text = html_to_markdown(html)
    assert title == ""
    assert "<p" not in text


@pytest.mark.parametrize("tag", ["div", "b", "ul><li", "table><tr><td", "blockquote"])
def test_html_of_any_depth_is_read(tag: str) -> None:
    text = html_to_markdown("<" + f"{tag}><".join([""] * 5000) + "p>deep</p>")[1]
    assert text.strip(" -") == "deep"


@pytest.mark.parametrize(
    "evil", ["<!--", "<![CDATA[", "<p a=", '<p a="', "<p '", "<a/", "</", "<", "<h1>", "<pre>a", "<ul><li>a", "<td>a"]
)
def test_no_page_takes_for_ever(evil: str) -> None:
    """Some of these take minutes at this size in the parser alone; a word after them is still there."""
    title, text = html_to_markdown(f"<p>first</p>{evil * 12_000}<p>last</p>")
    assert title == ""
    assert "first" in text
    assert "last" in text
    html_to_markdown("<p" + " " * 100_000 + ">x")


def test_pdf_pages_are_paragraphs(tmp_path: Path) -> None:
    document = load(write_pdf(tmp_path, "manual.pdf", pdf("The fee is five.", "Page two.", title="Manual")))
    assert document.text == "The fee is five.\n\nPage two."
    assert (document.id, document.title, document.media_type) == ("manual", "Manual", "text/plain")
    assert load(write_pdf(tmp_path, "untitled.pdf", pdf("x"))).title == "untitled"


def test_what_cannot_be_read_is_one_sentence_that_names_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "folder.md"
    folder.mkdir()
    wrong = {
        "is not a Markdown": write(tmp_path, "a.docx", b"PK"),
        "has no suffix|is not a Markdown": write(tmp_path, "README", b"x"),
        "holds no text": write(tmp_path, "empty.md", " \n"),
        "No such file": tmp_path / "absent.md",
        "is not a file": folder,
        "is not UTF-8 text": write(tmp_path, "latin.txt", "schön".encode("latin-1")),
        "is not text": write(tmp_path, "binary.txt", b"a\0b"),
        "is not a PDF": write(tmp_path, "no.pdf", b"%PDF-1.4 nonsense"),
        "only pictures": write_pdf(tmp_path, "scan.pdf", pdf("")),
        "has no pages": write_pdf(tmp_path, "none.pdf", PdfWriter()),
        "is encrypted": write_pdf(tmp_path, "locked.pdf", pdf("secret", password="x")),
    }
    for reason, file in wrong.items():
        with pytest.raises(LoadError, match=reason) as raised:
            load(file)
        assert str(file) in str(raised.value)
        assert "\n" not in str(raised.value)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "huge.txt"
    with file.open("wb") as out:
        out.truncate(65 * 1024 * 1024)
    with pytest.raises(LoadError, match="larger than 64 MB"):
        load(file)
