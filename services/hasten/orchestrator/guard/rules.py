"""All rules of a replica, made ready: what holds for a tenant's answers, and how functions and tools are asked."""

import asyncio

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.messages.cache import Answer
from hasten.messages.failure import Failed
from hasten.messages.guard import GUARD, GuardVerdict, GuardWindow, Kind
from hasten.orchestrator.guard.automaton import Automaton
from hasten.orchestrator.guard.judgement import Ruling
from hasten.orchestrator.guard.rule import KINDS, GuardRule, automaton, mark_of, patterns, replacement
from hasten.orchestrator.guard.rule import check as check_rules
from hasten.orchestrator.guard.window import Patterns
from hasten.telemetry import counter, histogram, logger, where
from hasten.tool import Ask, tool
from hasten.tool import check as check_tool

log = logger("orchestrator")
GROUP = "hasten.guards"
NOTE = "guard"
_asked = counter("guard_asked_total", "Pieces of answers that functions and tools were asked about", "rule", "outcome")
_seconds = histogram("guard_asked_seconds", "Time until a function or tool had answered, or was given up", "rule")


class Judge:
    """A rule with a function or a tool."""

    def __init__(self, bus: Bus, rule: GuardRule) -> None:
        self.rule = rule
        self._ask: Ask = tool(bus, rule.where, rule, GUARD, GROUP)

    async def ruling(self, tenant: str, window: GuardWindow, deadline_ms: float) -> Ruling | None:
        """What it says of a piece; None when it has not answered in time, or wrongly."""
        rule, loop = self.rule, asyncio.get_running_loop()
        timeout_s = min(rule.timeout_ms, max(0.0, deadline_ms - now_ms())) / 1000
        began, verdict, outcome = loop.time(), None, "answered"
        try:
            async with asyncio.timeout(timeout_s):
                verdict = await self._ask(tenant, window, now_ms() + timeout_s * 1000)
        except TimeoutError:
            outcome = "timeout"
        except Failed as failed:
            outcome = failed.failure.code
        except Exception as error:
            outcome = "failed"
            log.error("the guard %s failed: %s", rule.name, where(error))
        _asked.labels(rule.name, outcome).inc()
        _seconds.labels(rule.name).observe(loop.time() - began)
        return None if verdict is None else self._made(verdict, window.kind)

    def _made(self, verdict: GuardVerdict, kind: Kind) -> Ruling:
        rule = self.rule
        stands = replacement(rule, kind)
        stops = rule.action == "stop"
        return Ruling(rule=rule.name, verdict=verdict, stops=stops, replacement=stands, longest=rule.longest)


class Rules:
    """The rules for the answers of one tenant. `mark` names them: an answer that carries it was made under these."""

    def __init__(self, rules: list[tuple[GuardRule, Automaton | Judge]]) -> None:
        self.mark = mark_of([rule for rule, _ in rules])
        expressions = [(rule, made) for rule, made in rules if isinstance(made, Automaton)]
        self.patterns: dict[Kind, Patterns] = {kind: patterns(expressions, kind) for kind in KINDS}
        self.judges: dict[Kind, list[Judge]] = {
            kind: [made for rule, made in rules if isinstance(made, Judge) and kind in rule.of] for kind in KINDS
        }

    def cover(self, answer: Answer) -> bool:
        """Whether a stored answer was made under these rules, so that it may be shown as it is."""
        return not self.mark or any(
            note.get("kind") == NOTE and isinstance(data := note.get("data"), dict) and data.get("rules") == self.mark
            for note in answer.notes
        )


def check(rules: list[GuardRule]) -> None:
    """Raises SettingsError for rules that cannot be kept."""
    check_rules(rules)
    for rule in rules:
        automaton(rule) if rule.pattern else check_tool(rule.where, rule, GUARD, GROUP)


class Guard:
    """The rules of the configuration. Raises SettingsError for those that cannot be kept."""

    def __init__(self, bus: Bus, rules: list[GuardRule]) -> None:
        check(rules)
        self._rules = [(rule, automaton(rule) if rule.pattern else Judge(bus, rule)) for rule in rules]
        self._general = Rules([(rule, made) for rule, made in self._rules if not rule.tenants])
        self._named = {tenant for rule in rules for tenant in rule.tenants}
        self._by_tenant: dict[str, Rules] = {}

    def of(self, tenant: str) -> Rules:
        """The rules for a tenant."""
        if tenant not in self._named:
            return self._general
        if tenant not in self._by_tenant:
            self._by_tenant[tenant] = Rules(
                [(rule, made) for rule, made in self._rules if not rule.tenants or tenant in rule.tenants]
            )
        return self._by_tenant[tenant]
