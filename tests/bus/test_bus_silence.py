"""A reader that stood still itself does not take its sender for lost before it has listened once more."""

import asyncio
import time

import pytest
import uvloop

from hasten.deadline import now_ms
from hasten.messages.chat import Chunk, Done
from hasten.messages.failure import Failure
from hasten.stream import LATE_S, Stream

IDLE_S = 0.5


def stream() -> Stream:
    async def abandon() -> None:
        return None

    return Stream(now_ms() + 60_000, IDLE_S, lambda: None, abandon)


async def stand_still() -> None:
    """Lets everybody begin to wait, and the loop do nothing until long after they wanted to be woken."""
    for _ in range(3):
        await asyncio.sleep(0)
    time.sleep(IDLE_S + 4 * LATE_S)  # noqa: ASYNC251  what is tested


async def test_what_came_while_the_reader_stood_still_is_heard() -> None:
    read = stream()
    ended = asyncio.create_task(anext(read))
    await stand_still()
    asyncio.get_running_loop().call_later(IDLE_S / 2, read.push, Done(finish_reason="stop"))
    assert isinstance(await ended, Done)


@pytest.mark.parametrize("spoke", [False, True])
async def test_a_sender_that_stays_silent_is_lost_all_the_same(spoke: bool) -> None:
    read = stream()
    if spoke:
        read.push(Chunk(seq=0))
        await anext(read)
    ended = asyncio.create_task(anext(read))
    await stand_still()
    since_s = time.monotonic()
    assert (await ended).code == "incomplete"
    assert time.monotonic() - since_s >= 0.9 * IDLE_S, "it was listened for once more"


def test_the_last_fraction_of_a_millisecond_ends_a_stream_on_the_loop_of_the_services() -> None:
    """uvloop takes a timer of less than half a millisecond for none, and what it returns then knows no time."""

    async def nobody() -> None:
        pass

    async def ends(left_ms: float) -> Failure:
        async with asyncio.timeout(60):
            stream = Stream(now_ms() + left_ms, 30.0, lambda: None, nobody)
            return await anext(stream)

    async def all_end() -> list[Failure]:
        return [await ends(at / 100) for at in range(100)]

    assert {failure.code for failure in uvloop.run(all_end())} == {"deadline"}
