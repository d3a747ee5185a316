"""Decides which texts are encoded together and next; pure, so that order and fairness can be tested without a model."""

from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from hasten.embedder.pooling import Spans

OVERHEAD_TOKENS = 2
BYTES_PER_TOKEN = 4
TURNS = 4
"""Batches of small requests in a row before a large one gets a turn, so that it is slowed down and never starved."""


def estimate(text: str, window: int) -> int:
    """About how many tokens a text has, special ones included and cut at the window, without tokenising it."""
    return min(window, OVERHEAD_TOKENS + len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN + 1)


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A text of a request: whose it is, its place there, its estimated tokens, and the stretches wanted of it."""

    owner: int
    at: int
    text: str
    tokens: int
    spans: Spans = ()


class Line:
    """The texts that wait, in two lanes: requests that fit one batch go before those that do not.

    A batch takes texts in order of their length, so that padding costs little, as long as texts × longest stays within
    `batch_tokens`; one text is always taken. Large requests take turns with each other.
    """

    def __init__(self, batch_tokens: int) -> None:
        self._batch_tokens = batch_tokens
        self._small: deque[deque[Piece]] = deque()
        self._large: deque[deque[Piece]] = deque()
        self._in_a_row = 0

    def __len__(self) -> int:
        return sum(len(pieces) for lane in (self._small, self._large) for pieces in lane)

    def add(self, owner: int, texts: list[str], window: int, spans: Sequence[Spans] = ()) -> None:
        """Puts a request's texts in line, with the stretches wanted of each."""
        pieces = [
            Piece(owner=owner, at=at, text=text, tokens=estimate(text, window), spans=spans[at] if spans else ())
            for at, text in enumerate(texts)
        ]
        if not pieces:
            return
        pieces.sort(key=lambda piece: piece.tokens)
        small = len(pieces) * pieces[-1].tokens <= self._batch_tokens or len(pieces) == 1
        (self._small if small else self._large).append(deque(pieces))

    def drop(self, owner: int) -> None:
        """Takes a request's texts out of the line."""
        for lane in (self._small, self._large):
            kept = [pieces for pieces in lane if pieces[0].owner != owner]
            lane.clear()
            lane.extend(kept)

    def next(self) -> list[Piece]:
        """The texts of the next batch, taken out of the line; none when nobody waits."""
        large_turn = bool(self._large) and (not self._small or self._in_a_row >= TURNS)
        self._in_a_row = 0 if large_turn else self._in_a_row + 1
        return self._take(self._large if large_turn else self._small)

    def _take(self, lane: deque[deque[Piece]]) -> list[Piece]:
        taken: list[Piece] = []
        while lane:
            pieces = lane[0]
            while pieces and self._fits(taken, pieces[0]):
                taken.append(pieces.popleft())
            if pieces:
                lane.rotate(-1 if lane is self._large else 0)
                break
            lane.popleft()
        return taken

    def _fits(self, taken: list[Piece], piece: Piece) -> bool:
        longest = max(piece.tokens, max((other.tokens for other in taken), default=0))
        return not taken or (len(taken) + 1) * longest <= self._batch_tokens


def owners(pieces: Iterable[Piece]) -> set[int]:
    """Whose texts these are."""
    return {piece.owner for piece in pieces}
