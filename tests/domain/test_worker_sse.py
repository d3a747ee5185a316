"""Server-sent events, whole and broken: every byte is read or complained about."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.worker.engines.sse import BadStream, EventParser, objects


def _events(*reads: bytes) -> list[tuple[bool, str]]:
    parser = EventParser()
    return [event for raw in reads for event in parser.feed(raw)] + list(parser.finish())


def test_an_event_ends_at_a_blank_line_whatever_ends_a_line() -> None:
    for end in (b"\n", b"\r\n", b"\r"):
        assert _events(b"data: a" + end * 2 + b"data: b" + end * 2) == [(False, "a"), (False, "b")]


def test_several_data_lines_are_one_text() -> None:
    assert _events(b'data: {"a":\ndata: 1}\n\n') == [(False, '{"a":\n1}')]
    assert objects('{"a":\n1}') == [{"a": 1}]


def test_comments_ids_and_retries_are_consumed() -> None:
    assert _events(b": still working\n\nid: 7\nretry: 10\n\ndata:x\n: more\n\n") == [(False, "x")]


def test_an_error_event_is_told_apart() -> None:
    assert _events(b"event: error\ndata: {}\n\ndata: {}\n\n") == [(True, "{}"), (False, "{}")]


def test_the_last_event_may_lack_its_blank_line() -> None:
    assert _events(b"data: [DONE]") == [(False, "[DONE]")]
    assert _events(b"data: [DONE]\r") == [(False, "[DONE]")]


def test_a_byte_order_mark_is_no_part_of_the_first_field() -> None:
    assert _events(b"\xef\xbb\xbfdata: x\n\n") == [(False, "x")]


@given(st.data())
def test_where_the_reads_are_cut_makes_no_difference(data: st.DataObject) -> None:
    said = ["Größe", "a\r\nb", "\U0001f469\u200d\U0001f467", "{}"]
    stream = "".join(f"data: {json.dumps({'t': text}, ensure_ascii=False)}\r\n\r\n: c\r\n" for text in said).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    reads = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert [json.loads(text)["t"] for _, text in _events(*reads)] == said


def test_what_is_not_utf8_or_never_ends_is_a_bad_stream() -> None:
    with pytest.raises(BadStream):
        _events(b"data: \xff\xfe\n\n")
    with pytest.raises(BadStream):
        _events(b"data: \xe2\x82")
    with pytest.raises(BadStream):
        _events(*[b"x" * 2**20] * 20)


def test_two_objects_in_one_event_are_both_there() -> None:
    data = '{"choices":[{"delta":{"content":"a}{b"}}]}{"choices":[{"delta":{"content":"c"}}]}'
    assert [one["choices"][0]["delta"]["content"] for one in objects(data)] == ["a}{b", "c"]
    assert objects(' {"a":1}\n\n{"b":2} ') == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize("data", ['{"a":1}{"b":', "nonsense", "[1]", '"text"', "1", '{"a":1} x', "[" * 100_000])
def test_anything_else_in_an_event_is_a_visible_error(data: str) -> None:
    with pytest.raises(BadStream) as caught:
        objects(data)
    assert data[:5] not in str(caught.value)
