"""Writes down which change events could not be used and why, without their content, and holds nobody up for it.

Every replica that meets such an event writes the same letter; the server keeps one of them, by its id. A flood, or a
server that cannot take a letter, loses letters (counted), never an event.
"""

import asyncio
import contextlib
import re
from datetime import timedelta
from typing import Literal

import nats.errors
from nats.js.api import Header, StorageType, StreamConfig
from nats.js.errors import APIError, NotFoundError

from hasten.bus import Bus
from hasten.codec import encode
from hasten.messages.change import CHANGE, DEAD_LETTER, DEAD_STREAM, STREAM, TENANT_CHANGE, DeadLetter
from hasten.messages.failure import Failed
from hasten.telemetry import counter, logger

log = logger("dead_letters")
_letters = counter(
    "dead_letters_total", "Change events that could not be used, by what became of the letter", "outcome"
)
WAITING = 1000
"""Letters that wait to be written; more are dropped."""
MAX_MSGS = 10_000
KEPT_S = timedelta(days=7).total_seconds()
SAME_S = timedelta(days=1).total_seconds()
"""For how long a letter about the same event is known to be there, whoever writes it."""
MAX_SUBJECT = 256
TRIES = 5
PAUSE_S = 1.0


class DeadLetters:
    """A queue of letters and the task that writes them, which begins with the first letter."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._queue: asyncio.Queue[DeadLetter] = asyncio.Queue(WAITING)
        self._task: asyncio.Task[None] | None = None
        self._epoch = ""
        self._closed = False

    def post(
        self, sequence: int, subject: str, reason: str, size: int, concerns: Literal["tags", "document"] = "tags"
    ) -> None:
        """Has a letter written about a message of the stream; never waits."""
        letter = DeadLetter(
            sequence=sequence, subject=subject[:MAX_SUBJECT], reason=reason, size=size, concerns=concerns
        )
        try:
            self._queue.put_nowait(letter)
        except asyncio.QueueFull:
            _letters.labels("dropped").inc()
            return
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while not self._closed:
            letter = await self._queue.get()
            outcome = "written" if await self._written(letter) else "lost"
            _letters.labels(outcome).inc()

    async def _written(self, letter: DeadLetter) -> bool:
        for _ in range(TRIES):
            if self._closed:
                return False
            try:
                await self._write(letter)
                return True
            except (nats.errors.Error, TimeoutError, Failed) as error:
                reason, self._epoch = type(error).__name__, ""  # the streams may have been deleted
            await asyncio.sleep(PAUSE_S)
        log.warning(
            "message %d could not be used (%s), nor a letter written: %s", letter.sequence, letter.reason, reason
        )
        return False

    async def _write(self, letter: DeadLetter) -> None:
        if not self._epoch:
            await self._ensure_stream()
            self._epoch = str((await self._bus.js.stream_info(STREAM)).created)
            log.warning("a change event could not be used: message %d, %s", letter.sequence, letter.reason)
        subject = DEAD_LETTER.subject(source=source_of(letter.subject))
        id_ = f"{self._epoch}/{letter.sequence}/{letter.concerns}"
        await self._bus.store_raw(subject, encode(letter), headers={Header.MSG_ID.value: id_})

    async def _ensure_stream(self) -> None:
        try:
            await self._bus.js.stream_info(DEAD_STREAM)
        except NotFoundError:
            config = StreamConfig(
                name=DEAD_STREAM,
                subjects=[DEAD_LETTER.pattern],
                storage=StorageType.FILE,
                max_msgs=MAX_MSGS,
                max_age=KEPT_S,
                duplicate_window=SAME_S,
            )
            with contextlib.suppress(APIError):
                await self._bus.js.add_stream(config)

    async def close(self) -> None:
        """Stops writing; another replica, or the next start, has the letters that are left."""
        self._closed = True  # asyncio.wait_for of Python 3.11, which nats-py uses, can swallow a cancellation
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def source_of(subject: str) -> str:
    """The first name of a subject that says where an event comes from, fit to be part of another subject."""
    for topic in (TENANT_CHANGE, CHANGE):
        subject = subject.removeprefix(topic.template.partition("{")[0])
    return re.sub(r"[^a-z0-9_-]", "-", subject.partition(".")[0].lower())[:64] or "unknown"
