"""How long generations take here, learnt from those that have ended; pure: times are given.

The time to a first token is a line over the prompt's tokens, the rest a mean per token. Each estimate errs towards too
short: who is admitted in vain costs one slot for a while, who is refused in vain costs a caller the answer.
"""

from itertools import pairwise

import msgspec

DECAY = 0.95
"""What a generation counts for when the next one has ended."""
FURTHER = 2.0
"""How far beyond the longest prompt of late the line is believed, as a factor."""
STALE_MS = 10_000.0
"""After so long without an end, or a few mean generations if that is longer, nothing is claimed until the next one."""
STALE_ENDS = 4.0


class Pace(msgspec.Struct):
    """What has been learnt; made anew it claims nothing, and weighs requests by the simulator's rates."""

    token_ms: float = 10.0
    answer_tokens: float = 64.0
    held_ms: float = 0.0
    ended_at: float = float("-inf")
    _count: float = 0.0
    _x: float = 0.0
    _y: float = 0.0
    _xx: float = 0.0
    _xy: float = 0.0
    _longest: float = 0.0

    def ended(self, now: float, prompt: int, first_ms: float, answer: int, held_ms: float) -> None:
        """Learns from a generation that held a slot for `held_ms`: `prompt` tokens, the first of `answer` tokens after
        `first_ms` in its slot. `now` is in ms."""
        new = 1.0 if self.ended_at == float("-inf") else 0.2
        self.ended_at = now
        self.held_ms += new * (held_ms - self.held_ms)
        self.answer_tokens += new * (answer - self.answer_tokens)
        if answer > 1:
            self.token_ms += new * ((held_ms - first_ms) / (answer - 1) - self.token_ms)
        self._count = DECAY * self._count + 1
        self._x = DECAY * self._x + prompt
        self._y = DECAY * self._y + first_ms
        self._xx = DECAY * self._xx + prompt * prompt
        self._xy = DECAY * self._xy + prompt * first_ms
        self._longest = max(DECAY * self._longest, float(prompt))

    def claims(self, now: float) -> bool:
        """Whether what was learnt is fresh enough to refuse somebody for it."""
        return now - self.ended_at < max(STALE_MS, STALE_ENDS * self.held_ms)

    def first_ms(self, prompt: int) -> float:
        """The time in a slot before the first token, by weighted least squares over the prompt's tokens."""
        if not self._count:
            return prompt * 0.5
        mean_x, mean_y = self._x / self._count, self._y / self._count
        spread = self._xx / self._count - mean_x * mean_x
        slope = (self._xy / self._count - mean_x * mean_y) / spread if spread > 1.0 else 0.0
        slope = max(0.0, min(slope, mean_y / max(1.0, mean_x)))
        return max(0.0, mean_y + slope * (min(float(prompt), FURTHER * self._longest) - mean_x))

    def slot_ms(self, prompt: int, max_tokens: int) -> float:
        """The time in a slot of a request: to its first token, then an answer of the mean length or the longest it
        may have."""
        return self.first_ms(prompt) + self.token_ms * max(0.0, min(float(max_tokens), self.answer_tokens) - 1)


def wait_ms(ahead_ms: float, busy_ms: list[float], free: int) -> float:
    """When a newcomer gets a slot with `ahead_ms` of work before it and slots that are busy for so long each.

    The work is poured over the slots as if it could be divided: never longer than it takes.
    """
    if free > 0 or not busy_ms:
        return 0.0
    ends = sorted(busy_ms)
    for open_, (end, later) in enumerate(pairwise(ends), start=1):
        room = (later - end) * open_
        if ahead_ms <= room:
            return end + ahead_ms / open_
        ahead_ms -= room
    return ends[-1] + ahead_ms / len(ends)
