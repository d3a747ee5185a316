"""What one key or tenant has used up, agreed on by all gateways through one entry of a JetStream bucket.

An entry is changed by compare-and-swap, so what is written is never more than the limit allows. While less than half of
a limit is used, a request is let in at once and written behind its back, as long as no more than a sixteenth of the
limit waits to be written: that is what each gateway can be wrong by, and it drains before anything else is let in.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import msgspec
import nats.errors
import nats.js.errors
from nats.js.kv import KeyValue

from hasten.caller import Limits
from hasten.gateway.allowance import NOTHING, Amount, Lack, Spent, lack_of
from hasten.telemetry import logger

log = logger("gateway")
UNWRITTEN = 1 / 16
"""Of a limit: what a gateway lets in before it is written."""
WRITE_S = 0.5
"""How long a write may take. Who waits for one is then judged by what is known here."""
PAUSE_S = 0.5
"""Between two tries while JetStream does not answer."""
FRESH_S = 0.05
"""Nobody is refused by what was read longer ago: others may have given something back."""


class _Asked(msgspec.Struct):
    """One who waits for the exact answer."""

    amount: Amount
    verdict: asyncio.Future[Lack | None]


class Account:
    """One entry: `take` asks for an amount, `charge` uses one up that cannot be refused any more."""

    def __init__(self, bucket: Callable[[bool], Awaitable[KeyValue]], name: str, clock: Callable[[], float]) -> None:
        self._bucket, self._name, self._clock = bucket, name, clock
        self.limits = Limits()
        self._spent, self._revision, self._read_at = Spent(), -1, float("-inf")
        self._unwritten = NOTHING
        self._asked: list[_Asked] = []
        self._writing: asyncio.Task[None] | None = None
        self._closed = self._failed = False

    @property
    def spent(self) -> Spent:
        """What is used up now, as far as it is known here."""
        return self._spent.at(self._clock(), self.limits).plus(self._unwritten)

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be written."""
        return self._writing is None

    async def take(self, amount: Amount) -> Lack | None:
        """Uses an amount up if it fits; else what is lacking."""
        if self._revision >= 0 and self._surely_fits(amount):
            self.charge(amount)
            return None
        one = _Asked(amount, asyncio.get_running_loop().create_future())
        self._asked.append(one)
        self._write()
        return await one.verdict

    def _surely_fits(self, amount: Amount) -> bool:
        limits, spent, waiting = self.limits, self.spent.plus(amount), self._unwritten + amount
        halves = (
            (limits.requests_per_minute, spent.requests, waiting.requests),
            (limits.tokens_per_minute, spent.tokens, waiting.tokens),
            (limits.budget_usd, spent.budget_used(limits), waiting.usd),
        )
        return all(
            not limit or (used <= limit / 2 and unwritten <= limit * UNWRITTEN) for limit, used, unwritten in halves
        )

    def charge(self, amount: Amount) -> None:
        """Uses an amount up, or gives it back; it is written soon."""
        if amount != NOTHING:
            self._unwritten += amount
            self._write()

    def _write(self) -> None:
        if self._writing is None and not self._closed:
            self._writing = asyncio.get_running_loop().create_task(self._written())

    async def _written(self) -> None:
        try:
            while (self._asked or self._unwritten != NOTHING) and not self._closed:
                try:
                    async with asyncio.timeout(WRITE_S):
                        await self._settle()
                    self._failed = False
                except (nats.errors.Error, TimeoutError) as error:
                    self._failed = True
                    self._judge()
                    log.warning("what was used up cannot be written now: %s", type(error).__name__)
                    await asyncio.sleep(PAUSE_S)
        finally:
            self._judge()
            self._writing = None

    async def _settle(self) -> None:
        """One compare-and-swap of all that waits, after a look at the entry where that has changed."""
        bucket = await self._bucket(self._failed)
        if self._revision < 0:
            await self._read(bucket)
        asked, unwritten = list(self._asked), self._unwritten
        spent, verdicts = self._judged(asked)
        if any(verdicts) and self._age_s() > FRESH_S:
            await self._read(bucket)
            spent, verdicts = self._judged(asked)
        if unwritten != NOTHING or not all(verdicts):
            try:
                self._revision = await bucket.update(self._name, msgspec.json.encode(spent), last=self._revision)
            except nats.js.errors.KeyWrongLastSequenceError:
                await self._read(bucket)
                return
        self._spent, self._unwritten = spent, self._unwritten - unwritten
        for one, verdict in zip(asked, verdicts, strict=True):
            self._answer(one, verdict)

    def _judged(self, asked: list[_Asked]) -> tuple[Spent, list[Lack | None]]:
        """What is used up when each in turn who fits has been let in, and what each lacks."""
        spent = self.spent
        verdicts: list[Lack | None] = []
        for one in asked:
            verdicts.append(lack := lack_of(spent, one.amount, self.limits))
            spent = spent if lack else spent.plus(one.amount)
        return spent, verdicts

    def _age_s(self) -> float:
        return asyncio.get_running_loop().time() - self._read_at

    async def _read(self, bucket: KeyValue) -> None:
        self._read_at = asyncio.get_running_loop().time()
        try:
            entry = await bucket.get(self._name)
        except nats.js.errors.KeyNotFoundError as error:
            self._revision = 0 if error.entry is None else error.entry.revision or 0
            if self._revision:
                self._spent = Spent()  # an operator has deleted the entry, of which a mark is left
            return
        with contextlib.suppress(msgspec.DecodeError):
            self._spent = msgspec.json.decode(entry.value or b"", type=Spent)
        self._revision = entry.revision or 0

    def _judge(self) -> None:
        """Answers all who wait by what is known here."""
        for one in list(self._asked):
            lack = lack_of(self.spent, one.amount, self.limits)
            if lack is None:
                self._unwritten += one.amount
            self._answer(one, lack)

    def _answer(self, one: _Asked, verdict: Lack | None) -> None:
        self._asked.remove(one)
        if not one.verdict.done():
            one.verdict.set_result(verdict)
        elif verdict is None:
            self.charge(NOTHING - one.amount)  # who asked has gone meanwhile

    async def close(self) -> None:
        """Writes what waits, if that can be done now."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WRITE_S):
                while self._writing is not None:
                    await asyncio.shield(self._writing)
        self._closed = True
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
