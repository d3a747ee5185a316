"""An orchestrator with rules on what readers are shown, and an answer that they find something in."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from replica_rig import ASK, events_of, serving

from hasten.bus import Bus
from hasten.messages.chat import CHAT
from hasten.orchestrator.guard.rule import GuardRule
from hasten.orchestrator.service import Orchestrator
from hasten.orchestrator.settings import Settings

ANSWER = "Write to Ann Lee at ann@example.org today, or call 555 1234."
MAIL = GuardRule(name="mail", pattern=r"[\w.]+@[\w.]+\w", replacement="[mail]")
PHONE = GuardRule(name="phone", pattern=r"\b555 \d{4}", action="stop")
HIDDEN = ANSWER.replace("ann@example.org", "[mail]")
PATIENT_MS = 30_000


@contextlib.asynccontextmanager
async def guarded(bus: Bus, *rules: GuardRule) -> AsyncIterator[Orchestrator]:
    async with serving(bus, Settings(exact_wait_ms=20, recent_s=60, again_s=0, guard=list(rules))) as made:
        yield made


async def ask(bus: Bus, body: dict[str, Any] = ASK, tenant: str = "acme") -> list[Any]:
    return await events_of(await bus.stream(CHAT, body, tenant=tenant))
