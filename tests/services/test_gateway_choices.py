"""More than one answer to one request, which clients tell apart by an index, and log-probabilities."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio
from scripted_edge import HELLO, USAGE, Edge, chatters, edge, eventually, fails

from hasten.bus import Bus
from hasten.messages.chat import ChatRequest, Chunk, Done, Note
from hasten.messages.failure import Failed
from hasten.service import Call

BOTH = {**HELLO, "n": 2}
ENTRY = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": [{"token": "b", "logprob": -1.0, "bytes": [98]}]}


@pytest_asyncio.fixture
async def made(bus: Bus) -> AsyncIterator[Edge]:
    async with edge(bus) as made:
        yield made


def chunks_of(body: str) -> list[dict[str, Any]]:
    """The chunks of a stream that ended well."""
    *chunks, end = [line.removeprefix("data: ") for line in body.splitlines() if line.startswith("data: ")]
    assert end == "[DONE]"
    return [json.loads(one) for one in chunks]


def said(chunks: list[dict[str, Any]]) -> dict[int, tuple[str, list[str], list[str]]]:
    """By index: the text, the roles and the finish reasons."""
    found: dict[int, tuple[str, list[str], list[str]]] = {}
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        text, roles, reasons = found.get(choice["index"], ("", [], []))
        delta = choice["delta"]
        roles = roles + ([delta["role"]] if "role" in delta else [])
        reasons = reasons + ([choice["finish_reason"]] if choice["finish_reason"] else [])
        found[choice["index"]] = (text + (delta.get("content") or ""), roles, reasons)
    return found


def in_turn(made: Edge) -> Any:
    """A script whose first answer says a word and waits until the second one has ended."""
    second = asyncio.Event()

    async def script(request: ChatRequest, call: Call) -> None:
        await call.send(Note(kind="route", data={"model": "small"}))
        if len(made.heard) == 1:
            await call.send(Chunk(seq=0, text="red"))
            await second.wait()
            await call.send(Chunk(seq=1, text=" wine"))
            await call.send(Done(finish_reason="length", usage=USAGE, model="small", chunks=2))
        else:
            await call.send(Chunk(seq=0, text="blue"))
            await call.send(Done(finish_reason="stop", usage=USAGE, model="small", chunks=1))
            second.set()

    return script


async def test_each_answer_has_its_index_its_role_and_its_reason(made: Edge) -> None:
    made.script = in_turn(made)
    options = {"stream_options": {"include_usage": True}}
    *chunks, usage = chunks_of((await made.post({**BOTH, "stream": True, **options})).text)
    assert sorted(said(chunks).values()) == [
        ("blue", ["assistant"], ["stop"]),
        ("red wine", ["assistant"], ["length"]),
    ]
    assert sorted(said(chunks)) == [0, 1]
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in (*chunks, usage)}) == 1
    assert all(len(chunk["choices"]) == 1 for chunk in chunks)
    assert (usage["choices"], usage["usage"]["prompt_tokens"], usage["usage"]["completion_tokens"]) == ([], 40, 4)


async def test_a_whole_answer_has_as_many_choices_and_one_usage(made: Edge) -> None:
    made.script = in_turn(made)
    body = (await made.post(BOTH)).json()
    found = sorted((one["message"]["content"], one["finish_reason"]) for one in body["choices"])
    assert found == [("blue", "stop"), ("red wine", "length")]
    assert [one["index"] for one in body["choices"]] == [0, 1]
    assert (body["usage"]["prompt_tokens"], body["usage"]["total_tokens"]) == (40, 44)


async def test_none_of_several_answers_is_read_shared_or_stored_and_each_has_its_seed(made: Edge) -> None:
    assert (await made.post({**BOTH, "n": 3, "seed": 7, "cache": {"mode": "exact"}})).status_code == 200
    asked = [(request.cache.mode, request.n) for request, _ in made.heard]
    assert asked == [("off", 1)] * 3
    assert sorted(request.seed for request, _ in made.heard if request.seed is not None) == [7, 8, 9]
    assert len({call.request_id for _, call in made.heard}) == 3


async def test_more_answers_than_are_allowed_are_refused_by_name(made: Edge) -> None:
    for body in ({**BOTH, "n": 9}, {**BOTH, "n": 9, "stream": True}):
        response = await made.post(body)
        assert (response.status_code, response.json()["error"]["param"]) == (400, "n")
    assert made.heard == []


async def test_who_leaves_several_answers_stops_them_all(made: Edge) -> None:
    made.script = chatters
    async with made.http.stream("POST", "/v1/chat/completions", json={**BOTH, "stream": True}) as response:
        lines = response.aiter_lines()
        while len(made.heard) < 2:
            await anext(lines)
    await eventually(lambda: len(made.stopped) >= 2)
    assert len(made.stopped) == 2


async def test_an_answer_that_fails_ends_the_others(made: Edge) -> None:
    other = asyncio.Event()

    async def script(request: ChatRequest, call: Call) -> None:
        if request.seed == 2:
            other.set()
            await chatters(request, call)
        await other.wait()
        raise Failed("overloaded", "it is full")

    made.script = script
    response = await made.post({**BOTH, "seed": 1})
    assert (response.status_code, response.json()["error"]["code"]) == (429, "overloaded")
    await eventually(lambda: len(made.stopped) == 1)


async def test_a_failure_after_tokens_of_several_answers_is_one_error_and_one_end(made: Edge) -> None:
    made.script = fails("upstream", after=2)
    text = (await made.post({**BOTH, "stream": True})).text
    assert (text.count('"error"'), text.count("[DONE]")) == (1, 1)


async def tells(_: ChatRequest, call: Call) -> None:
    """Two chunks with the probabilities of their tokens, and one whose token has no text of its own."""
    for seq, text in enumerate(("a", "a", "")):
        await call.send(Chunk(seq=seq, text=text, logprobs=[ENTRY]))
    await call.send(Done(finish_reason="stop", usage=USAGE, model="small", chunks=3))


async def test_log_probabilities_are_beside_their_text_streamed_and_whole(made: Edge) -> None:
    made.script = tells
    asked: dict[str, Any] = {**HELLO, "logprobs": True, "top_logprobs": 1}
    async with made.openai() as client:
        whole = await client.chat.completions.create(**asked)
        stream = await client.chat.completions.create(**asked, stream=True)
        choices = [chunk.choices[0] async for chunk in stream]
    assert whole.choices[0].logprobs is not None
    told = [whole.choices[0].logprobs.content or []]
    told.append([one for choice in choices if choice.logprobs for one in choice.logprobs.content or []])
    for tokens in told:
        assert [(one.token, one.logprob, one.top_logprobs[0].token) for one in tokens] == [("a", -0.5, "b")] * 3
    assert "".join(choice.delta.content or "" for choice in choices) == "aa"


async def test_an_answer_without_log_probabilities_says_null(made: Edge) -> None:
    assert (await made.post(HELLO)).json()["choices"][0]["logprobs"] is None
