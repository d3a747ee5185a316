"""Hashes of ever longer beginnings of a prompt, by which the router finds the worker that has computed them; pure.

Only what the compressor puts first and leaves alone counts: what follows passages or chosen examples is new each time.
"""

from collections.abc import Iterator
from hashlib import blake2b
from itertools import chain

import msgspec

from hasten.messages.chat import SYSTEM_ROLES, ChatRequest, Turn
from hasten.orchestrator.domain import CHARS_PER_TOKEN

STEP = 2048
"""Bytes, some 500 tokens: a longer turn has marks inside, for a document that many questions follow."""
MOST, LATEST = 64, 16
"""Marks of a prompt, and how many of them are always its last ones."""


def prefix_of(tenant: str, request: ChatRequest) -> dict[str, int]:
    """Marks of the prompt, shortest beginning first, each with an estimate of its tokens; two requests share the marks
    up to where they differ, and nothing with another tenant.

    The first is of tools and the system's turns, which are the same for many; the second ends in the first turn and
    tells conversations apart. A conversation that has gone on has all marks of its past, as far as they are kept.
    """
    digest = blake2b(tenant.encode(), digest_size=8)
    system = (encoded(turn) for turn in request.messages if turn.role in SYSTEM_ROLES)
    marks: list[tuple[str, int]] = []
    size = 0
    for piece in chain([b"".join([msgspec.json.encode(request.tools), *system])], _pieces(request)):
        digest.update(piece)
        size += len(piece)
        marks.append((digest.hexdigest(), int(size / CHARS_PER_TOKEN)))
    return dict(thinned(marks))


def _pieces(request: ChatRequest) -> Iterator[bytes]:
    """The turns that every later turn of the conversation begins with, in pieces."""
    turns = [turn for turn in request.messages if turn.role not in SYSTEM_ROLES]
    if request.examples:
        return
    if request.knowledge:
        turns = turns[: max((at for at, turn in enumerate(turns) if turn.role == "user"), default=0)]
    for turn in turns:
        data = encoded(turn)
        for start in range(0, len(data), STEP):
            yield data[start : start + STEP]


def encoded(turn: Turn) -> bytes:
    """What of a turn a prompt is made of, as bytes that are the same for the same."""
    role = "system" if turn.role in SYSTEM_ROLES else turn.role
    parts = (role, turn.content, turn.name, turn.tool_calls, turn.tool_call_id)
    return msgspec.json.encode(parts, order="deterministic")


def thinned(marks: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """At most `MOST` of the marks: the first two, the last, and of the others every second, fourth, eighth …

    Which ones go depends on their place only, so that a longer prompt keeps some of those that a shorter one had.
    """
    if len(marks) <= MOST:
        return marks
    early, late = marks[:-LATEST], marks[-LATEST:]
    stride = 2
    while len(early) / stride > MOST - LATEST - 2:
        stride *= 2
    return [mark for at, mark in enumerate(early) if at < 2 or at % stride == 0] + late
