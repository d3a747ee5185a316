"""Runs what may block or hang in daemon threads: it holds up neither the event loop, nor others, nor the process's end.

A thread cannot be stopped. Those of asyncio.to_thread are few and for everything in the process, which waits for them
at its end: six functions that hang would be enough for nothing else to run there any more.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Aside:
    """Daemon threads of one purpose, each for one piece of work, and `most` of them at once: more work waits in line.

    One whose work is not waited for any more counts until that ends.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._free = asyncio.Semaphore(most)

    async def run(self, work: Callable[[], T]) -> T:
        """Returns what `work` returns, or raises what it raises."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            self._free.release()
            if not done.done():
                done.set_exception(error) if error else done.set_result(result)  # type: ignore[arg-type]

        def run() -> None:
            result, failed = None, None
            try:
                result = work()
            except BaseException as error:  # a future takes no StopIteration, and sys.exit() ends no service
                failed = error if _takes(error) else RuntimeError(type(error).__name__)
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, result, failed)

        try:
            threading.Thread(target=run, name=self._name, daemon=True).start()
        except BaseException:
            self._free.release()
            raise
        return await done


def _takes(error: BaseException) -> bool:
    return isinstance(error, Exception) and not isinstance(error, StopIteration)
