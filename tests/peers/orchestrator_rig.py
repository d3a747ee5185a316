"""Orchestrators as processes of their own, which can be killed or stopped."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec

from hasten.bus import Bus
from hasten.discovery import survey
from hasten.orchestrator.lease import BUCKET, Word
from loadtest.staleness.fleet import Member


class Orchestrators:
    """Processes by the id that their replica has on the bus."""

    def __init__(self, url: str, bus: Bus, folder: Path) -> None:
        self._url, self._bus, self._folder = url, bus, folder
        self.running: dict[str, Member] = {}

    async def add(self) -> str:
        command = [sys.executable, "-m", "hasten.orchestrator", "--data", str(self._folder)]
        made = Member("orchestrator", command, {}, self._url, self._folder / "orchestrator.log")
        await made.start()
        async with asyncio.timeout(60):
            while not (new := set(await self.reports()) - set(self.running)):
                await asyncio.sleep(0.05)
        (id_,) = new
        self.running[id_] = made
        return id_

    async def reports(self) -> dict[str, dict[str, Any]]:
        """What each replica says of itself."""
        return {one.id: one.report for one in await survey(self._bus) if one.name == "orchestrator"}

    async def leader(self) -> str:
        """The replica whose address is in the one lease there is."""
        message = await self._bus.js.get_last_msg(f"KV_{BUCKET}", f"$KV.{BUCKET}.>")
        return msgspec.json.decode(message.data or b"", type=Word).leader

    async def close(self) -> None:
        for member in self.running.values():
            await member.stop()
