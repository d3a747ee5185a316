"""Chunks: numbered, ordered, joined for a moment, and cut without losing or splitting a character."""

import asyncio
import contextlib
import itertools
import time
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.chunks import HELD_LIMIT, LONGEST_PIECE, ChunkWriter, merge_tool_calls, split_text
from hasten.messages.chat import Chunk


class Reader:
    """Keeps the chunks it is sent; closed, it takes none."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.open = asyncio.Event()
        self.open.set()

    async def send(self, chunk: Chunk) -> None:
        await self.open.wait()
        self.chunks.append(chunk)


async def test_the_first_chunk_goes_out_at_once_and_later_ones_are_joined() -> None:
    reader = Reader()
    writer = ChunkWriter(reader.send, join_s=60)
    await writer.write("a")
    assert [chunk.text for chunk in reader.chunks] == ["a"]
    for text in "bcd":
        await writer.write(text)
    assert len(reader.chunks) == 1
    await writer.flush()
    assert [(chunk.seq, chunk.text) for chunk in reader.chunks] == [(0, "a"), (1, "bcd")]
    assert writer.count == 2


async def test_what_was_held_back_goes_out_by_itself_and_what_comes_long_after_it_at_once() -> None:
    reader = Reader()
    writer = ChunkWriter(reader.send, join_s=0.05)
    await writer.write("a")
    await writer.write("b")
    while len(reader.chunks) < 2:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    await writer.write("c")
    assert [(chunk.seq, chunk.text) for chunk in reader.chunks] == [(0, "a"), (1, "b"), (2, "c")]
    assert writer.count == 3


async def test_kinds_keep_their_order_in_chunks_of_their_own() -> None:
    reader = Reader()
    writer = ChunkWriter(reader.send, join_s=60)
    call = {"index": 0, "function": {"arguments": "{"}}
    await writer.write(reasoning="let me")
    await writer.write(reasoning=" see")
    await writer.write("it ", reasoning=" ...")
    await writer.write("is")
    await writer.write(tool_calls=[call])
    await writer.write(tool_calls=[call])
    await writer.write("!")
    await writer.write()
    await writer.flush()
    assert [chunk.seq for chunk in reader.chunks] == list(range(len(reader.chunks)))
    assert [chunk.reasoning for chunk in reader.chunks] == ["let me", " see ...", "", "", ""]
    assert [chunk.text for chunk in reader.chunks] == ["", "", "it is", "", "!"]
    assert [chunk.tool_calls for chunk in reader.chunks] == [None, None, None, [call, call], None]


async def test_a_slow_reader_holds_the_writer_only_beyond_the_limit_and_loses_nothing() -> None:
    reader = Reader()
    reader.open.clear()
    writer = ChunkWriter(reader.send, join_s=0)
    first = asyncio.create_task(writer.write("x"))
    await asyncio.sleep(0)
    for _ in range(9):
        await asyncio.wait_for(writer.write("y" * (HELD_LIMIT // 10)), 5)
    held = asyncio.create_task(writer.write("z" * HELD_LIMIT))
    await asyncio.sleep(0.02)
    assert not held.done()
    reader.open.set()
    await asyncio.gather(first, held)
    await writer.flush()
    assert "".join(chunk.text for chunk in reader.chunks) == "x" + "y" * (HELD_LIMIT // 10) * 9 + "z" * HELD_LIMIT
    assert [chunk.seq for chunk in reader.chunks] == list(range(writer.count))


async def test_an_error_of_the_background_send_is_raised_to_the_writer() -> None:
    async def send(chunk: Chunk) -> None:
        if chunk.seq:
            raise ConnectionError

    writer = ChunkWriter(send, join_s=0.01)
    await writer.write("a")
    with contextlib.suppress(ConnectionError):  # raised here already where the machine stood still
        await writer.write("b")
    await asyncio.sleep(0.05)

    async def go_on() -> None:
        await writer.write("c")
        await writer.flush()

    with pytest.raises(ConnectionError):
        await go_on()


async def test_nothing_is_sent_after_a_discard() -> None:
    reader = Reader()
    writer = ChunkWriter(reader.send, join_s=60)
    await writer.write("a")
    await writer.write("b")
    writer.discard()
    await writer.flush()
    assert [chunk.text for chunk in reader.chunks] == ["a"]


async def test_writing_is_linear_in_the_number_of_deltas() -> None:
    async def seconds(deltas: int) -> float:
        writer = ChunkWriter(Reader().send, join_s=60)
        began = time.thread_time()
        for _ in range(deltas):
            await writer.write("token ")
        await writer.flush()
        return time.thread_time() - began

    few, many = min([await seconds(20_000) for _ in range(3)]), min([await seconds(200_000) for _ in range(3)])
    assert many < 40 * few


CACHED = "one two  three\n\n```py\nx=1\n```\nна́йти \U0001f469\u200d\U0001f469\u200d\U0001f467"


def test_a_cached_answer_is_replayed_byte_for_byte() -> None:
    pieces = split_text(CACHED)
    assert "".join(pieces) == CACHED
    assert pieces[:3] == ["one", " two", "  three"]
    assert "\nна́йти" in pieces
    assert pieces[-1] == " \U0001f469\u200d\U0001f469\u200d\U0001f467"


@given(st.text())
def test_pieces_join_to_the_text(text: str) -> None:
    assert "".join(split_text(text)) == text
    assert all(split_text(text))


@given(
    st.text(
        alphabet="e\u0301\u200d\U0001f469\U0001f3fd\U0001f1f3\U0001f1f4한\u1161\ufe0f",
        min_size=LONGEST_PIECE,
        max_size=400,
    )
)
def test_long_runs_are_not_cut_inside_a_visible_character(text: str) -> None:
    pieces = split_text(text)
    assert "".join(pieces) == text
    for before, after in itertools.pairwise(pieces):
        assert unicodedata.category(after[0]) not in ("Mn", "Mc", "Me")
        assert before[-1] != "\u200d"
        assert after[0] not in "\u200d\U0001f3fd\u1161"
        assert not (before[-1] in "\U0001f1f3\U0001f1f4" and after[0] in "\U0001f1f3\U0001f1f4")


def test_a_text_without_spaces_streams_as_well() -> None:
    text = "我" * 1000
    assert len(split_text(text)) > 10
    assert "".join(split_text(text)) == text


def _delta(index: int | None, arguments: str, identity: str | None = None, name: str | None = None) -> dict[str, Any]:
    delta: dict[str, Any] = {"function": {"arguments": arguments} | ({"name": name} if name else {})}
    return delta | ({} if index is None else {"index": index}) | ({"id": identity} if identity else {})


def test_a_call_whose_name_and_first_fragment_share_a_chunk_is_whole() -> None:
    deltas = [_delta(0, "", "c1", "f"), _delta(0, '{"a":'), _delta(0, "2}")]
    assert merge_tool_calls(deltas) == [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":2}'}}
    ]


def test_parallel_calls_are_kept_apart() -> None:
    deltas = [_delta(0, "{", "a", "f"), _delta(1, "[", "b", "g"), _delta(0, "}"), _delta(1, "]")]
    merged = [
        (call["id"], call["function"]["name"], call["function"]["arguments"]) for call in merge_tool_calls(deltas)
    ]
    assert merged == [("a", "f", "{}"), ("b", "g", "[]")]


def test_calls_that_all_have_index_0_are_told_apart_by_their_ids() -> None:
    deltas = [_delta(0, "{}", "a", "f"), _delta(0, "[", "b", "g"), _delta(0, "]", "b", "g")]
    merged = [
        (call["id"], call["function"]["name"], call["function"]["arguments"]) for call in merge_tool_calls(deltas)
    ]
    assert merged == [("a", "f", "{}"), ("b", "g", "[]")]


def test_calls_without_an_index_go_by_id_or_to_the_last() -> None:
    deltas = [_delta(None, "{", "a", "f"), _delta(None, "}"), _delta(None, "1", "b", "g")]
    merged = [(call["id"], call["function"]["arguments"]) for call in merge_tool_calls(deltas)]
    assert merged == [("a", "{}"), ("b", "1")]


def test_nothing_merges_to_nothing() -> None:
    assert merge_tool_calls([]) == []
