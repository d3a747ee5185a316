"""How an answer is cut into chunks and put together again: numbered, in order, and every character exactly once."""

import asyncio
import re
import unicodedata
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from msgspec import structs

from hasten.messages.chat import Chunk

JOIN_S = 0.010
"""Text that comes sooner than this after the last chunk is joined to the next one."""
HELD_LIMIT = 32_768
"""Characters that may wait for a slow reader before the writer waits as well."""
LONGEST_PIECE = 64

Send = Callable[[Chunk], Awaitable[None]]


class ChunkWriter:
    """Sends the deltas of one answer as chunks numbered from 0.

    The first delta goes out at once, and so does each that comes `join_s` or more after the last chunk; sooner ones
    wait for that moment together, longer only while `send` is waiting for its reader. A chunk holds one kind of delta,
    so text, reasoning and tool calls keep their order. `count` is how many chunks were sent. An error of `send` in the
    background is raised by the next `write` or `flush`.
    """

    def __init__(self, send: Send, *, join_s: float = JOIN_S) -> None:
        self._send, self._join_s = send, join_s
        self.count = 0
        self._runs: deque[tuple[str, list[Any]]] = deque()
        self._logprobs: list[dict[str, Any]] = []
        self._held = 0
        self._sent_at = float("-inf")
        self._lock = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._error: Exception | None = None

    async def write(
        self,
        text: str = "",
        *,
        reasoning: str = "",
        tool_calls: list[dict[str, Any]] | None = None,
        logprobs: list[dict[str, Any]] | None = None,
    ) -> None:
        """Takes one delta; an empty one is nothing. Waits only while a slow reader is owed more than `HELD_LIMIT`.

        `logprobs` go with the next chunk, whatever it holds.
        """
        self._logprobs += logprobs or []
        self._add("reasoning", [reasoning] if reasoning else [])
        self._add("text", [text] if text else [])
        self._add("tool_calls", tool_calls or [])
        if not self._runs:
            return
        if self._lock.locked() and self._held < HELD_LIMIT:
            return
        loop = asyncio.get_running_loop()
        due = self._sent_at + self._join_s
        if self._held >= HELD_LIMIT or due <= loop.time():
            await self.flush()
        elif self._timer is None:
            self._timer = loop.call_at(due, self._on_timer)

    def _add(self, kind: str, pieces: list[Any]) -> None:
        if not pieces:
            return
        if not self._runs or self._runs[-1][0] != kind:
            self._runs.append((kind, []))
        self._runs[-1][1].extend(pieces)
        if kind != "tool_calls":
            self._held += len(pieces[0])

    def _on_timer(self) -> None:
        self._timer = None
        self._task = asyncio.get_running_loop().create_task(self._flush_later())

    async def _flush_later(self) -> None:
        try:
            await self.flush()
        except Exception as error:
            self._error = error

    async def flush(self) -> None:
        """Sends what waits; afterwards everything written before the call has been sent."""
        if self._error is not None:
            raise self._error
        async with self._lock:
            while self._runs:
                kind, pieces = self._runs.popleft()
                chunk = self._with_logprobs(_chunk(self.count, kind, pieces))
                self._held -= 0 if kind == "tool_calls" else sum(map(len, pieces))
                self._sent_at = asyncio.get_running_loop().time()
                self.count += 1
                await self._send(chunk)

    async def finish(self) -> None:
        """Sends all that is left: log-probabilities that nothing came after are a chunk of their own."""
        await self.flush()
        if self._logprobs:
            await self._send(self._with_logprobs(Chunk(seq=self.count)))
            self.count += 1

    def _with_logprobs(self, chunk: Chunk) -> Chunk:
        if not self._logprobs:
            return chunk
        told, self._logprobs = self._logprobs, []
        return structs.replace(chunk, logprobs=told)

    def discard(self) -> None:
        """Drops what waits: the answer has been given up."""
        self._runs.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _chunk(seq: int, kind: str, pieces: list[Any]) -> Chunk:
    if kind == "tool_calls":
        return Chunk(seq=seq, tool_calls=pieces)
    joined = "".join(pieces)
    return Chunk(seq=seq, reasoning=joined) if kind == "reasoning" else Chunk(seq=seq, text=joined)


_PIECE = re.compile(r"\s*\S+|\s+")


def split_text(text: str) -> list[str]:
    """Cuts an answer into word-like pieces, each with the space before it; joined, they are exactly `text`.

    No cut is made inside what a reader sees as one character. Runs without spaces are cut every `LONGEST_PIECE`
    characters, so that a long text in Chinese streams as well.
    """
    pieces: list[str] = _PIECE.findall(text)
    if max(map(len, pieces), default=0) <= LONGEST_PIECE:
        return pieces
    return [part for piece in pieces for part in _shortened(piece)]


def _shortened(piece: str) -> Iterator[str]:
    start = 0
    while len(piece) - start > LONGEST_PIECE:
        end = start + LONGEST_PIECE
        while end < len(piece) and _belong_together(piece[end - 1], piece[end]):
            end += 1
        yield piece[start:end]
        start = end
    if start < len(piece):
        yield piece[start:]


def _belong_together(before: str, after: str) -> bool:
    """Whether two neighbours are part of one visible character, or may be: nearly Unicode's rule, without tables."""
    return (
        unicodedata.category(after) in ("Mn", "Mc", "Me", "Cf")
        or before == "\u200d"
        or 0x1F3FB <= ord(after) <= 0x1F3FF
        or (_is_flag_half(before) and _is_flag_half(after))
        or 0x1160 <= ord(after) <= 0x11FF
        or before == "\r"
    )


def _is_flag_half(char: str) -> bool:
    return 0x1F1E6 <= ord(char) <= 0x1F1FF


def merge_tool_calls(deltas: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Puts the tool-call deltas of one answer together, in the order in which the calls began.

    A delta belongs to the latest call of its `index`; one with another id than that begins a new call, for servers
    that number all their calls 0. A delta without an index goes to the call of its id, or else to the last one.
    """
    calls: list[_Call] = []
    for delta in deltas:
        call = _call_of(delta, calls)
        if call is None:
            calls.append(call := _Call(delta.get("index")))
        call.add(delta)
    return [call.whole() for call in calls]


class _Call:
    def __init__(self, index: Any) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.fields: dict[str, Any] = {"type": "function"}
        self.arguments: list[str] = []

    def add(self, delta: dict[str, Any]) -> None:
        function = delta.get("function") or {}
        name = function.get("name") or ""
        self.id = delta.get("id") or self.id
        if name != self.name:
            self.name += name
        self.arguments.append(function.get("arguments") or "")
        known = ("index", "id", "function")
        self.fields |= {key: value for key, value in delta.items() if key not in known and value is not None}

    def whole(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": "".join(self.arguments)}
        return {"id": self.id, **self.fields, "function": function}


def _call_of(delta: dict[str, Any], calls: list[_Call]) -> _Call | None:
    index, identity = delta.get("index"), delta.get("id")
    if index is None:
        same = [call for call in calls if call.id == identity] if identity else calls
        return same[-1] if same else None
    same = [call for call in calls if call.index == index]
    if not same or (identity and same[-1].id and same[-1].id != identity):
        return None
    return same[-1]
