"""What a connection that was away leaves in doubt: requests whose replies may be lost, and what is heard of others."""

import asyncio
import math
import time
from typing import Any

from hasten.messages.failure import Failed, Failure

LATE_REPLY_S = 2.0
"""How long after a reconnect a reply may come to a request from before it: what was sent meanwhile may be lost. Others
may not be back, or know what they need, for as long: that they are unavailable is not believed until then."""
AGAIN_S = 0.1
"""The pause before whoever is not believed is asked again."""


class Outage:
    """The outages of one connection; `waits` for replies that are given up when one may have swallowed them."""

    def __init__(self) -> None:
        self._asked: set[asyncio.Future[Any]] = set()
        self._doubtful: set[asyncio.Future[Any]] = set()
        self._returned_s = -math.inf

    async def begin(self) -> None:
        """The connection is lost."""
        self._doubtful |= self._asked
        self._returned_s = math.inf

    async def end(self) -> None:
        """The connection is back."""
        doubtful, self._doubtful = self._doubtful, set()
        self._returned_s = time.monotonic()
        asyncio.get_running_loop().call_later(LATE_REPLY_S, _give_up, doubtful)

    def waits(self, answer: asyncio.Future[Any]) -> None:
        """A request was sent, or is about to be."""
        self._asked.add(answer)

    def waits_no_more(self, answer: asyncio.Future[Any]) -> None:
        """It was answered or left."""
        self._asked.discard(answer)
        self._doubtful.discard(answer)

    @property
    def recent(self) -> bool:
        """Whether the connection is away, or came back less than `LATE_REPLY_S` ago."""
        return time.monotonic() < self._returned_s + LATE_REPLY_S


def is_unavailable(reply: Any) -> bool:
    """Whether nobody was there to answer, or nobody who could."""
    return isinstance(reply, Failure) and reply.code == "unavailable"


def _give_up(unanswered: set[asyncio.Future[Any]]) -> None:
    for answer in unanswered:
        if not answer.done():
            lost = Failed("disconnected", "the connection was lost before the answer came", retry_after_ms=1000)
            answer.set_exception(lost)
