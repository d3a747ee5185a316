"""How fast this worker is: measured by itself, so that every router hears the same; pure."""

_FADE = 0.98
"""What an earlier measurement still counts for at the next one: about the last 50 requests."""
_UNKNOWN_MS = 5.0
"""For each prompt token: 200 a second, slower than most."""


class Speed:
    """The time of a prompt token that had to be computed, and the time an answer takes after its first token.

    Both are 0 until something was measured. Times are ms, and are those in a slot: the line is not part of them.
    """

    def __init__(self) -> None:
        self._first_ms = self._tokens = 0.0
        self._answers_ms = self._answers = 0.0

    def finished(self, first_ms: float, computed: int, answer_ms: float) -> None:
        """Takes in a generation: the time to its first token, the prompt tokens computed for it, and the rest."""
        if computed > 0:
            self._first_ms = _FADE * self._first_ms + first_ms
            self._tokens = _FADE * self._tokens + computed
        self._answers_ms = _FADE * self._answers_ms + answer_ms
        self._answers = _FADE * self._answers + 1

    @property
    def token_ms(self) -> float:
        """Time to the first token per prompt token computed."""
        return self._first_ms / self._tokens if self._tokens else 0.0

    def first_ms(self, tokens: int) -> float:
        """How long a prompt of so many tokens takes in a slot at most; a guess until something was measured."""
        return tokens * (self.token_ms or _UNKNOWN_MS)

    @property
    def answer_ms(self) -> float:
        """How long a slot is held after the first token."""
        return self._answers_ms / self._answers if self._answers else 0.0
