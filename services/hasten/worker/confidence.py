"""Sums up how probable the tokens of one answer were to the model that wrote them."""

import math
from collections.abc import Sequence

import msgspec

from hasten.messages.chat import Note
from hasten.messages.generate import CONFIDENCE, Confidence


class Tally:
    """The log-probabilities of one answer, told at `after` tokens and at the end; never when that is 0."""

    def __init__(self, after: int) -> None:
        self._after = after
        self._tokens = 0
        self._sum = 0.0
        self._least = math.inf

    def add(self, logprobs: Sequence[float]) -> Note | None:
        """Takes in those of a delta; a note when they have reached `after` tokens with it."""
        before = self._tokens
        self._tokens += len(logprobs)
        self._sum += sum(logprobs)
        self._least = min(self._least, *logprobs) if logprobs else self._least
        return self.note() if before < self._after <= self._tokens else None

    def note(self) -> Note | None:
        """What is known so far; None without a token, or when nobody has asked."""
        if not self._tokens or not self._after:
            return None
        made = Confidence(
            tokens=self._tokens,
            mean_logprob=round(self._sum / self._tokens, 4),
            min_logprob=round(self._least, 4),
        )
        return Note(kind=CONFIDENCE, data=msgspec.to_builtins(made))
