"""A model server whose objects have another form than OpenAI's, or no end: its answer fails, not the engine."""

import asyncio
from itertools import chain

import msgspec
import pytest
from upstream import DONE, EVENTS, LAST, QUESTION, WELL, Connect, Upstream, error_of, piece, response, said, text

from hasten.worker.engines import Delta, End
from hasten.worker.engines.flow import MOST, Flow
from hasten.worker.engines.refusal import refusal
from hasten.worker.engines.sse import LONGEST, BadStream, EventParser

DIGITS = "9" * 5000


def event(raw: str) -> bytes:
    return piece(f"data: {raw}\n\n".encode())


@pytest.mark.parametrize(
    "odd",
    [
        '{"choices": 5}',
        '{"choices": "abc"}',
        '{"choices": {"a": 1}}',
        '{"choices": ["x"]}',
        '{"choices": [{"delta": "x"}]}',
        '{"choices": [{"delta": [1]}]}',
        '{"choices": [{"delta": {"tool_calls": {"a": 1}}}]}',
        '{"choices": [{"delta": {"tool_calls": [1]}}]}',
        '{"choices": [{"delta": {"tool_calls": [{"index": 0, "function": "f"}]}}]}',
        '{"error": {"param": ["messages"], "message": "no"}}',
        f'{{"choices": [], "x": {DIGITS}}}',
    ],
)
async def test_an_object_of_another_form_is_a_failure_that_the_engine_survives(
    upstream: Upstream, connect: Connect, odd: str
) -> None:
    upstream.scripts = [EVENTS + said("Hel") + event(odd) + said("", "stop") + DONE + LAST, WELL]
    engine = await connect()
    error, heard = await error_of(engine)
    assert (error.code, heard) == ("upstream", "Hel")
    assert await text(engine) == "Hello"


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ('{"prompt_tokens": "abc", "completion_tokens": -9}', (0, 0, 0)),
        ('{"prompt_tokens": NaN, "completion_tokens": 2.5}', (0, 0, 0)),
        ('{"prompt_tokens": 5, "prompt_tokens_details": "x", "completion_tokens_details": "y"}', (5, 0, 0)),
        ('{"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 50}, "completion_tokens": 2}', (5, 2, 5)),
        ('{"prompt_tokens": 1%s}' % ("0" * 400), (0, 0, 0)),
    ],
)
async def test_a_usage_that_cannot_be_is_no_reason_to_lose_an_answer(
    upstream: Upstream, connect: Connect, usage: str, counts: tuple[int, int, int]
) -> None:
    upstream.scripts = [EVENTS + said("Hel", "stop") + event(f'{{"choices": [], "usage": {usage}}}') + DONE + LAST]
    engine = await connect()
    ends = [one async for one in engine.generate("r", QUESTION)]
    sent = msgspec.json.decode(msgspec.json.encode(ends[-1]), type=End)
    assert (sent.usage.prompt_tokens, sent.usage.completion_tokens, sent.usage.cached_tokens) == counts


async def test_a_character_may_be_split_into_its_surrogates(upstream: Upstream, connect: Connect) -> None:
    halves = [
        event(f'{{"choices": [{{"delta": {{"content": "{half}"}}}}]}}') for half in ("a\\ud83d", "\\ude00b\\ud83d", "c")
    ]
    upstream.scripts = [EVENTS + b"".join(halves) + said("", "stop") + DONE + LAST]
    assert await text(await connect()) == "a\U0001f600b\ufffdc"


@pytest.mark.parametrize("logprob", ["NaN", "-Infinity", f"-{DIGITS[:400]}", "0.5"])
async def test_a_log_probability_is_a_number_that_can_be_sent(
    upstream: Upstream, connect: Connect, logprob: str
) -> None:
    logprobs = f'{{"content": [{{"logprob": {logprob}}}]}}'
    odd = f'{{"choices": [{{"delta": {{"content": "a"}}, "logprobs": {logprobs}}}]}}'
    upstream.scripts = [EVENTS + event(odd) + said("", "stop") + DONE + LAST]
    engine = await connect()
    deltas = [one async for one in engine.generate("r", QUESTION) if isinstance(one, Delta)]
    assert msgspec.json.decode(msgspec.json.encode(deltas[0].logprobs)) in ([], [-9999.0], [0.0])


@pytest.mark.parametrize(
    "error",
    [
        {"code": 429, "message": f"try again in {DIGITS}m"},
        {"code": 429, "message": f"try again in {DIGITS}s"},
        {"code": 400, "message": f"maximum context length is {DIGITS} tokens"},
        {"code": 429, "param": {"a": 1}},
    ],
)
def test_a_refusal_of_absurd_numbers_is_a_refusal(error: dict[str, object]) -> None:
    assert refusal(error).code in ("overloaded", "bad_request")
    late = refusal({}, 429, {"retry-after": "Wed, 21 Oct 99999999999999999999 07:28:00 GMT"})
    assert (late.code, late.retry_after_ms) == ("overloaded", 1000)


@pytest.mark.parametrize("piece_of", [b"data: " + b"x" * 999, b"data: " + b"x" * 991 + b"\ndata: "])
def test_no_line_and_no_event_is_kept_beyond_a_bound(piece_of: bytes) -> None:
    parser = EventParser()
    with pytest.raises(BadStream):
        list(chain.from_iterable(parser.feed(piece_of) for _ in range(LONGEST // 900)))


@pytest.mark.parametrize("raw", [b"data: a\r\ndata: b\r\n\r\n", b"data: a\rdata: b\r\r", b"data: a\ndata: b\n\n"])
def test_lines_may_be_cut_anywhere(raw: bytes) -> None:
    parser = EventParser()
    found = [one for at in range(len(raw)) for one in parser.feed(raw[at : at + 1])] + list(parser.finish())
    assert found == [(False, "a\nb")]


@pytest.mark.parametrize("status", ["200 OK", "500 Oh"])
async def test_a_body_without_end_is_not_read_to_the_end(upstream: Upstream, connect: Connect, status: str) -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head.encode())
        while True:
            writer.write(piece(b" " * 65_536))
            await writer.drain()

    upstream.scripts = [
        endless,
        response("200 OK", {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}),
    ]
    engine = await connect()
    error, _ = await error_of(engine)
    assert error.code == "upstream"
    assert await text(engine) == "Hi"


async def test_a_producer_waits_for_a_reader_that_is_far_behind() -> None:
    flow = Flow()
    for at in range(MOST):
        flow.put({"at": at})
    waits = asyncio.create_task(flow.room())
    await asyncio.sleep(0)
    assert not waits.done()
    await flow.get()
    await waits
    flow.put({})
    waits = asyncio.create_task(flow.room())
    await asyncio.sleep(0)
    flow.stop()
    await waits


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (b"application/json", b'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'),
        (b"text/event-stream", b'{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}'),
        (b"text/plain", b' \n{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}'),
        (
            b"application/x-ndjson",
            b'{"choices":[{"delta":{"content":"H"}}]}\n{"choices":[{"delta":{"content":"i"},"finish_reason":"stop"}]}\n',
        ),
    ],
)
async def test_a_response_is_read_by_what_it_is_whatever_it_is_called(
    upstream: Upstream, connect: Connect, kind: bytes, body: bytes
) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n" % (kind, len(body))
    upstream.scripts = [head + body, WELL]
    engine = await connect()
    assert await text(engine) == "Hi"
    assert await text(engine) == "Hello"


async def test_a_refusal_in_a_list_says_when_to_come_back(upstream: Upstream, connect: Connect) -> None:
    error = {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [{"retryDelay": "2s"}]}
    raw = msgspec.json.encode([{"error": error}])
    head = b"HTTP/1.1 429 Busy\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(raw)
    upstream.scripts = [head + raw]
    refused, _ = await error_of(await connect())
    assert (refused.code, refused.retry_after_ms) == ("overloaded", 2000)
