"""A reader that stood still itself does not take its sender for lost before it has listened once more."""

import asyncio
import time

import pytest
import uvloop

from hasten.deadline import now_ms
from hasten.messages.chat import Chunk, Done
from hasten.stream import LATE_S, Stream

IDLE_S = 0.5


def stream(idle_s: float = IDLE_S) -> Stream:
    async def abandon() -> None:
        return None

    return Stream(now_ms() + 60_000, idle_s, lambda: None, abandon)


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


def test_a_silence_is_over_however_little_of_it_is_left_to_wait_for() -> None:
    """uvloop, which services run on, waits for less than half a millisecond by a handle that knows no moment."""

    async def wait() -> None:
        async with asyncio.timeout(60):
            assert (await anext(stream(0.0004))).code == "incomplete"

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(wait())
