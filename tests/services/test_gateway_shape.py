"""The chunks of a stream, whichever way its answer came about: strict clients put them together by their shape."""

import json
from typing import Any

import pytest
from scripted_edge import HELLO, USAGE, edge

from hasten.bus import Bus
from hasten.messages.chat import ChatRequest, Chunk, Done, Note
from hasten.service import Call

ROUTE = Note(kind="route", data={"model": "small"})
WAYS: dict[str, list[Any]] = {
    "miss": [ROUTE, Chunk(seq=0, text="Glomma"), Chunk(seq=1, text=" and Drava")],
    "hit": [Note(kind="cache", data={"hit": "exact", "model": "small"}), Chunk(seq=0, text="Glomma and Drava")],
    "hedged": [
        ROUTE,
        Note(kind="hedge", data={"after_ms": 9}),
        Chunk(seq=0, text="Glomma"),
        Chunk(seq=1, text=" and Drava"),
    ],
    "cascade": [
        ROUTE,
        Note(kind="cascade", data={}),
        Note(kind="route", data={"model": "big"}),
        Chunk(seq=0, text="Glomma and Drava"),
    ],
    "not told": [Chunk(seq=0, text="Glomma"), ROUTE, Chunk(seq=1, text=" and Drava"), Note(kind="sources", data={})],
    "reasoning": [ROUTE, Chunk(seq=0, reasoning="hm"), Chunk(seq=1, text="Glomma and Drava")],
    "empty": [ROUTE],
}


@pytest.mark.parametrize("way", WAYS)
async def test_every_chunk_has_one_identity_and_only_the_usage_has_no_choices(bus: Bus, way: str) -> None:
    async def script(_: ChatRequest, call: Call) -> None:
        for event in WAYS[way]:
            await call.send(event)
        chunks = sum(isinstance(event, Chunk) for event in WAYS[way])
        await call.send(Done(finish_reason="stop", usage=USAGE, model="other", chunks=chunks))

    async with edge(bus) as made:
        made.script = script
        response = await made.post({**HELLO, "stream": True, "stream_options": {"include_usage": True}})
    *data, end = [line.removeprefix("data: ") for line in response.text.splitlines() if line]
    assert end == "[DONE]"
    *chunks, usage = map(json.loads, data)
    identities = {(chunk["id"], chunk["created"], chunk["model"], chunk["object"]) for chunk in (*chunks, usage)}
    assert len(identities) == 1
    assert all(identities.pop())
    assert (usage["choices"], usage["usage"]["total_tokens"]) == ([], 42)
    assert all(len(chunk["choices"]) == 1 and chunk["usage"] is None for chunk in chunks)
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + ["stop"]
    roles = [chunk["choices"][0]["delta"].get("role") for chunk in chunks]
    assert roles == ["assistant"] + [None] * (len(chunks) - 1)
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
    assert text == ("" if way == "empty" else "Glomma and Drava")
