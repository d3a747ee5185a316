"""What second opinions have said about pairs of questions: kept in a KV bucket for all replicas, as hashes.

A verdict is about two questions and not about an answer, so it outlives the entry: whichever of the two is asked first
after a change is generated, and answers the other. It says nothing about freshness, which is checked on the entry.
"""

import contextlib
from collections import OrderedDict

import nats.errors
import nats.js.errors
from nats.js.kv import KeyValue

from hasten.bus import Bus
from hasten.messages.failure import Failed
from hasten.telemetry import logger

log = logger("cache")
BUCKET = "hasten_opinions"
KEPT_S = 604_800.0
MAX_BYTES = 67_108_864
"""The bucket's bound, some 400,000 verdicts; a full one takes no more until the oldest are `KEPT_S` old."""
REMEMBERED = 16_384
"""Verdicts that a replica keeps in memory."""
_SAME, _DIFFERENT = b"1", b"0"


class Verdicts:
    """Verdicts by mark (a hash that names the model and both questions). None of the methods raises but `start`."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._bucket: KeyValue | None = None
        self._known: OrderedDict[str, bool] = OrderedDict()

    async def start(self) -> None:
        """Opens the bucket; raises Failed(unavailable)."""
        try:
            self._bucket = await self._bus.js.create_key_value(bucket=BUCKET, ttl=KEPT_S, max_bytes=MAX_BYTES)
        except (nats.errors.Error, TimeoutError) as error:
            raise Failed("unavailable", f"the bucket {BUCKET} cannot be opened ({type(error).__name__})") from None

    async def known(self, mark: str) -> bool | None:
        """Whether the pair was found to be the same; None when nobody has judged it, or the bucket does not answer."""
        if (here := self._known.get(mark)) is not None:
            self._known.move_to_end(mark)
            return here
        try:
            if self._bucket is None:
                return None
            found = (await self._bucket.get(mark)).value
        except (nats.errors.Error, TimeoutError):
            return None
        return self.learn(mark, found == _SAME)

    def learn(self, mark: str, same: bool) -> bool:
        """Keeps a verdict in this replica's memory and returns it."""
        self._known[mark] = same
        self._known.move_to_end(mark)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return same

    async def share(self, mark: str, same: bool) -> None:
        """Tells the other replicas; if that fails they judge for themselves."""
        try:
            if self._bucket is not None:
                await self._bucket.put(mark, _SAME if same else _DIFFERENT)
        except nats.js.errors.NoStreamResponseError:
            with contextlib.suppress(Failed):
                await self.start()  # the bucket was deleted: this verdict stays here, the next ones are shared
        except (nats.errors.Error, TimeoutError) as error:
            log.warning("a second opinion could not be shared (%s)", type(error).__name__)
