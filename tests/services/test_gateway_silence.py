"""Silence of an orchestrator as an HTTP caller meets it: held headers, comments meanwhile, and an end in any case."""

import asyncio

from nats.aio.msg import Msg
from scripted_edge import STREAM, Edge, Script, edge, events, fails, say

from hasten.bus import Bus
from hasten.messages.chat import CHAT, Accepted, ChatRequest, Chunk
from hasten.service import Call


async def test_silence_after_tokens_is_an_error_and_an_end(bus: Bus) -> None:
    """An orchestrator that was killed says nothing: neither an end nor a ping."""
    async with edge(bus, silence_s=0.5, resume_s=0.5) as made:

        async def dies(msg: Msg) -> None:
            for event in (Accepted(request_id="r"), Chunk(seq=0, text="Half an ans")):
                await bus.send(msg.reply, event)

        await made.orchestrator.drain()
        other = await bus.subscribe(CHAT.subject(tenant="acme"), dies)
        body = events((await made.post(STREAM)).text)
        await other.unsubscribe()
    assert body[0]["choices"][0]["delta"]["content"] == "Half an ans"
    assert [one["error"]["code"] if "error" in one else one for one in body[-2:]] == ["incomplete", "[DONE]"]


async def test_headers_are_not_sent_before_admission(bus: Bus) -> None:
    """This orchestrator never admits the request: had it got its headers, it could not get a status."""
    async with edge(bus, headers_s=0.05, ping_s=0.05) as made:

        async def says_nothing(_: Msg) -> None:
            pass

        await made.orchestrator.drain()
        await bus.subscribe(CHAT.subject(tenant="acme"), says_nothing)
        response = await made.post(STREAM, **{"x-hasten-deadline-ms": "600"})
        assert (response.status_code, response.json()["error"]["code"]) == (504, "deadline")


async def slow(_: ChatRequest, call: Call) -> None:
    """Is silent, then answers."""
    await asyncio.sleep(0.7)
    await say(call, "late")


async def pinged(made: Edge, script: Script, pings: int) -> tuple[int, str]:
    """The status and the body of a stream whose script begins when its caller has had so many pings."""
    begin, taken = asyncio.Event(), ""

    async def waits(request: ChatRequest, call: Call) -> None:
        await begin.wait()
        await script(request, call)

    made.script = waits
    async with made.http.stream("POST", "/v1/chat/completions", json=STREAM) as response:
        async for text in response.aiter_text():
            taken += text
            if taken.count(": ping\n") >= pings:
                begin.set()
    return response.status_code, taken


async def test_silence_brings_comments_that_no_client_takes_for_an_event(bus: Bus) -> None:
    async def late(_: ChatRequest, call: Call) -> None:
        await say(call, "late")

    async with edge(bus, headers_s=0.1, ping_s=0.1) as made:
        _, text = await pinged(made, late, 2)
        before, _, after = text.partition("data: ")
        assert before.count(": ping\n") >= 2
        assert before.replace(": ping\n", "") == ""
        assert "\n\n" not in before
        assert "id:" not in text.replace('"id":', "")
        assert "late" in after
        made.script = slow
        async with made.openai() as client:
            stream = await client.chat.completions.create(
                model="auto", messages=[{"role": "user", "content": "x"}], stream=True
            )
            assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == "late"


async def test_a_failure_after_a_ping_is_an_error_frame(bus: Bus) -> None:
    async with edge(bus, headers_s=0.1, ping_s=0.1) as made:
        status, text = await pinged(made, fails("upstream"), 1)
        assert status == 200
        error, end = events(text)
        assert (error["error"]["code"], end) == ("upstream", "[DONE]")


async def test_pings_can_be_switched_off(bus: Bus) -> None:
    async with edge(bus, headers_s=0.1, ping_s=0) as made:
        made.script = slow
        response = await made.post(STREAM)
        assert ": ping" not in response.text
        assert events(response.text)[-1] == "[DONE]"


async def test_headers_are_held_for_a_first_token_that_comes_soon(bus: Bus) -> None:
    async def fails_soon(request: ChatRequest, call: Call) -> None:
        await asyncio.sleep(0.5)
        await fails("upstream")(request, call)

    async with edge(bus, headers_s=30) as made:
        made.script = fails_soon
        assert (await made.post(STREAM)).status_code == 502
