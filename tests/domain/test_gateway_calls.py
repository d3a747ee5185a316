"""Tool calls on the wire: however an engine cuts them, clients merge them to what was meant."""

import json
from typing import Any

import pytest

from hasten.gateway.completion import Completion
from hasten.gateway.head import Head
from hasten.gateway.sse import Frames
from hasten.messages.chat import Chunk, Done

DONE = Done(finish_reason="tool_calls", model="small")


def sent(*events: Chunk) -> list[list[dict[str, Any]]]:
    """The tool calls of each frame of these events."""
    made = Frames(Head("r1", "auto"), 0, include_usage=False)
    frames = b"".join(map(made.of, events)).decode().split("\n\n")[:-1]
    deltas = [json.loads(frame.removeprefix("data: "))["choices"][0]["delta"] for frame in frames]
    return [delta["tool_calls"] for delta in deltas]


def call(index: int | None, identity: str | None, arguments: str, name: str | None = None) -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    given = {"index": index, "id": identity}
    return {name: value for name, value in given.items() if value is not None} | {"function": function}


def test_two_fragments_of_one_call_in_one_chunk_leave_apart_and_merge_to_valid_json() -> None:
    deltas = [[call(0, "c1", "", "f"), call(0, None, '{"a":')], [call(0, None, "2}")]]
    events = [Chunk(seq=seq, tool_calls=calls) for seq, calls in enumerate(deltas)]
    frames = sent(*events)
    assert [len(calls) for calls in frames] == [1, 1, 1]
    completion = Completion()
    for event in (*events, DONE):
        completion.see(event)
    message = completion.body(DONE, Head("r1", "auto"), 0)["choices"][0]["message"]
    assert message["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"a":2}'}
    assert message["content"] is None


@pytest.mark.parametrize(
    ("deltas", "numbers"),
    [
        ([call(0, "c1", "", "f"), call(0, None, "{}"), call(1, "c2", "{}", "g")], [0, 0, 1]),
        ([call(None, "c1", "{}", "f"), call(None, "c2", "{}", "g")], [0, 1]),
        ([call(0, "c1", "{", "f"), call(0, "c1", "}"), call(0, "c2", "{}", "g")], [0, 0, 1]),
        ([call(0, "c1", "", "f"), call(1, "c2", "", "g"), call(0, None, "{}"), call(1, None, "{}")], [0, 1, 0, 1]),
    ],
)
def test_tool_calls_are_numbered_as_clients_merge_them(deltas: list[dict[str, Any]], numbers: list[int]) -> None:
    frames = sent(Chunk(seq=0, tool_calls=deltas))
    assert [calls[0]["index"] for calls in frames] == numbers


def test_what_an_engine_says_again_of_a_call_is_said_once() -> None:
    """The official client appends ids and names as it does arguments."""
    typed = {"type": "function"}
    deltas = [
        call(0, "c1", '{"a"', "f") | typed,
        call(0, "c1", ":", "f") | typed,
        {"index": 0, "id": "", "type": None, "function": {"name": "", "arguments": "2}"}},
        call(0, "c2", "{}", "f") | typed,
    ]
    frames = sent(Chunk(seq=0, tool_calls=deltas))
    assert frames == [
        [call(0, "c1", '{"a"', "f") | typed],
        [call(0, None, ":")],
        [call(0, None, "2}")],
        [call(1, "c2", "{}", "f") | typed],
    ]


def test_a_call_says_once_that_it_is_of_a_function() -> None:
    """Strict clients want the type with the first fragment; some engines never say it, or say null."""
    frames = sent(
        *(Chunk(seq=seq, tool_calls=[one]) for seq, one in enumerate([call(0, "c1", "{", "f"), call(0, None, "}")]))
    )
    assert [frame[0].get("type") for frame in frames] == ["function", None]
    assert sent(Chunk(seq=0, tool_calls=[{**call(0, "c1", "{}", "f"), "type": None}]))[0][0]["type"] == "function"
