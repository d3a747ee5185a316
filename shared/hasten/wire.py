"""Cuts what NATS has sent into messages, and makes what is sent to it; every message goes through here.

nats-py's parser does the same by regular expressions and one buffer that it deletes from, message by message; it is
asked for everything that is not a whole message.
"""

from collections.abc import Awaitable, Callable

from nats.protocol.parser import AWAITING_CONTROL_LINE, Parser

_LINE, _SPACE = b"\r\n", 0x20
_MSG, _HMSG = b"MSG ", b"HMSG "
_VERSION = b"NATS/1.0"
Deliver = Callable[[int, bytes, bytes, bytes, bytes | None], Awaitable[None] | None]
"""Takes the id of a subscription, subject, reply subject, body and raw headers of a message."""


class WireParser(Parser):
    """Delivers each message as it is cut out; what `deliver` returns is awaited, if that is anything."""

    def __init__(self, client: object, deliver: Deliver) -> None:
        super().__init__(client)
        self._deliver = deliver

    def reset(self) -> None:
        """Forgets what has come: the connection is a new one."""
        super().reset()
        self._short = 0

    async def parse(self, data: bytes = b"") -> None:
        """Takes what was read next; raises ProtocolError for what is no NATS."""
        if self.state != AWAITING_CONTROL_LINE:
            await super().parse(data)
            return
        if self.buf:
            self.buf += data
            if len(self.buf) < self._short:
                return
            data = bytes(self.buf)
        at = await self._messages(data)
        self.buf = bytearray(data[at:])
        if self.buf and not self._short:
            await super().parse()

    async def _messages(self, data: bytes) -> int:
        """Delivers the messages at the beginning; returns where they end, and notes how many bytes are needed to go on
        (0 when there is something else)."""
        at, self._short = 0, 0
        while (line := data.find(_LINE, at)) >= 0:
            if data.startswith(_MSG, at):
                words, head = data[at + 4 : line].split(), 0
            elif data.startswith(_HMSG, at):
                words = data[at + 5 : line].split()
                head = _number(words.pop(-2)) if len(words) > 3 else -1
            else:
                return at
            body, size = line + 2, _number(words[-1]) if 2 < len(words) < 5 else -1
            if not 0 <= head <= size or (sid := _number(words[1])) < 0 or data[line - 1] <= _SPACE:
                return at
            if (end := body + size) + 2 > len(data):
                self._short = end + 2 - at
                return at
            reply = words[2] if len(words) == 4 else b""
            at = end + 2
            more = self._deliver(sid, words[0], reply, data[body + head : end], data[body : body + head] or None)
            if more is not None:
                await more
        return at


def _number(word: bytes) -> int:
    return int(word) if word.isdigit() else -1


def headers_of(raw: bytes) -> dict[str, str]:
    """The headers of a message by name, with `Status` where the server says one; what is malformed is left out."""
    found: dict[str, str] = {}
    first, *lines = raw.split(_LINE)
    status = first[len(_VERSION) :].split(None, 1)
    if status and status[0].isdigit():
        found["Status"] = status[0][:3].decode()
    for line in lines:
        name, colon, value = line.partition(b":")
        if colon and name.isascii() and not any(byte in b" \t" for byte in name.strip()):
            found[name.strip().decode()] = value.strip().decode(errors="replace")
    return found


def publication(subject: str, reply: str, payload: bytes, headers: dict[str, str] | None) -> bytes | None:
    """The bytes that publish a message; None for headers with line breaks or other things that need a closer look."""
    if not headers:
        return b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply.encode(), len(payload), payload)
    # Joined, not formatted: nats-py's own names are members of an Enum, which formats as the member's name.
    pairs = "".join([part for name, value in headers.items() for part in (name, ": ", value, "\r\n")])
    if pairs.count("\r") != len(headers) or pairs.count("\n") != len(headers):
        return None
    raw = f"NATS/1.0\r\n{pairs}\r\n".encode()
    sizes = (len(raw), len(raw) + len(payload))
    return b"HPUB %b %b %d %d\r\n%b%b\r\n" % (subject.encode(), reply.encode(), *sizes, raw, payload)
