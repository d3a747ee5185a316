"""Guards of an operator's, as functions that a configuration names."""

import asyncio
import re

from hasten.messages.guard import GuardSpan, GuardVerdict, GuardWindow


async def names(tenant: str, window: GuardWindow) -> GuardVerdict:
    """Hides `Ann Lee`, also across pieces."""
    spans = [GuardSpan(start=found.start(), end=found.end()) for found in re.finditer("Ann Lee", window.text)]
    hold = next((size for size in range(6, 0, -1) if window.text.endswith("Ann Lee"[:size])), 0)
    return GuardVerdict(spans=spans, hold=hold)


def in_a_thread(tenant: str, window: GuardWindow) -> GuardVerdict:
    """The same, of a function that may block."""
    return asyncio.run(names(tenant, window))


async def fails(tenant: str, window: GuardWindow) -> GuardVerdict:
    raise RuntimeError


async def hangs(tenant: str, window: GuardWindow) -> GuardVerdict:
    await asyncio.Event().wait()
    raise AssertionError


async def wrong(tenant: str, window: GuardWindow) -> dict[str, str]:
    return {"spans": "none"}
