"""One wildcard subscription for all replies of a connection: each request has a subject of its own beneath it."""

import asyncio
import contextlib
import secrets
from collections.abc import Callable

import nats.errors
from nats.aio.msg import Msg

from hasten.connection import Connection
from hasten.telemetry import logger, where
from hasten.topics import random_id

INBOX = "_INBOX"
Sink = Callable[[Msg], None]
Forget = Callable[[], None]
log = logger("bus")


def is_inbox(subject: str) -> bool:
    """Whether a reply may be published there; a caller cannot make us speak to anything but an inbox."""
    return subject.startswith(f"{INBOX}.") and not set(subject) & set("*> ")


class Inbox:
    """The replies that one connection waits for; its length is how many. With `tells` a sender of chunks hears from it
    when nobody reads them any more. `subject` is what all of them begin with."""

    def __init__(self, client: Connection, prefix: str, *, tells: bool) -> None:
        self._client, self._tells = client, tells
        self.subject = f"{prefix}.{secrets.token_hex(11)}"
        self._sinks: dict[str, Sink] = {}
        self._telling: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._sinks)

    async def start(self) -> None:
        """Subscribes."""
        await self._client.hear(f"{self.subject}.*", self._on_reply)

    def _on_reply(self, msg: Msg) -> None:
        sink = self._sinks.get(msg.subject.rpartition(".")[2])
        if sink is not None:
            try:
                sink(msg)
            except Exception as error:
                log.error("a reply could not be taken: %s", where(error))
        elif self._tells and is_inbox(msg.reply):
            telling = asyncio.get_running_loop().create_task(self._tell_nobody_reads(msg.reply))
            self._telling.add(telling)
            telling.add_done_callback(self._telling.discard)

    async def _tell_nobody_reads(self, reply: str) -> None:
        with contextlib.suppress(nats.errors.Error):
            await self._client.publish(reply, b"", headers={"Status": "503"})

    def open(self, sink: Sink) -> tuple[str, Forget]:
        """A reply subject of its own for this sink, and what forgets it."""
        token = random_id()
        self._sinks[token] = sink
        return f"{self.subject}.{token}", lambda: self._forget(token)

    def _forget(self, token: str) -> None:
        self._sinks.pop(token, None)

    def watch(self, gone: Callable[[], None]) -> tuple[str, Forget]:
        """A reply subject to publish with: `gone` is called when the server says that nobody reads what was published.

        NATS answers a message that carries a reply subject and has no subscriber with a 503 on that subject; a reader
        that is there never uses it. Returns the subject and what forgets it.
        """

        def receive(msg: Msg) -> None:
            if msg.headers and msg.headers.get("Status") == "503":
                gone()

        return self.open(receive)
