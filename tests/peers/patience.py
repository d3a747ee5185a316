"""Waits for what a test has begun, for as long as a machine with other work may take."""

import asyncio
from collections.abc import Callable
from typing import Any

PATIENCE_S = 60.0


async def until(holds: Callable[[], Any], patience_s: float = PATIENCE_S) -> None:
    """Returns as soon as it holds; raises TimeoutError when it never does."""
    async with asyncio.timeout(patience_s):
        while not holds():
            await asyncio.sleep(0.005)
