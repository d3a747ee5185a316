"""OpenAI's Responses API through the official client, against a scripted orchestrator."""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
import pytest_asyncio
from scripted_edge import USAGE, Edge, edge, fails, say

from hasten.bus import Bus
from hasten.messages.chat import ChatRequest, Chunk, Done, Note, Usage
from hasten.service import Call

PATH = "/v1/responses"
WEATHER: dict[str, Any] = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": True}
CALLS: list[list[dict[str, Any]]] = [
    [{"index": 0, "id": "c1", "type": "function", "function": {"name": "weather", "arguments": ""}}],
    [
        {"index": 0, "function": {"arguments": '{"city":'}},
        {"index": 1, "id": "c2", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}},
    ],
    [{"index": 0, "function": {"arguments": '"Oslo"}'}}],
]


@pytest_asyncio.fixture
async def made(bus: Bus) -> AsyncIterator[Edge]:
    async with edge(bus) as made:
        yield made


@contextlib.asynccontextmanager
async def responses(made: Edge) -> AsyncIterator[Any]:
    """The official client's part for this API; what it gives back has too many types to name."""
    async with made.openai() as client:
        yield client.responses


async def calls(_: ChatRequest, call: Call) -> None:
    """A word, then two calls whose fragments take turns."""
    await call.send(Note(kind="route", data={"model": "small"}))
    await call.send(Chunk(seq=0, text="Let me see."))
    for seq, deltas in enumerate(CALLS, 1):
        await call.send(Chunk(seq=seq, tool_calls=deltas))
    await call.send(Done(finish_reason="tool_calls", usage=USAGE, model="small", chunks=4))


async def test_a_whole_response_has_its_text_its_usage_and_what_it_was_asked(made: Edge) -> None:
    async with responses(made) as api:
        response = await api.create(
            model="auto", instructions="Be brief.", input="Name two rivers", max_output_tokens=9, metadata={"k": "v"}
        )
    assert (response.output_text, response.status, response.model) == ("Glomma and Drava", "completed", "small")
    assert (response.instructions, response.max_output_tokens, response.metadata) == ("Be brief.", 9, {"k": "v"})
    assert (response.error, response.incomplete_details, response.previous_response_id) == (None, None, None)
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens) == (40, 2, 42)
    assert response.usage.input_tokens_details.cached_tokens == 8
    request, _ = made.heard[0]
    assert [(turn.role, turn.text) for turn in request.messages] == [
        ("system", "Be brief."),
        ("user", "Name two rivers"),
    ]
    assert (request.max_tokens, request.extra) == (9, {"metadata": {"k": "v"}})


async def test_a_streamed_response_says_everything_in_order(made: Edge) -> None:
    async with responses(made) as api:
        stream = await api.create(model="auto", input="Name two rivers", stream=True)
        events = [event async for event in stream]
    kinds = [event.type for event in events]
    deltas = kinds.count("response.output_text.delta")
    assert deltas >= 1
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * deltas,
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == "Glomma and Drava"
    last = events[-1]
    assert last.type == "response.completed"
    assert (last.response.output_text, last.response.model) == (text, "small")


async def test_events_are_named_and_no_mark_follows_the_last(made: Edge) -> None:
    text = (await made.http.post(PATH, json={"input": "hi", "stream": True})).text
    for frame in text.removesuffix("\n\n").split("\n\n"):
        name, data = frame.split("\n")
        assert name.removeprefix("event: ") == json.loads(data.removeprefix("data: "))["type"]
    assert "[DONE]" not in text


async def test_calls_are_items_of_their_own_however_their_fragments_come(made: Edge) -> None:
    made.script = calls
    async with responses(made) as api:
        whole = await api.create(model="auto", input="Weather?", tools=[WEATHER], tool_choice="required")
        async with api.stream(model="auto", input="Weather?", tools=[WEATHER]) as stream:
            events = [event async for event in stream]
            streamed = await stream.get_final_response()
    for response in (whole, streamed):
        assert [item.type for item in response.output] == ["message", "function_call", "function_call"]
        found = [item for item in response.output if item.type == "function_call"]
        assert [(item.call_id, item.name, json.loads(item.arguments)["city"]) for item in found] == [
            ("c1", "weather", "Oslo"),
            ("c2", "weather", "Paris"),
        ]
        assert len({item.id for item in response.output}) == 3
    kinds = [event.type for event in events]
    assert kinds.count("response.function_call_arguments.done") == 2
    assert kinds.index("response.output_text.done") < kinds.index("response.function_call_arguments.delta")
    request, _ = made.heard[0]
    assert request.tools == [
        {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}, "strict": True}}
    ]
    assert request.tool_choice == "required"


async def test_what_was_answered_and_what_came_of_the_calls_goes_back_as_turns(made: Edge) -> None:
    made.script = calls
    async with responses(made) as api:
        first = await api.create(model="auto", input="Weather?", tools=[WEATHER])
        outputs: list[Any] = [
            {"type": "function_call_output", "call_id": "c1", "output": "cold"},
            {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "warm"}]},
        ]
        said: list[Any] = [item.model_dump() for item in first.output]
        question: list[Any] = [{"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]}]
        await api.create(model="auto", input=[*question, *said, *outputs], tools=[WEATHER])
    turns = made.heard[1][0].messages
    assert [(turn.role, turn.text) for turn in turns] == [
        ("user", "Weather?"),
        ("assistant", "Let me see."),
        ("tool", "cold"),
        ("tool", "warm"),
    ]
    assert [call["id"] for call in turns[1].tool_calls or []] == ["c1", "c2"]
    assert [turn.tool_call_id for turn in turns[2:]] == ["c1", "c2"]


async def test_formats_effort_and_log_probabilities_have_their_places(made: Edge) -> None:
    entry = {"token": "4", "logprob": -0.5, "bytes": [52], "top_logprobs": []}

    async def tells(_: ChatRequest, call: Call) -> None:
        await call.send(Chunk(seq=0, reasoning="2 and 2"))
        await call.send(Chunk(seq=1, text="4", logprobs=[entry]))
        usage = Usage(prompt_tokens=3, completion_tokens=4, completion_tokens_details={"reasoning_tokens": 3})
        await call.send(Done(finish_reason="stop", usage=usage, model="small", chunks=2))

    made.script = tells
    schema = {"type": "object", "properties": {"n": {"type": "number"}}}
    async with responses(made) as api:
        response = await api.create(
            model="auto",
            input="2 + 2?",
            text={"format": {"type": "json_schema", "name": "sum", "schema": schema}, "verbosity": "low"},
            reasoning={"effort": "low"},
            include=["message.output_text.logprobs"],
            top_logprobs=2,
        )
    request, _ = made.heard[0]
    assert request.response_format == {"type": "json_schema", "json_schema": {"name": "sum", "schema": schema}}
    assert (request.extra, request.logprobs) == ({"verbosity": "low", "reasoning_effort": "low"}, True)
    assert request.top_logprobs == 2
    thought, said = response.output
    assert thought.type == "reasoning"
    assert thought.content is not None
    assert thought.content[0].text == "2 and 2"
    assert said.type == "message"
    assert said.content[0].type == "output_text"
    assert [one.token for one in said.content[0].logprobs or []] == ["4"]
    assert response.usage is not None
    assert response.usage.output_tokens_details.reasoning_tokens == 3


async def test_an_answer_that_was_cut_short_is_incomplete(made: Edge) -> None:
    async def cut(_: ChatRequest, call: Call) -> None:
        await say(call, "Glom", finish_reason="length")

    made.script = cut
    async with responses(made) as api:
        whole = await api.create(model="auto", input="x")
        stream = await api.create(model="auto", input="x", stream=True)
        last = [event async for event in stream][-1]
    assert last.type == "response.incomplete"
    for response in (whole, last.response):
        assert (response.status, response.output_text) == ("incomplete", "Glom")
        assert response.incomplete_details is not None
        assert response.incomplete_details.reason == "max_output_tokens"
        assert response.output[0].type == "message"
        assert response.output[0].status == "incomplete"


async def test_a_failure_before_the_first_word_is_the_clients_own_error(made: Edge) -> None:
    made.script = fails("unsupported", param="response_format")
    async with responses(made) as api:
        for stream in (False, True):
            with pytest.raises(openai.BadRequestError) as raised:
                await api.create(model="auto", input="x", stream=stream)
            assert raised.value.param == "text.format"


async def test_a_failure_after_words_is_a_failed_response(made: Edge) -> None:
    made.script = fails("upstream", after=2)
    async with responses(made) as api:
        stream = await api.create(model="auto", input="x", stream=True)
        last = [event async for event in stream][-1]
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert (last.response.status, last.response.error.code) == ("failed", "server_error")
    assert last.response.output_text == "word0 word1 "


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ({"conversation": "conv_1"}, "conversation"),
    ({"background": True}, "background"),
    ({"store": True}, "store"),
    ({"prompt": {"id": "p"}}, "prompt"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"tools": [{"type": "custom", "name": "x"}]}, "tools[0].type"),
    ({"tools": [WEATHER], "tool_choice": {"type": "web_search"}}, "tool_choice"),
    ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0].type"),
    ({"input": [{"type": "computer_call"}]}, "input[0].type"),
    ({"input": []}, "input"),
    ({"input": None}, "input"),
    ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
    ({"input": [{"role": "user", "content": []}]}, "input[0].content"),
    ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id"),
    ({"max_output_tokens": 0}, "max_output_tokens"),
    ({"text": {"format": {"type": "json_schema"}}}, "text.format.schema"),
    ({"text": "x"}, "text"),
    ({"include": "x"}, "include"),
    ({"n": 2}, "n"),
]


async def test_what_is_not_served_or_malformed_is_refused_by_its_name(made: Edge) -> None:
    for body, param in REFUSED:
        for stream in (False, True):
            response = await made.http.post(PATH, json={"input": "hi", "stream": stream, **body})
            error = response.json()["error"]
            assert (response.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert made.heard == []


async def test_what_asks_for_nothing_more_is_taken(made: Edge) -> None:
    nothing: dict[str, Any] = {
        "store": False,
        "background": False,
        "previous_response_id": None,
        "truncation": "disabled",
        "tools": [],
    }
    body = {"input": "hi", "include": ["reasoning.encrypted_content"], "service_tier": "auto", **nothing}
    assert (await made.http.post(PATH, json=body)).status_code == 200
    assert (await made.http.get(f"{PATH}/resp_1")).status_code == 404
