"""A report is one file that needs nothing else, and shows what it was given."""

import re

from loadtest.html_report import Plot, Table, Words, canvas, drawn, page, shown


def a_plot(name: str) -> Plot:
    with canvas() as (figure, axes):
        axes.plot([1, 2, 3], [30.0, 10.0, 20.0], label="waiting")
        axes.set(xlabel="requests a second", ylabel="ms")
        axes.legend()
        return Plot(title=name, svg=drawn(figure, name))


def test_a_page_refers_to_nothing_outside_itself() -> None:
    text = page("Load", "Simulated models", [a_plot("one"), a_plot("two"), Words(title="Command", text="python -m x")])
    assert re.findall(r"https?:|//\w|@import|<script|<link|<img|src=", text) == []
    assert re.findall(r'href="(?!#)|url\((?!#)', text) == []


def test_each_reference_inside_a_picture_finds_its_own_target_once() -> None:
    text = page("Load", "", [a_plot("one"), a_plot("two")])
    ids = re.findall(r'\bid="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    referred = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text))
    assert {one or other for one, other in referred} == set(ids) != set()


def test_pictures_take_the_colour_of_the_page_and_keep_their_words() -> None:
    svg = a_plot("one").svg
    assert "currentColor" in svg
    assert "requests a second" in svg
    assert "#000000" not in svg
    assert "#010203" not in svg


def test_a_picture_is_the_same_each_time() -> None:
    assert a_plot("one") == a_plot("one")


def test_cells_and_titles_are_escaped() -> None:
    text = page("<b>", "a & b", [Table(title="<i>", columns=["<u>"], rows=[["<script>"]])], invalid="<late>")
    assert not re.search(r"<(b|i|u|script|late)>", text)
    assert "Not valid" in text


def test_numbers_have_the_figures_that_can_be_read() -> None:
    assert [shown(one) for one in (None, True, 1234, 1234.5, 12.34, 1.234, 0.01234, 0.0000412, 0.0)] == [
        "–",
        "yes",
        "1,234",
        "1,234",
        "12.3",
        "1.23",
        "0.012",
        "0.000041",
        "0",
    ]
