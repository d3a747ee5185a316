"""What a key or a tenant has used up, and whether one more request fits: token buckets and budgets; pure.

A bucket holds a minute's worth and drains evenly, so what is allowed in any T seconds is at most the limit times
(1 + T / 60). Amounts are kept as used, not as left: a limit that the operator changes holds at once.
"""

import math
from datetime import UTC, datetime
from typing import Annotated

import msgspec

from hasten.caller import Limits

MINUTE_MS = 60_000.0
AHEAD_MS = MINUTE_MS
"""How far the clock of another gateway may be ahead. What is said to have been used later than that was used now: else
one clock that had jumped would let nothing drain until that time has come."""
LATEST_MS = 253_402_300_799_000.0
"""The last second of the year 9999: there is no date behind it."""
Used = Annotated[float, msgspec.Meta(ge=0, le=2**53)]


class Amount(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something to be used up: `requests`, `tokens` and `usd`; negative when it is given back."""

    requests: float = 0.0
    tokens: float = 0.0
    usd: float = 0.0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(
            requests=self.requests + other.requests, tokens=self.tokens + other.tokens, usd=self.usd + other.usd
        )

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(
            requests=self.requests - other.requests, tokens=self.tokens - other.tokens, usd=self.usd - other.usd
        )


NOTHING = Amount()


class Spent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was used up at `at_ms` (unix ms): requests and tokens that have not drained yet, dollars of that UTC day and
    month."""

    at_ms: Annotated[float, msgspec.Meta(ge=0, le=LATEST_MS)] = 0.0
    requests: Used = 0.0
    tokens: Used = 0.0
    day_usd: Used = 0.0
    month_usd: Used = 0.0

    def at(self, now_ms: float, limits: Limits) -> "Spent":
        """The same at a later moment; a clock that is a little behind changes nothing."""
        if self.at_ms - now_ms > AHEAD_MS:
            return msgspec.structs.replace(self, at_ms=now_ms)
        now_ms = max(now_ms, self.at_ms)
        passed, then, now = (now_ms - self.at_ms) / MINUTE_MS, _date(self.at_ms), _date(now_ms)
        return Spent(
            at_ms=now_ms,
            requests=_drained(self.requests, limits.requests_per_minute, passed),
            tokens=_drained(self.tokens, limits.tokens_per_minute, passed),
            day_usd=self.day_usd if then == now else 0.0,
            month_usd=self.month_usd if then[:7] == now[:7] else 0.0,
        )

    def plus(self, amount: Amount) -> "Spent":
        """With so much more used up; what is given back leaves nothing below zero."""
        return msgspec.structs.replace(
            self,
            requests=max(0.0, self.requests + amount.requests),
            tokens=max(0.0, self.tokens + amount.tokens),
            day_usd=max(0.0, self.day_usd + amount.usd),
            month_usd=max(0.0, self.month_usd + amount.usd),
        )

    def budget_used(self, limits: Limits) -> float:
        """Dollars of the period that the budget is for."""
        return self.day_usd if limits.budget_per == "day" else self.month_usd


def _drained(used: float, limit: int, minutes: float) -> float:
    return max(0.0, used - limit * minutes) if limit else 0.0


def _date(at_ms: float) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d}"


class Lack(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request does not fit: `what` there is too little of (requests, tokens or budget), the `limit`, what is
    `used` of it and how much was `asked` for, and when it would fit (`wait_ms`; None: never)."""

    what: str
    limit: float
    used: float
    asked: float
    wait_ms: float | None


def lack_of(spent: Spent, amount: Amount, limits: Limits) -> Lack | None:
    """What a request that needs this much lacks, None when it fits. `spent` is of the moment."""
    for what, limit, used, asked in (
        ("requests", limits.requests_per_minute, spent.requests, amount.requests),
        ("tokens", limits.tokens_per_minute, spent.tokens, amount.tokens),
    ):
        if limit and asked > 0 and used + asked > limit + 1e-6:
            wait_ms = (used + asked - limit) / limit * MINUTE_MS if asked <= limit else None
            return Lack(what=what, limit=limit, used=used, asked=asked, wait_ms=wait_ms)
    used_usd = spent.budget_used(limits)
    if limits.budget_usd and used_usd >= limits.budget_usd:
        wait_ms = _period_end_ms(spent.at_ms, limits) - spent.at_ms
        return Lack(what="budget", limit=limits.budget_usd, used=used_usd, asked=0.0, wait_ms=wait_ms)
    return None


def _period_end_ms(at_ms: float, limits: Limits) -> float:
    now = datetime.fromtimestamp(at_ms / 1000, UTC)
    if limits.budget_per == "day":
        return (math.floor(at_ms / 86_400_000) + 1) * 86_400_000.0
    year, month = (now.year + 1, 1) if now.month == 12 else (now.year, now.month + 1)
    return datetime(year, month, 1, tzinfo=UTC).timestamp() * 1000


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """How one limit stands: the `limit`, what `remains` of it and in how many ms all of it is there again."""

    limit: int
    remaining: int
    reset_ms: float


def shares(spent: Spent, limits: Limits) -> dict[str, Share]:
    """How the rates of these limits stand, by what they are of; none for what is without limit."""
    found: dict[str, Share] = {}
    for what, limit, used in (
        ("requests", limits.requests_per_minute, spent.requests),
        ("tokens", limits.tokens_per_minute, spent.tokens),
    ):
        if limit:
            remaining = max(0, math.floor(limit - used + 1e-6))
            found[what] = Share(limit=limit, remaining=remaining, reset_ms=used / limit * MINUTE_MS)
    return found


def shown_duration(ms: float) -> str:
    """A duration as OpenAI's headers have it: 120ms, 1.5s, 6m0s."""
    if ms < 1000:
        return f"{math.ceil(ms)}ms"
    seconds = math.ceil(ms / 10) / 100
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes:.0f}m{seconds:g}s" if minutes else f"{round(seconds, 2):g}s"
