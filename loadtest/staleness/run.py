"""Puts the parts together: a fleet, the faults, the operations, and the report."""

import random
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from hasten.bus import Bus
from loadtest.staleness.chat import ChatDrive
from loadtest.staleness.drive import Drive
from loadtest.staleness.faults import FAULTS, Faults
from loadtest.staleness.fleet import fleet
from loadtest.staleness.world import Violation, World


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What was done and what came of it; `violations` is the number of stale or foreign answers, `first` some."""

    scenario: str
    seed: int
    operations: int
    seconds: float
    counts: dict[str, int]
    hits: dict[str, int]
    misses: dict[str, int]
    puts: dict[str, int]
    faults: dict[str, int]
    violations: int
    first: list[Violation]


async def search(
    operations: int,
    seed: int,
    folder: Path,
    *,
    chat: bool = False,
    replicas: int = 3,
    callers: int = 24,
    every_s: float = 2.0,
    kinds: Iterable[str] = FAULTS,
    command: Sequence[str] = (),
    enough: int = 20,
) -> Report:
    """Asks several replicas of the cache that share a store, or with `chat` orchestrators in front of them, as many.
    `kinds` are the faults; `command` starts another cache in place of hasten's; it ends early with `enough` violations.
    """
    began_s, world = time.monotonic(), World()
    services = [*(["orchestrator"] * replicas if chat else []), *["cache"] * replicas]
    async with fleet(folder, services, cache=command) as made:
        bus = await Bus.connect(made.server.url, name="staleness")
        drive = (ChatDrive if chat else Drive)(bus, world, seed)
        faults = Faults(made, bus, random.Random(seed + 1), every_s=every_s, kinds=set(kinds))
        try:
            async with drive.playing(), faults.happening():
                await drive.run(operations, callers, enough)
        finally:
            await bus.close()
    return Report(
        scenario="orchestrators" if chat else "caches",
        seed=seed,
        operations=drive.counts.total(),
        seconds=round(time.monotonic() - began_s, 1),
        counts=dict(drive.counts),
        hits=dict(drive.hits),
        misses=dict(drive.misses),
        puts=dict(drive.puts),
        faults=dict(faults.done),
        violations=len(world.violations),
        first=world.violations[:enough],
    )
