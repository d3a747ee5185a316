"""nats-py's client, made fit for strangers' bytes and for many small messages, with a flush that stands behind all.

nats-py writes the PING of a flush before pending messages, so only the second one is behind them. Its reading loop ends
for good on a subject that is not UTF-8 or on a malformed header, which any client may send. It hands every message to a
task of its own to write it and to another one to read it: here what is published in one turn of the loop goes to the
socket together, at its end, and a message is given to whoever hears it as it is cut out of what was read
(`loadtest.cost_per_request` has what that saves).
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import nats.errors
from nats.aio.client import DEFAULT_FLUSH_TIMEOUT, Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.aio.transport import TcpTransport

from hasten.address import without_secret
from hasten.cancellation import cancelled
from hasten.telemetry import counter, logger
from hasten.wire import WireParser, headers_of, publication

UNWRITTEN = 64 * 1024
"""Bytes in the socket's buffer beyond which messages wait with nats-py, which writes them as the buffer empties."""
_SPACES = frozenset(" \t\r\n")
log = logger("bus")
_dropped = counter("bus_dropped_total", "Messages dropped because too many waited, by subscription", "subject")


class Unreachable(ConnectionError):
    """No NATS server answered at the address."""


class Connection(Client):
    """One connection to NATS. A flush returns when the server has handled all that was published before it."""

    def __init__(self) -> None:
        super().__init__()
        self._heard: dict[int, Callable[[Msg], None]] = {}
        self._ps = WireParser(self, self._deliver)
        self._out: list[bytes] = []
        self._out_size = 0
        self._dialled = False
        self._last_error: Exception | None = None

    async def dial(
        self, url: str, begin: Callable[[], Awaitable[None]], *, name: str, timeout_s: float, **options: Any
    ) -> None:
        """Connects, awaits `begin`, and keeps reconnecting for ever afterwards; raises Unreachable if there is no
        server now."""
        settings = {"reconnect_time_wait": 0.1, "pending_size": 64 * 1024 * 1024, "ping_interval": 10}
        try:
            async with asyncio.timeout(timeout_s):
                await self.connect(
                    url, name=name, error_cb=self._on_error, max_reconnect_attempts=-1, **(settings | options)
                )
                await begin()
                await self.flush()
        except BaseException as error:
            why = type(self._last_error or error).__name__
            await self.abandon()
            if not isinstance(error, TimeoutError | OSError | nats.errors.Error):
                raise
            raise Unreachable(f"no NATS server answers at {without_secret(url)} ({why})") from None
        self._dialled = True

    async def _on_error(self, error: Exception) -> None:
        self._last_error = error
        if isinstance(error, nats.errors.SlowConsumerError):
            _dropped.labels(_without_ids(error.sub.subject)).inc()
        if self._dialled:
            log.warning("connection: %s", type(error).__name__)
        elif cancelled():
            raise asyncio.CancelledError  # else nats-py, which has lost it, would try for ever

    async def abandon(self) -> int:
        """Closes at once; returns how many bytes were not sent."""
        left = self.drop_pending()
        with contextlib.suppress(OSError):
            await self.close()
        return left

    async def publish(
        self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        """Publishes a message; raises errors of nats-py."""
        if self._takes(subject, payload, reply) and (raw := publication(subject, reply, payload, headers)) is not None:
            if not self._out:
                asyncio.get_running_loop().call_soon(self._write_out)
            self._out.append(raw)
            self._out_size += len(raw)
            self.stats["out_msgs"] += 1
            self.stats["out_bytes"] += len(payload)
        else:
            self._write_out()
            await super().publish(subject, payload, reply, headers)

    def _takes(self, subject: str, payload: bytes, reply: str) -> bool:
        """Whether a message may be written with the others of this turn: nothing waits, and it needs no second look."""
        if self._pending or len(payload) > self._max_payload or self._out_size > UNWRITTEN:
            return False
        if not subject or not _SPACES.isdisjoint(subject) or not _SPACES.isdisjoint(reply):
            return False
        return self._writer() is not None

    def _writer(self) -> asyncio.StreamWriter | None:
        """The socket, if it is connected and not full."""
        transport = self._transport
        if self._status != Client.CONNECTED or not isinstance(transport, TcpTransport):
            return None
        writer = transport._io_writer
        if writer is None or writer.transport.is_closing() or writer.transport.get_write_buffer_size() > UNWRITTEN:
            return None
        return writer

    def _write_out(self) -> None:
        """Writes what was published in this turn, or has it wait where nothing can be written now."""
        if not self._out:
            return
        out, size, self._out, self._out_size = self._out, self._out_size, [], 0
        if (writer := self._writer()) is not None:
            writer.write(b"".join(out))
        else:
            self._pending[:0] = out
            self._pending_data_size += size
            if self._status == Client.CONNECTED and self._flush_queue is not None and self._flush_queue.empty():
                self._flush_queue.put_nowait(asyncio.Future())

    def _build_message(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: dict[str, str] | None
    ) -> Msg | None:
        made: Msg | None = super()._build_message(sid, _as_utf8(subject), _as_utf8(reply), data, headers)
        return made

    async def _process_headers(self, headers: bytes) -> dict[str, str] | None:
        try:
            found: dict[str, str] | None = await super()._process_headers(headers)
            return found
        except Exception:
            return {}

    async def hear(self, subject: str, receive: Callable[[Msg], None], *, queue: str = "") -> Subscription:
        """Subscribes with a function that is called as each message is read, without a queue and a task between.

        It must not wait nor raise; it gets all that comes, however much.
        """
        made = await self.subscribe(subject, queue, cb=_unused, pending_msgs_limit=-1, pending_bytes_limit=-1)
        self._heard[made._id] = receive
        return made

    def _remove_sub(self, sid: int, max_msgs: int = 0) -> None:
        super()._remove_sub(sid, max_msgs)
        self._heard.pop(sid, None)

    def _deliver(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes | None) -> Any:
        """Hands a message to who hears it; what it returns has to be awaited."""
        receive = self._heard.get(sid)
        if receive is None:
            return super()._process_msg(sid, subject, reply, data, headers or b"")
        self.stats["in_msgs"] += 1
        self.stats["in_bytes"] += len(data)
        found = headers_of(headers) if headers else None
        receive(Msg(self, subject.decode(errors="replace"), reply.decode(errors="replace"), data, found))
        return None

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        if (more := self._deliver(sid, subject, reply, data, headers)) is not None:
            await more

    async def flush(self, timeout: int = DEFAULT_FLUSH_TIMEOUT) -> None:
        """Returns when the server has handled everything of ours so far."""
        self._write_out()
        await super().flush(timeout)
        await super().flush(timeout)

    def drop_pending(self) -> int:
        """Gives up what has not been written and returns its bytes; closing would write it to a dead socket."""
        left, self._pending, self._pending_data_size = self.pending_data_size + self._out_size, [], 0
        self._out, self._out_size = [], 0
        return left + self._unwritten()

    def _unwritten(self) -> int:
        """Bytes that the socket's buffer still has."""
        transport = self._transport
        writer = transport._io_writer if isinstance(transport, TcpTransport) else None
        return 0 if writer is None else int(writer.transport.get_write_buffer_size())


def _without_ids(subject: str) -> str:
    """What a metric calls a subscription: an inbox is a new one at every start, and so is a replica or a worker."""
    return "_INBOX" if subject.startswith("_INBOX") else ".".join(subject.split(".")[:3])


def _as_utf8(name: bytes) -> bytes:
    return name.decode(errors="replace").encode()


async def _unused(_: Msg) -> None:
    """Stands where nats-py wants a callback."""
