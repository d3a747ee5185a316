"""What orchestrators announce of each request, for callers over HTTP, who are not told the times of the stages."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Self

from nats.aio.msg import Msg

from hasten.bus import Bus
from hasten.codec import decode
from hasten.messages.chat import FINISHED, Finished
from hasten.messages.failure import Failed
from loadtest.sample import Sample

PATIENCE_S = 10.0
"""An announcement comes just after the end of its answer, and may be lost."""


class Heard:
    """The announcements of one tenant's requests, by request id."""

    def __init__(self) -> None:
        self._finished: dict[str, Finished] = {}
        self._more = asyncio.Event()

    @classmethod
    @contextlib.asynccontextmanager
    async def listening(cls, url: str, tenant: str) -> AsyncIterator[Self]:
        """Hears them while the block runs."""
        made = cls()
        bus = await Bus.connect(url, name="loadtest")
        try:
            await bus.subscribe(FINISHED.subject(tenant=tenant), made._on_finished)
            await bus.flush()
            yield made
        finally:
            await bus.close()

    async def _on_finished(self, msg: Msg) -> None:
        with contextlib.suppress(Failed):
            event: Finished = decode(Finished, msg.data)
            self._finished[event.request_id] = event
            self._more.set()

    async def tell(self, samples: Sequence[Sample]) -> None:
        """Writes into samples that were answered what was announced of them, and forgets it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while any(one.ok and one.request_id not in self._finished for one in samples):
                    self._more.clear()
                    await self._more.wait()
        for one in samples:
            if (event := self._finished.pop(one.request_id, None)) is not None and one.ok:
                one.stages, one.cache = event.timings_ms, event.cache
