"""Bodies that are malformed, too deep, too large or no text: refused on either side by their place, never quoted."""

import asyncio
import logging
import time
from typing import Any

import msgspec
import pytest
from small_talk import ECHO, Company, Said, Say, ask, echo, raw

from hasten.bus import Bus
from hasten.codec import MAX_NESTING, nesting
from hasten.messages.failure import Failed
from hasten.service import Call

CANARY = "NO00-1234-5678-901"


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"nonsense",
        b'{"text":"\xff"}',
        b'{"text":"\\ud800"}',
        b'{"text":1}',
        b'{"wait_s":"soon"}',
        b"[]",
        b"null",
        b"7",
        b'"' + b"\\" * 1001 + b'"',
    ],
)
async def test_a_bad_body_is_the_callers_fault(bus: Bus, company: Company, body: bytes) -> None:
    await company.hear(ECHO, echo)
    answer = await raw(bus, body)
    assert answer["code"] == "bad_request"
    assert answer["detail"]
    assert (await ask(bus, "still here")).text == "still here"


@pytest.mark.parametrize("levels", [100, 4000, 25_000, 250_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
async def test_deep_nesting_is_refused_and_others_go_on(
    bus: Bus, company: Company, levels: int, opening: bytes, closing: bytes
) -> None:
    await company.hear(ECHO, echo)
    levels = min(levels, 900_000 // len(opening + closing))
    neighbour = asyncio.create_task(ask(bus, "neighbour", wait_s=0.2))
    bodies = [
        b'{"extra":' + opening * levels + b"1" + closing * levels + b"}",
        opening * levels + closing * levels,
        opening * levels,
    ]
    for body in bodies:
        assert (await raw(bus, body))["code"] == "bad_request"
    assert (await neighbour).text == "neighbour"


def test_nesting_counts_brackets_outside_of_strings() -> None:
    deep = b"[" * 65 + b"]" * 65
    assert nesting(deep) > MAX_NESTING
    assert nesting(b'{"a":[' * 33 + b"]}" * 33) == 66
    assert nesting(b"[" * 64 + b"]" * 64) <= MAX_NESTING
    assert nesting(b'"' + deep + b'"') <= MAX_NESTING
    assert nesting(b'["\\"' + deep + b'"]') <= MAX_NESTING
    assert nesting(b'["\\\\",' + deep + b"]") > MAX_NESTING
    assert nesting(b"[" + b"[],{}," * 5000 + b"[]]") <= MAX_NESTING


@pytest.mark.parametrize("unit", [b"[],", b'{"a":1},', b'"[",', b'"\\"[",', b'"[",[],', b"[" * 60 + b"]" * 60 + b","])
def test_nesting_of_a_large_body_is_found_quickly(unit: bytes) -> None:
    """The loop must not stand still for 20 ms; the parser's own time is the measure here."""
    body = b"[" + unit * (1_000_000 // len(unit)) + b"1]"

    def best(work: Any) -> float:
        times = []
        for _ in range(3):
            started = time.thread_time()
            work()
            times.append(time.thread_time() - started)
        return min(times)

    assert best(lambda: nesting(body)) < 2 * best(lambda: msgspec.json.decode(body)) + 0.005


async def test_a_request_too_large_for_the_server_is_refused_here(bus: Bus, company: Company) -> None:
    await company.hear(ECHO, echo)
    answer = await ask(bus, "x" * 1_100_000)
    assert answer.code == "too_large"
    assert "1100" in answer.detail
    assert str(1024 * 1024 - 1024) in answer.detail
    with pytest.raises(Failed, match="too_large"):
        await bus.publish(ECHO, Say(text="x" * 1_100_000), tenant="acme")
    assert (await ask(bus, "x" * 1_000_000)).text == "x" * 1_000_000


async def test_a_reply_too_large_for_the_server_is_a_failure(bus: Bus, company: Company) -> None:
    async def much(_: Say, __: Call) -> Said:
        return Said(text="x" * 2_000_000)

    await company.hear(ECHO, much)
    assert (await ask(bus)).code == "too_large"


async def test_a_wrong_value_is_named_by_its_place_and_not_quoted(
    bus: Bus, company: Company, caplog: pytest.LogCaptureFixture
) -> None:
    await company.hear(ECHO, echo)
    with caplog.at_level(logging.DEBUG):
        answer = await raw(bus, b'{"wait_s":"' + CANARY.encode() + b'"}')
    assert CANARY not in str(answer)
    assert "wait_s" in answer["detail"]
    assert CANARY not in caplog.text


async def test_text_that_is_not_unicode_is_refused_on_both_sides(bus: Bus, company: Company) -> None:
    async def half(_: Say, __: Call) -> Any:
        return Said(text="\ud800")

    await company.hear(ECHO, half)
    assert (await ask(bus, "\udfff")).code == "bad_request"
    assert (await ask(bus)).code == "bad_request"
