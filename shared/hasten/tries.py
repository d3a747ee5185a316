"""Sends one request again while nobody answers it: the replica that got it may hang, or have died, unknown to NATS."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain, repeat
from typing import Self

import nats.errors
from nats.aio.msg import Msg

from hasten.codec import decode
from hasten.messages.failure import Failed, Failure
from hasten.topics import Topic


class Tries:
    """The tries of one request, as a context: the first is sent on entering it, one more after each silence of
    `again_s` seconds, the last of which is repeated. No task is made before the first silence, which is the rule."""

    def __init__(self, topic: Topic, send: Callable[[], Awaitable[None]], again_s: Sequence[float]) -> None:
        self._topic, self._send, self._again_s = topic, send, again_s
        self._out = 0
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None
        self._task: asyncio.Task[None] | None = None

    def answered(self, msg: Msg) -> bool:
        """Whether a reply is the answer. A replica that is full says nothing for one that works on it already."""
        self._out -= 1
        return self._out <= 0 or not _is_full(self._topic, msg)

    async def __aenter__(self) -> Self:
        await self._ask()
        if self._again_s:
            self._timer = asyncio.get_running_loop().call_later(self._again_s[0], self._begin)
        return self

    async def _ask(self) -> None:
        self._out += 1
        await self._send()

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._again())

    async def _again(self) -> None:
        for silence_s in chain(self._again_s[1:], repeat(self._again_s[-1])):
            with contextlib.suppress(nats.errors.Error, Failed):
                await self._ask()
            await asyncio.sleep(silence_s)

    async def __aexit__(self, *exc: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()


def _is_full(topic: Topic, msg: Msg) -> bool:
    try:
        reply = decode(topic.reply, msg.data)
    except Failed:
        return False
    return isinstance(reply, Failure) and reply.code == "overloaded"
