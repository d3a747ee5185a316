"""The operator's checks of whole answers: asked all at once, and none of them can hold an answer up or spoil it."""

import asyncio
from typing import Any

import msgspec

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.messages.check import CHECK, Check, Checked
from hasten.messages.failure import Failed
from hasten.settings import SettingsError
from hasten.telemetry import counter, histogram, logger, where
from hasten.tool import Ask, tool
from hasten.tool import check as check_tool
from hasten.topics import BadName, checked

log = logger("orchestrator")
GROUP = "hasten.checks"
MOST = 32
_checked = counter("checks_total", "Checks of answers, by name and what came of them", "check", "outcome")
_seconds = histogram("checks_seconds", "Time until a check had answered, or was given up", "check")


class CheckSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A check of whole answers, `[[orchestrator.checks]]`: a Python function to `call`, or a `subject` to ask on.

    `call` is `package.module:function` or the name of an entry point of the group `hasten.checks`: a function of the
    tenant and a Check that returns a Checked; an async one runs on the event loop and must not block, any other in a
    thread. `subject` is `hasten.v1.check.{tenant}.{check}` or the tool's own, with `{tenant}` in it. `timeout_ms` is
    how long it is waited for, within `verify_ms`. An answer is stored without the word of a check that has not
    answered, unless that is `required`.
    """

    name: str
    call: str = ""
    subject: str = ""
    timeout_ms: float = 1000.0
    required: bool = False

    @property
    def where(self) -> str:
        """What an error calls it."""
        return f"[[orchestrator.checks]] {self.name}"


class Checks:
    """The checks of a replica. Raises SettingsError for those that cannot be asked."""

    def __init__(self, bus: Bus, checks: list[CheckSettings]) -> None:
        check(checks)
        self._checks: list[tuple[CheckSettings, Ask]] = [
            (one, tool(bus, one.where, one, CHECK, GROUP)) for one in checks
        ]

    def __len__(self) -> int:
        return len(self._checks)

    def begin(self, tenant: str, asked: Check, until_ms: float) -> dict[CheckSettings, asyncio.Task[Checked | str]]:
        """Asks all of them; each task returns what was found, or in a word why nothing was."""
        loop = asyncio.get_running_loop()
        return {one: loop.create_task(_asked(one, ask, tenant, asked, until_ms)) for one, ask in self._checks}


async def _asked(one: CheckSettings, ask: Ask, tenant: str, asked: Check, until_ms: float) -> Checked | str:
    loop = asyncio.get_running_loop()
    began, outcome = loop.time(), "answered"
    timeout_s = min(one.timeout_ms, max(0.0, until_ms - now_ms())) / 1000
    found: Any = None
    try:
        async with asyncio.timeout(timeout_s):
            found = await ask(tenant, asked, now_ms() + timeout_s * 1000)
    except TimeoutError:
        outcome = "timeout"
    except Failed as failed:
        outcome = "timeout" if failed.failure.code == "deadline" else failed.failure.code
    except Exception as error:
        outcome = "failed"
        log.error("the check %s failed: %s", one.name, where(error))
    _checked.labels(one.name, outcome).inc()
    _seconds.labels(one.name).observe(loop.time() - began)
    return found if found is not None else outcome


def check(checks: list[CheckSettings]) -> None:
    """Raises SettingsError for checks that cannot be asked."""
    if len(checks) > MOST:
        raise SettingsError(f"[[orchestrator.checks]] has {len(checks)} checks, at most {MOST} are taken")
    for at, one in enumerate(checks):
        try:
            checked("the name of a check", one.name)
        except BadName as error:
            raise SettingsError(f"{one.where}: {error}") from None
        if one.name in {other.name for other in checks[:at]} or one.name == "citations":
            raise SettingsError(f"{one.where}: the name is taken")
        if bool(one.call) == bool(one.subject):
            raise SettingsError(f"{one.where} must have a call or a subject, and one of them only")
        if not 0 < one.timeout_ms <= 60_000:
            raise SettingsError(f"{one.where}: timeout_ms must be above 0 and at most 60000")
        check_tool(one.where, one, CHECK, GROUP)
