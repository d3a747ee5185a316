"""The hits by meaning of the last day, so that an operator can name a wrong one by the request that it answered.

The orchestrators publish them as events. A stream of its own keeps them, and not a bucket: it is written without
waiting, and when it is full the oldest records go, where a bucket would refuse the newest (decision 0013).
"""

import contextlib

import msgspec
import nats.errors
from nats.js.api import DiscardPolicy, StorageType, StreamConfig
from nats.js.errors import APIError, NotFoundError

from hasten.bus import Bus
from hasten.messages.cache import SERVED, Served
from hasten.messages.failure import Failed

STREAM = "HASTEN_SERVED"
MAX_BYTES = 128 * 1024**2
"""Room for about half a million hits."""


class ServedHits:
    """Which entry answered which request. Methods raise Failed(unavailable) when JetStream cannot be had."""

    def __init__(self, bus: Bus, keep_s: float) -> None:
        self._bus, self._keep_s = bus, keep_s

    async def start(self) -> None:
        """Makes the stream that keeps the records for `keep_s`, or gives it that time; every replica may call it."""
        config = StreamConfig(
            name=STREAM,
            subjects=[SERVED.pattern],
            storage=StorageType.FILE,
            discard=DiscardPolicy.OLD,
            max_age=self._keep_s,
            max_bytes=MAX_BYTES,
            max_msgs_per_subject=1,
            allow_direct=True,
        )
        try:
            with contextlib.suppress(APIError):
                await self._bus.js.add_stream(config)
            info = await self._bus.js.stream_info(STREAM)
            if info.config.max_age != self._keep_s:
                info.config.max_age = self._keep_s
                await self._bus.js.update_stream(info.config)
        except (nats.errors.Error, TimeoutError) as error:
            raise Failed("unavailable", f"the stream {STREAM} cannot be made ({type(error).__name__})") from None

    async def find(self, tenant: str, request_id: str) -> Served | None:
        """The hit that answered this request, None when none is known (any more)."""
        try:
            found = await self._bus.js.get_last_msg(
                STREAM, SERVED.subject(tenant=tenant, request_id=request_id), direct=True
            )
        except NotFoundError:
            return None
        except nats.errors.NoRespondersError:
            await self.start()  # the stream was deleted, and what it held is not known any more
            return None
        except (nats.errors.Error, TimeoutError) as error:
            raise Failed("unavailable", f"the stream {STREAM} cannot be read ({type(error).__name__})") from None
        return msgspec.json.decode(found.data or b"", type=Served)
