"""nats-py's client, made fit for strangers' bytes, with a flush that stands behind what is pending.

nats-py writes the PING of a flush before pending messages, so only the second one is behind them. Its reading loop ends
for good on a subject that is not UTF-8 or on a malformed header, which any client may send.
"""

from collections.abc import Callable

from nats.aio.client import DEFAULT_FLUSH_TIMEOUT, Client
from nats.aio.msg import Msg


class Connection(Client):
    """One connection to NATS. A flush returns when the server has handled all that was published before it."""

    def __init__(self) -> None:
        super().__init__()
        self._heard: dict[int, Callable[[Msg], None]] = {}

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

    async def hear(self, subject: str, receive: Callable[[Msg], None]) -> None:
        """Subscribes with a function that is called as each message is read, without a queue and a task between.

        It must not wait nor raise; it gets all that comes, however much.
        """
        made = await self.subscribe(subject, cb=_unused, pending_msgs_limit=-1, pending_bytes_limit=-1)
        self._heard[made._id] = receive

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        receive = self._heard.get(sid)
        if receive is None:
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        self.stats["in_msgs"] += 1
        self.stats["in_bytes"] += len(data)
        found = await self._process_headers(headers) if headers else None
        if (msg := self._build_message(sid, subject, reply, data, found)) is not None:
            receive(msg)

    async def flush(self, timeout: int = DEFAULT_FLUSH_TIMEOUT) -> None:
        """Returns when the server has handled everything of ours so far."""
        await super().flush(timeout)
        await super().flush(timeout)

    def drop_pending(self) -> int:
        """Gives up what has not been written and returns its bytes; closing would write it to a dead socket."""
        left, self._pending, self._pending_data_size = self.pending_data_size, [], 0
        return left


def _as_utf8(name: bytes) -> bytes:
    return name.decode(errors="replace").encode()


async def _unused(_: Msg) -> None:
    """Stands where nats-py wants a callback."""
