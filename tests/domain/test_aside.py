"""Work in threads of its own: what comes back, what waits in line, and what hangs."""

import asyncio
import subprocess
import sys
import threading

import pytest

from hasten.aside import Aside

HANGS = """
import asyncio, threading
from hasten.aside import Aside

async def main():
    work = asyncio.ensure_future(Aside("hangs", 1).run(threading.Event().wait))
    await asyncio.wait([work], timeout=0.01)
    work.cancel()

asyncio.run(main())
print("ended")
"""


async def test_what_is_returned_or_raised_comes_back() -> None:
    aside = Aside("test", 2)
    assert await aside.run(lambda: 7) == 7
    for error in (ValueError, StopIteration, SystemExit):

        def fails(error: type[BaseException] = error) -> None:
            raise error

        with pytest.raises(ValueError if error is ValueError else RuntimeError):
            await aside.run(fails)
    assert await aside.run(threading.current_thread) is not threading.current_thread()


async def test_work_beyond_the_most_waits_in_line_and_goes_on_when_a_thread_is_free() -> None:
    aside, gate, here = Aside("test", 2), threading.Event(), threading.Semaphore(0)

    def wait() -> None:
        here.release()
        gate.wait()

    work = [asyncio.ensure_future(aside.run(wait)) for _ in range(5)]
    for _ in range(2):
        await asyncio.to_thread(here.acquire)
    assert not here.acquire(blocking=False)
    for left in work[:2]:
        left.cancel()
    await asyncio.gather(*work[:2], return_exceptions=True)
    assert not here.acquire(blocking=False), "a thread that nobody waits for still counts"
    gate.set()
    await asyncio.gather(*work[2:])


def test_what_hangs_does_not_keep_a_process_from_ending() -> None:
    ended = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=120, check=True)
    assert ended.stdout == "ended\n"
