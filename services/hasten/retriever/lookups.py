"""Asks the operator's look-ups, all at the same time; one that is slow, absent or wrong is left out with the reason."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.messages.failure import Failed, Failure
from hasten.messages.lookup import LOOKUP, Found, Lookup
from hasten.retriever.lookup import Answered, LookupSettings, Reason, Unusable, answered, check
from hasten.service import Call
from hasten.settings import SettingsError
from hasten.telemetry import counter, histogram, logger, where
from hasten.tool import imported
from hasten.topics import Topic

log = logger("retriever")
GROUP = "hasten.lookups"
LEFT_SHARE = 0.5
"""Of the time until the deadline, what a look-up may take: the answer is still to be generated."""
_outcomes = counter("retriever_lookups_total", "Look-ups asked, by name and what came of them", "lookup", "outcome")
_seconds = histogram("retriever_lookup_seconds", "Time until a look-up had answered, or was given up", "lookup")
Ask = Callable[[str, Lookup, float], Awaitable[Found]]


class Lookups:
    """The look-ups of one replica, by name. Raises SettingsError for one that cannot be asked or imported."""

    def __init__(self, bus: Bus, lookups: dict[str, LookupSettings]) -> None:
        check_all(lookups)
        self._settings = lookups
        self._ask: dict[str, Ask] = {
            name: _called(name, one.call) if one.call else _Heard(bus, name, one.subject).ask
            for name, one in lookups.items()
        }

    def __contains__(self, name: str) -> bool:
        return name in self._settings

    async def ask(self, names: list[str], asked: Lookup, call: Call) -> dict[str, Answered | Reason]:
        """What each of them has brought, or why it has not."""
        brought = await asyncio.gather(*(self._one(name, asked, call) for name in names))
        return dict(zip(names, brought, strict=True))

    async def _one(self, name: str, asked: Lookup, call: Call) -> Answered | Reason:
        one, loop = self._settings[name], asyncio.get_running_loop()
        timeout_s = min(one.timeout_ms / 1000, LEFT_SHARE * call.remaining_s())
        began = loop.time()
        try:
            async with asyncio.timeout(timeout_s):
                found = await self._ask[name](call.tenant, asked, now_ms() + timeout_s * 1000)
            made = answered(found, name, call.tenant, asked.limit, cacheable=one.cacheable)
        except TimeoutError:
            return self._left_out(name, "timeout", began)
        except Unusable as unusable:
            return self._left_out(name, unusable.reason, began)
        except Exception as error:
            log.error("the look-up %s failed: %s", name, where(error))
            return self._left_out(name, "failed", began)
        _outcomes.labels(name, "answered").inc()
        _seconds.labels(name).observe(loop.time() - began)
        return made

    def _left_out(self, name: str, reason: Reason, began: float) -> Reason:
        _outcomes.labels(name, reason).inc()
        _seconds.labels(name).observe(asyncio.get_running_loop().time() - began)
        return reason


def check_all(lookups: dict[str, LookupSettings]) -> None:
    """Raises SettingsError for a look-up that cannot be asked or imported."""
    check(lookups)
    for name, one in lookups.items():
        if one.call:
            _imported(name, one.call)


class _Heard:
    """A tool that answers on a subject."""

    def __init__(self, bus: Bus, name: str, subject: str) -> None:
        self._bus, self._name = bus, name
        self._topic: Topic = msgspec.structs.replace(LOOKUP, queue=name, template=subject or LOOKUP.template)

    async def ask(self, tenant: str, asked: Lookup, deadline_ms: float) -> Found:
        """Its reply; raises Unusable."""
        reply = await self._bus.request(self._topic, asked, tenant=tenant, lookup=self._name, deadline_ms=deadline_ms)
        if isinstance(reply, Found):
            return reply
        raise Unusable(_reason(reply))


def _reason(failure: Failure) -> Reason:
    """Why a tool on a subject has brought nothing; what is no reply of the topic comes as `internal`."""
    if failure.code == "deadline":
        return "timeout"
    if failure.code in ("unavailable", "disconnected"):
        return "absent"
    return "invalid" if failure.code == "internal" else "failed"


def _called(name: str, call: str) -> Ask:
    """A Python callable as a look-up."""
    function = _imported(name, call)

    async def ask(tenant: str, asked: Lookup, _: float) -> Found:
        try:
            made: Any = await function(tenant, asked)
        except Failed as failed:
            raise Unusable(_reason(failed.failure)) from None
        try:
            return msgspec.convert(msgspec.to_builtins(made), Found)
        except (msgspec.ValidationError, TypeError, ValueError, OverflowError, RecursionError):
            raise Unusable("invalid") from None

    return ask


def _imported(name: str, call: str) -> Callable[..., Awaitable[Any]]:
    """Raises SettingsError when there is no such function, or when it is not async."""
    setting = f"[retriever.lookups.{name}]"
    function = imported(setting, call, GROUP)
    if not asyncio.iscoroutinefunction(function):
        raise SettingsError(f"{setting} call = {call!r} is no async function")
    return function
