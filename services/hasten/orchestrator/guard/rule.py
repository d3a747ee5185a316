"""Reads the operator's rules on answers, and refuses those that cannot be kept; pure."""

import hashlib
import json
import re
from typing import Literal

import msgspec

from hasten.messages.guard import Kind
from hasten.orchestrator.guard.automaton import Automaton
from hasten.orchestrator.guard.program import Unsupported, compiled
from hasten.orchestrator.guard.window import Pattern, Patterns
from hasten.settings import SettingsError
from hasten.topics import BadName, checked

KINDS: tuple[Kind, ...] = ("text", "reasoning", "tool_calls")
MOST_RULES = 256
LONGEST = 4096
READING = 1
"""Part of every mark: a change of how rules are read makes all answers be read again."""


class GuardRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule on answers, `[[orchestrator.guard]]`: a `pattern`, a Python function to `call`, or a `subject` to ask on.

    `pattern` is a regular expression as Python's with MULTILINE, without groups that are referred to and without
    looking ahead or behind. `call` is `package.module:function` or the name of an entry point of the group
    `hasten.guards`: a function of the tenant and a GuardWindow that returns a GuardVerdict; an async one runs on the
    event loop and must not block, any other in a thread. `subject` is `hasten.v1.guard.{tenant}.{rule}` or the tool's
    own, with `{tenant}` in it; whoever hears it is sent a GuardWindow.

    What is found is replaced by `replacement` (redact), or the answer ends before it (stop). `of` says where it is
    looked for: text, reasoning, tool_calls (the arguments, as the JSON that they are). `longest` is the most characters
    of a match, and of what a function or tool is shown again. The rule is for `tenants`, or for all.

    A function or tool has `timeout_ms` for each piece. When it has not answered, or failed, what it has not seen is not
    shown and the answer ends (`unanswered` closed), or it is shown and the rule is left out for the rest of the answer
    (open). `version` names what a function or tool does: change it when stored answers are to be read again.
    """

    name: str
    pattern: str = ""
    call: str = ""
    subject: str = ""
    ignore_case: bool = False
    action: Literal["redact", "stop"] = "redact"
    replacement: str = "[redacted]"
    of: list[Kind] = msgspec.field(default_factory=lambda: ["text", "reasoning"])
    longest: int = 256
    tenants: list[str] = []
    timeout_ms: float = 200.0
    unanswered: Literal["closed", "open"] = "closed"
    version: str = ""

    @property
    def where(self) -> str:
        """What an error calls it."""
        return f"[[orchestrator.guard]] {self.name}"


def check(rules: list[GuardRule]) -> None:
    """Raises SettingsError for rules that cannot be kept."""
    if len(rules) > MOST_RULES:
        raise SettingsError(f"[[orchestrator.guard]] has {len(rules)} rules, at most {MOST_RULES} are taken")
    for at, rule in enumerate(rules):
        try:
            checked("the name of a rule", rule.name)
            for tenant in rule.tenants:
                checked("a tenant", tenant)
        except BadName as error:
            raise SettingsError(f"{rule.where}: {error}") from None
        if rule.name in {other.name for other in rules[:at]}:
            raise SettingsError(f"{rule.where}: there are two rules of this name")
        if sum(map(bool, (rule.pattern, rule.call, rule.subject))) != 1:
            raise SettingsError(f"{rule.where} must have a pattern, a call or a subject, and one of them only")
        if not rule.of:
            raise SettingsError(f"{rule.where}: of must name at least one of {', '.join(KINDS)}")
        if not 1 <= rule.longest <= LONGEST:
            raise SettingsError(f"{rule.where}: longest must be 1 to {LONGEST}")
        if not 0 < rule.timeout_ms <= 60_000:
            raise SettingsError(f"{rule.where}: timeout_ms must be above 0 and at most 60000")


def automaton(rule: GuardRule) -> Automaton:
    """What finds the matches of a rule with a pattern; raises SettingsError."""
    try:
        return Automaton(compiled(rule.pattern, re.IGNORECASE if rule.ignore_case else 0))
    except (Unsupported, re.error, OverflowError, RecursionError) as error:
        problem = str(error) or "it is nested too deeply"
        raise SettingsError(f"{rule.where}: the pattern cannot be used: {problem}") from None


def patterns(rules: list[tuple[GuardRule, Automaton]], kind: Kind) -> Patterns:
    """The rules for one kind of text, whose replacements fit into it."""
    return Patterns(
        [
            Pattern(
                name=rule.name,
                automaton=made,
                longest=rule.longest,
                stops=rule.action == "stop",
                replacement=replacement(rule, kind),
            )
            for rule, made in rules
            if kind in rule.of
        ]
    )


def replacement(rule: GuardRule, kind: Kind) -> str:
    """What stands for what a rule has found: within JSON as it is written there."""
    return json.dumps(rule.replacement)[1:-1] if kind == "tool_calls" else rule.replacement


def mark_of(rules: list[GuardRule]) -> str:
    """What an answer carries that was made under exactly these rules; nothing where there are none."""
    if not rules:
        return ""
    return hashlib.sha256(msgspec.json.encode([READING, rules], order="deterministic")).hexdigest()[:32]
