"""Decides which passages are read again with the question, in which order, how many fit into the time, and what becomes
of the ranking; pure: the model and the clock are given."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from hasten.messages.retrieve import Passage, Reranking
from hasten.retriever.rerankers.model import Model, relevance

OVERLAP = 24
"""Tokens that two windows of a passage share, so that a sentence is whole in one of them."""
LEAST_ROOM = 32
"""Tokens of a passage beside the question, at least: with fewer there is no telling."""
LEAD_SHARE = 0.25
"""Of a window, what title and heading may take; longer ones are left out."""
BATCH_TOKENS = 128
"""In one batch, padding included: a larger one saves nothing on a processor, and the time is looked at between them."""
AHEAD = 8
"""Windows among which companions of like length are looked for."""
ALIKE = 1.25
"""How much longer the longest of a batch may be than its first."""
FADE_S = 20.0
"""After so long without news a pace counts for half: a machine that was busy is tried again."""
DEADLINE_SHARE = 0.1
"""Of the time that is left, what reranking may take: the answer is still to be generated."""


class LongQuestion(ValueError):
    """The question leaves no room for a passage."""


class Window(NamedTuple):
    """A stretch of a passage that is read with the question: whose it is, its text, the tokens of the pair."""

    passage: int
    text: str
    tokens: int


class Budget(NamedTuple):
    """How long reranking may take, and whether it is the deadline that says so."""

    ms: float
    by_deadline: bool


def budget(asked_ms: float, left_ms: float) -> Budget:
    """The operator's time, or a share of what is left until the deadline."""
    most_ms = left_ms * DEADLINE_SHARE
    return Budget(min(asked_ms, most_ms), most_ms < asked_ms)


class Pace:
    """How long a token takes, as the last batches showed; 0 as long as nothing is known."""

    def __init__(self) -> None:
        self._ms, self._at = 0.0, 0.0

    def learn(self, tokens: int, ms: float, now_s: float) -> None:
        """Takes in one batch of so many tokens, padding included."""
        new = ms / max(1, tokens)
        self._ms = new if self._ms == 0 else 0.7 * self._ms + 0.3 * new
        self._at = now_s

    def expected_ms(self, tokens: int, now_s: float) -> float:
        """How long a batch of so many tokens will take."""
        return float(tokens * self._ms * 0.5 ** (max(0.0, now_s - self._at) / FADE_S))


class Progress:
    """What has been read so far. One thread writes and another may copy `scores` at any moment: it holds whole passages
    only, by their place, each with the best of its windows."""

    def __init__(self) -> None:
        self.scores: dict[int, float] = {}
        self.begun = False
        self._best: dict[int, float] = {}

    def take(self, window: Window, score: float, *, last: bool) -> None:
        """Notes the score of a window, which may be the `last` of its passage to be read."""
        best = self._best[window.passage] = max(score, self._best.get(window.passage, score))
        if last:
            self.scores[window.passage] = best


def windows(model: Model, question_tokens: int, passage: Passage, at: int) -> list[Window]:
    """A passage in pieces that fit beside the question, each with title and heading where these are short.

    Cuts are between tokens, at the beginning of a word where one is near, and pieces overlap. Of a passage whose
    sentences have been compared with the question already, the piece around the nearest one stands for all.
    """
    lead = "\n".join(part for part in (passage.title, passage.heading) if part and part not in passage.text[:300])
    lead_tokens = len(model.tokens(lead)) + 1 if lead else 0
    room = model.window - model.special - question_tokens
    if lead_tokens > LEAD_SHARE * room:
        lead, lead_tokens = "", 0
    fixed = model.special + question_tokens + lead_tokens
    tokens = model.tokens(passage.text)
    found = [
        Window(at, f"{lead}\n{text}" if lead else text, fixed + last - first)
        for first, last in pieces(passage.text, tokens, room - lead_tokens, _nearest(passage, tokens))
        if (text := passage.text[tokens[first][0] : tokens[last - 1][1]].strip())
    ]
    return found or [Window(at, lead or passage.text[:1], fixed)]


def _nearest(passage: Passage, tokens: Sequence[tuple[int, int]]) -> int | None:
    """The token at the middle of the sentence that is nearest to the question."""
    if not passage.sentences:
        return None
    best = max(passage.sentences, key=lambda sentence: sentence.score)
    middle = (best.start + best.end) // 2
    return next((at for at, (_, end) in enumerate(tokens) if end > middle), None)


def pieces(
    text: str, tokens: Sequence[tuple[int, int]], room: int, around: int | None = None
) -> Iterator[tuple[int, int]]:
    """Ranges of at most `room` tokens that cover all of them, or the one `around` a token."""
    if not tokens:
        return
    if len(tokens) <= room:
        yield 0, len(tokens)
        return
    if around is not None:
        first = min(max(0, around - room // 2), len(tokens) - room)
        yield first, first + room
        return
    first = 0
    while True:
        last = min(first + room, len(tokens))
        yield first, last
        if last == len(tokens):
            return
        first = _word(text, tokens, max(first + 1, last - OVERLAP), last)


def _word(text: str, tokens: Sequence[tuple[int, int]], at: int, last: int) -> int:
    """The first token from `at` on that begins a word, `at` itself where none does before `last`."""
    for token in range(at, last):
        start = tokens[token][0]
        if start == 0 or text[start - 1].isspace():
            return token
    return at


def batch(waiting: deque[Window], most_tokens: int) -> list[Window]:
    """The next window, which is the best that is left, with others of like length from behind it; taken out of line."""
    first = waiting.popleft()
    taken, longest = [first], first.tokens
    for window in list(waiting)[:AHEAD]:
        wider = max(longest, window.tokens)
        alike = wider <= ALIKE * first.tokens and first.tokens <= ALIKE * window.tokens
        if alike and (len(taken) + 1) * wider <= most_tokens:
            taken.append(window)
            waiting.remove(window)
            longest = wider
    return taken


def read(
    model: Model,
    label: int,
    question: str,
    passages: Sequence[Passage],
    progress: Progress,
    pace: Pace,
    until_s: float,
    clock: Callable[[], float],
) -> None:
    """Reads passages with the question, best first, as long as the next batch is likely to end by `until_s`.

    Raises LongQuestion, and whatever the model does. `clock` is in seconds.
    """
    progress.begun = True
    asked = _question_tokens(model, question)
    waiting: deque[Window] = deque()
    left: dict[int, int] = {}
    coming = iter(enumerate(passages))
    while clock() < until_s:
        while len(waiting) <= AHEAD and (following := next(coming, None)) is not None:
            made = windows(model, asked, following[1], following[0])
            left[following[0]] = len(made)
            waiting.extend(made)
            if clock() >= until_s:
                return
        if not waiting:
            break
        now_s = clock()
        affordable = until_s - now_s
        if pace.expected_ms(waiting[0].tokens, now_s) > affordable * 1000:
            return
        taken = batch(waiting, _tokens_for(affordable, pace, now_s))
        logits = model.logits(question, [window.text for window in taken])
        ended_s = clock()
        pace.learn(len(taken) * max(window.tokens for window in taken), (ended_s - now_s) * 1000, ended_s)
        scores = relevance(logits, label)
        if not np.isfinite(scores).all():
            raise ValueError("the model's scores are not finite")
        for window, score in zip(taken, scores, strict=True):
            left[window.passage] -= 1
            progress.take(window, float(score), last=not left[window.passage])


def _tokens_for(affordable_s: float, pace: Pace, now_s: float) -> int:
    """The size of a batch: what one may have at most, or what the time allows."""
    each_ms = pace.expected_ms(1, now_s)
    return min(BATCH_TOKENS, int(affordable_s * 1000 / each_ms)) if each_ms else BATCH_TOKENS


def _question_tokens(model: Model, question: str) -> int:
    most = model.window - model.special - LEAST_ROOM
    if len(question) > 32 * max(1, most) or (asked := len(model.tokens(question))) > most:
        raise LongQuestion
    return asked


def fused(passages: Sequence[Passage], scores: dict[int, float], weight: float) -> list[Passage]:
    """The passages by the mean of what the vectors and the cross-encoder say, `weight` being the latter's share.

    The cross-encoder's scores are brought to the mean and the spread of the others', over the passages that it read;
    those it did not read keep their score, and so their order.
    """
    if len(scores) < 2:
        return list(passages)
    at = sorted(scores)
    ours = np.array([passages[one].score for one in at])
    theirs = np.array([scores[one] for one in at])
    spread = theirs.std()
    scaled = ours.mean() + (theirs - theirs.mean()) * (ours.std() / spread if spread > 0 else 0.0)
    mixed = dict(zip(at, ((1 - weight) * ours + weight * scaled).tolist(), strict=True))
    made = [
        msgspec.structs.replace(passage, score=round(mixed[place], 6)) if place in mixed else passage
        for place, passage in enumerate(passages)
    ]
    return sorted(made, key=lambda passage: -passage.score)


def skipped(reason: str, candidates: int) -> Reranking:
    """The account of passages that were not read, and why."""
    return Reranking(skipped=reason, candidates=candidates)
