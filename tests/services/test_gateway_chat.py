"""Chat over HTTP through a real server and a real NATS, against a scripted orchestrator."""

import time
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
import pytest_asyncio
from nats.aio.msg import Msg
from scripted_edge import HELLO, STREAM, USAGE, Edge, chatters, edge, events, fails, say

from hasten.bus import Bus
from hasten.messages.chat import ChatRequest, Chunk, Done, Note
from hasten.service import Call


@pytest_asyncio.fixture
async def made(bus: Bus) -> AsyncIterator[Edge]:
    async with edge(bus) as made:
        yield made


async def hit(_: ChatRequest, call: Call) -> None:
    """The answer of a semantic hit."""
    about = {"hit": "semantic", "entry_id": "e7", "similarity": 0.95, "age_s": 61.5, "model": "small"}
    await call.send(Note(kind="cache", data=about))
    await call.send(Chunk(seq=0, text="Glomma and Drava"))
    await call.send(Done(finish_reason="stop", usage=USAGE, model="small", cache="semantic", chunks=1))


async def test_the_official_client_streams(made: Edge) -> None:
    async with made.openai() as client:
        stream = await client.chat.completions.create(
            model="auto", messages=[{"role": "user", "content": "Name two rivers"}], stream=True
        )
        chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Glomma and Drava"
    assert [chunk.choices[0].delta.role for chunk in chunks if chunk.choices[0].delta.role] == ["assistant"]
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason] == ["stop"]
    assert len({(chunk.id, chunk.created, chunk.model) for chunk in chunks}) == 1
    assert chunks[0].model == "small"


async def test_the_official_client_gets_usage_when_it_asks_for_it(made: Edge) -> None:
    async with made.openai() as client:
        stream = await client.chat.completions.create(
            model="auto",
            messages=[{"role": "user", "content": "Name two rivers"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        *chunks, last = [chunk async for chunk in stream]
    assert all(chunk.choices for chunk in chunks)
    assert last.choices == []
    assert last.usage is not None
    assert (last.usage.prompt_tokens, last.usage.completion_tokens, last.usage.total_tokens) == (40, 2, 42)
    assert last.usage.prompt_tokens_details is not None
    assert last.usage.prompt_tokens_details.cached_tokens == 8


async def test_the_official_client_gets_a_whole_answer(made: Edge) -> None:
    async with made.openai() as client:
        answer = await client.chat.completions.create(model="auto", messages=[{"role": "user", "content": "x"}])
    assert answer.choices[0].message.content == "Glomma and Drava"
    assert (answer.choices[0].finish_reason, answer.model, answer.object) == ("stop", "small", "chat.completion")
    assert answer.usage is not None
    assert answer.usage.total_tokens == 42


async def test_a_hit_has_the_right_format_on_both_paths_and_says_what_it_is(made: Edge) -> None:
    made.script = hit
    streamed, whole = await made.post(STREAM), await made.post(HELLO)
    for response in (streamed, whole):
        found = {name: response.headers[name] for name in response.headers if name.startswith("x-hasten-")}
        assert found.pop("x-hasten-request-id")
        assert found == {
            "x-hasten-cache": "semantic",
            "x-hasten-model": "small",
            "x-hasten-similarity": "0.9500",
            "x-hasten-entry": "e7",
        }
        assert response.headers["age"] == "61"
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert (streamed.headers["x-accel-buffering"], streamed.headers["cache-control"]) == ("no", "no-cache")
    *chunks, end = events(streamed.text)
    assert (chunks[-1]["choices"][0]["finish_reason"], end) == ("stop", "[DONE]")
    assert whole.json()["choices"][0]["message"]["content"] == "Glomma and Drava"


async def test_options_arrive_at_the_orchestrator_as_they_were_given(made: Edge) -> None:
    body = {
        **STREAM,
        "max_tokens": 40,
        "max_completion_tokens": 2,
        "knowledge": ["help"],
        "filter": {"lang": "en"},
        "store": False,
        "metadata": {"k": "v"},
        "messages": [{"role": "user", "content": "hi", "ui": {"pinned": True}}],
    }
    response = await made.post(body, **{"x-hasten-cache": "refresh", "x-hasten-deadline-ms": "5000"})
    request, call = made.heard[0]
    assert (request.max_tokens, request.knowledge, request.filter) == (2, ["help"], {"lang": "en"})
    assert request.extra == {"store": False, "metadata": {"k": "v"}}
    assert request.messages[0].extra == {"ui": {"pinned": True}}
    assert request.cache.mode == "refresh"
    assert (call.tenant, call.request_id) == ("acme", response.headers["x-hasten-request-id"])
    assert 0 < call.deadline_ms - time.time() * 1000 <= 5000


async def test_the_callers_request_id_is_used_if_it_can_be(made: Edge) -> None:
    good = await made.post(HELLO, **{"x-request-id": "order-7"})
    bad = await made.post(HELLO, **{"x-request-id": "a.b.>"})
    assert good.headers["x-hasten-request-id"] == "order-7"
    assert [call.request_id for _, call in made.heard] == ["order-7", bad.headers["x-hasten-request-id"]]
    assert bad.headers["x-hasten-request-id"] != "a.b.>"


async def test_an_answer_cut_before_its_first_word_is_an_answer_on_both_paths(made: Edge) -> None:
    async def nothing(_: ChatRequest, call: Call) -> None:
        await say(call, finish_reason="length")

    made.script = nothing
    whole, streamed = await made.post(HELLO), await made.post(STREAM)
    choice = whole.json()["choices"][0]
    assert (whole.status_code, choice["message"]["content"], choice["finish_reason"]) == (200, "", "length")
    assert streamed.status_code == 200
    assert events(streamed.text)[-2]["choices"][0]["finish_reason"] == "length"


async def test_a_failure_before_the_first_token_has_its_own_status(made: Edge) -> None:
    expected = {
        "bad_request": (400, None),
        "context_overflow": (400, None),
        "model_not_found": (404, None),
        "overloaded": (429, 7000),
        "unavailable": (503, 7000),
        "upstream": (502, 7000),
        "deadline": (504, None),
        "internal": (500, None),
    }
    for code, (status, wait_ms) in expected.items():
        made.script = fails(code, param="model", retry_after_ms=wait_ms)
        for response in (await made.post(HELLO), await made.post(STREAM)):
            error = response.json()["error"]
            assert (response.status_code, error["code"], error["param"]) == (status, code, "model")
            assert error["message"] == f"it is {code}"
            assert response.headers.get("retry-after") == ("7" if wait_ms else None)
            assert error.get("retry_after_ms") == wait_ms
            assert response.headers["x-hasten-request-id"]


async def test_the_official_client_raises_its_own_errors(made: Edge) -> None:
    async with made.openai() as client:
        for code, kind in (
            ("bad_request", openai.BadRequestError),
            ("model_not_found", openai.NotFoundError),
            ("overloaded", openai.RateLimitError),
            ("unavailable", openai.InternalServerError),
        ):
            made.script = fails(code)
            with pytest.raises(kind):
                await client.chat.completions.create(model="x", messages=[{"role": "user", "content": "x"}])


async def test_a_failure_after_tokens_is_an_error_frame_and_an_end(made: Edge) -> None:
    for code in ("incomplete", "upstream", "internal"):
        made.script = fails(code, after=2)
        response = await made.post({**STREAM, "stream_options": {"include_usage": True}})
        assert response.status_code == 200, response.text
        first, *_, error, end = events(response.text)
        assert (response.status_code, end) == (200, "[DONE]")
        assert first["choices"][0]["delta"]["content"].startswith("word0")
        assert error["error"]["code"] == code
        assert response.text.count('"error"') == 1


async def test_the_official_client_sees_a_failure_after_tokens(made: Edge) -> None:
    made.script = fails("incomplete", after=2)
    text = ""
    async with made.openai() as client:
        stream = await client.chat.completions.create(
            model="auto", messages=[{"role": "user", "content": "x"}], stream=True
        )
        chunks = aiter(stream)
        while text != "word0 word1 ":
            text += (await anext(chunks)).choices[0].delta.content or ""
        with pytest.raises(openai.APIError, match="it is incomplete"):
            await anext(chunks)


async def test_a_failure_after_tokens_of_a_whole_answer_has_a_status(made: Edge) -> None:
    made.script = fails("incomplete", after=2)
    assert (await made.post(HELLO)).status_code == 502


async def test_a_full_orchestrator_is_a_status_and_not_an_empty_stream(bus: Bus) -> None:
    async with edge(bus, limit=1) as made:
        made.script = chatters
        async with made.http.stream("POST", "/v1/chat/completions", json=STREAM) as first:
            lines = first.aiter_lines()
            await anext(lines)
            second = await made.post(STREAM)
        assert second.status_code == 429
        assert int(second.headers["retry-after"]) >= 1


async def test_a_fault_of_the_caller_never_reaches_nats(made: Edge, bus: Bus) -> None:
    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    faults: list[tuple[dict[str, Any], str | None]] = [
        ({"metadata": deep}, None),
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"temperature": 3}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"model": 7}, "model"),
    ]
    seen: list[str] = []

    async def note(msg: Msg) -> None:
        seen.append(msg.subject)

    await bus.subscribe("hasten.>", note)
    await bus.flush()
    for change, param in faults:
        for body in (HELLO, STREAM):
            response = await made.post({**body, **change})
            error = response.json()["error"]
            assert (response.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)
    await bus.flush()
    assert seen == []
    await made.post(HELLO)
    await bus.flush()
    assert seen, "the listener would have heard a request"


async def test_what_the_orchestrator_refuses_names_the_field(made: Edge) -> None:
    made.script = fails("unsupported", param="logprobs")
    response = await made.post({**STREAM, "logprobs": True})
    assert made.heard[0][0].logprobs
    assert (response.status_code, response.json()["error"]["param"]) == (400, "logprobs")


async def test_tool_calls_reach_the_official_client_on_both_paths(made: Edge) -> None:
    deltas: list[list[dict[str, Any]]] = [
        [
            {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}},
            {"index": 0, "function": {"arguments": '{"a":'}},
        ],
        [{"index": 0, "function": {"arguments": "2}"}}],
    ]

    async def calls(_: ChatRequest, call: Call) -> None:
        for seq, delta in enumerate(deltas):
            await call.send(Chunk(seq=seq, tool_calls=delta))
        await call.send(Done(finish_reason="tool_calls", model="small", chunks=len(deltas)))

    made.script = calls
    arguments = ""
    async with made.openai() as client:
        stream = await client.chat.completions.create(
            model="auto", messages=[{"role": "user", "content": "x"}], stream=True
        )
        async for chunk in stream:
            for part in chunk.choices[0].delta.tool_calls or []:
                assert part.index == 0
                arguments += (part.function and part.function.arguments) or ""
    whole = (await made.post(HELLO)).json()["choices"][0]
    assert arguments == '{"a":2}'
    assert whole["message"]["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":2}'}}
    ]
    assert (whole["message"]["content"], whole["finish_reason"]) == (None, "tool_calls")
