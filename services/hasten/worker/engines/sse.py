"""Reads server-sent events as the standard says, and forgives what proxies are known to do to them."""

import codecs
import contextlib
import json
from collections.abc import Iterator
from typing import Any

import msgspec

LONGEST = 8 * 1024 * 1024
"""Characters of a line, and of the data of an event."""
_KEPT_ALIVE = ("ping", "keepalive", "keep-alive", "heartbeat")
"""Events that only say that there is still somebody; some hold no JSON."""
_scan = json.JSONDecoder().raw_decode


class BadStream(ValueError):
    """The bytes are not a stream of events, or an event does not hold JSON; its text quotes nothing."""


class EventParser:
    """Bytes in, the data of whole events out.

    Lines end with LF, CR or CRLF; comments, ids and retry times are consumed; several data lines are joined by a
    newline; a character may be split between two reads. `error` says that the event was named so.
    """

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")()
        self._rest: list[str] = []
        self._rests = 0
        self._first = True
        self._data: list[str] = []
        self._size = 0
        self._name = ""

    def feed(self, raw: bytes) -> Iterator[tuple[bool, str]]:
        """Yields (error, data) of each event that these bytes complete; raises BadStream."""
        yield from self._lines(self._text(raw, final=False), final=False)

    def finish(self) -> Iterator[tuple[bool, str]]:
        """Yields what is left when the stream has ended; an event without its blank line counts."""
        yield from self._lines(self._text(b"", final=True), final=True)
        yield from self._dispatch()

    def _text(self, raw: bytes, *, final: bool) -> str:
        try:
            text = self._decode.decode(raw, final)
        except UnicodeDecodeError:
            raise BadStream("the stream is not UTF-8") from None
        if self._first and text:
            self._first = False
            text = text.removeprefix("\ufeff")
        return text

    def _lines(self, text: str, *, final: bool) -> Iterator[tuple[bool, str]]:
        """A line that comes in many pieces is put together once."""
        decides = final or "\n" in text or "\r" in text or self._rest[-1:] == ["\r"]
        self._rest.append(text)
        self._rests += len(text)
        if not decides:
            return self._bounded(self._rests)
        text = "".join(self._rest)
        held = text.endswith("\r") and not final
        lines = (text[:-1] if held else text).replace("\r\n", "\n").replace("\r", "\n").split("\n")
        last = "" if final else lines.pop()
        self._rest = [last, "\r"] if held else [last]
        self._rests = len(last) + held
        self._bounded(self._rests)
        for line in lines:
            yield from self._line(line)

    def _bounded(self, size: int) -> None:
        if size > LONGEST:
            raise BadStream("a line or an event of the stream is too long")

    def _line(self, line: str) -> Iterator[tuple[bool, str]]:
        if not line:
            yield from self._dispatch()
            return
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._size += len(value)
            self._bounded(self._size)
            self._data.append(value)
        elif field == "event":
            self._name = value

    def _dispatch(self) -> Iterator[tuple[bool, str]]:
        data, name = "\n".join(self._data), self._name
        self._data, self._name, self._size = [], "", 0
        if data.strip() and name not in _KEPT_ALIVE:
            yield name == "error", data


def objects(data: str) -> list[dict[str, Any]]:
    """The JSON objects in the data of one event, usually one; raises BadStream for anything else.

    Some proxies drop the blank line between events, so that several objects arrive as one; some servers put an object
    into a list, or send a null to keep a connection open.
    """
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        return _members(msgspec.json.decode(data))
    found, at = list[dict[str, Any]](), 0
    while (at := _after_space(data, at)) < len(data):
        try:
            value, at = _scan(data, at)
        except (ValueError, RecursionError):
            raise BadStream("an event does not hold JSON") from None
        found += _members(value)
    return found


def _members(value: Any) -> list[dict[str, Any]]:
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(one, dict | None) for one in values):
        raise BadStream("an event does not hold a JSON object")
    return [one for one in values if one is not None]


def _after_space(data: str, at: int) -> int:
    while at < len(data) and data[at] in " \t\r\n":
        at += 1
    return at
