"""nats-py's client, made fit for strangers' bytes, with a flush that stands behind what is pending.

nats-py writes the PING of a flush before pending messages, so only the second one is behind them. Its reading loop ends
for good on a subject that is not UTF-8 or on a malformed header, which any client may send.
"""

from nats.aio.client import DEFAULT_FLUSH_TIMEOUT, Client
from nats.aio.msg import Msg


class Connection(Client):
    """One connection to NATS. A flush returns when the server has handled all that was published before it."""

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
