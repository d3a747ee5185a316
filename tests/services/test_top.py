"""`hasten top` as a process: what it hears is what it shows, also when NATS goes away and comes back."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

from command_rig import PATIENCE_S, said, start
from path_rig import QUESTION, Rig, rig

from hasten.bus import Bus
from hasten.messages.chat import FINISHED, Finished
from hasten.nats_server import NatsServer
from hasten.service import Service

__all__ = ["rig"]


class Screens:
    """The frames of a running `hasten top --json`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def begin(cls, server: NatsServer, *options: str) -> "Screens":
        return cls(await start(server, "top", "--json", "--every", "0.1", *options))

    async def shows(self, holds: Any) -> dict[str, Any]:
        """The first frame of which it holds."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            while True:
                frame: dict[str, Any] = json.loads(await self._process.stdout.readline())
                if holds(frame):
                    return frame

    async def end(self) -> int | None:
        self._process.send_signal(signal.SIGINT)
        await self._process.communicate()
        return self._process.returncode


def requests(frame: dict[str, Any]) -> int:
    return int(frame["view"].get("figures", {}).get("requests", 0))


async def test_what_is_asked_is_shown_for_all_and_for_its_tenant_alone(nats_server: NatsServer, rig: Rig) -> None:
    everything, mine, others = [
        await Screens.begin(nats_server, *options) for options in ((), ("--tenant", "acme"), ("--tenant", "globex"))
    ]
    for screens in (everything, mine, others):
        await screens.shows(lambda frame: True)
    await rig.ask(QUESTION)
    frame = await everything.shows(requests)
    assert [one["name"] for one in frame["view"]["tenants"]] == ["acme"]
    await everything.shows(lambda frame: {"cache", "orchestrator"} <= {one["name"] for one in frame["services"]})
    own = await mine.shows(requests)
    assert (own["view"]["tenant"], own["view"].get("tenants"), own.get("services")) == ("acme", None, None)
    assert requests(await others.shows(lambda frame: True)) == 0
    assert [await screens.end() for screens in (everything, mine, others)] == [130, 130, 130]


async def test_once_ends_by_itself_and_needs_no_terminal(nats_server: NatsServer, bus: Bus) -> None:
    service = Service(bus, "cache", "Says that it is there")
    await service.start()
    lines: list[str] = []
    async with asyncio.timeout(PATIENCE_S):
        while not any(line.startswith("cache") for line in lines):  # which a busy machine may let answer too late
            code, out, errors = await said(nats_server, "top", "--once", "--every", "0.1")
            assert code == 0, errors
            lines = out.splitlines()
    assert "0 requests" in out
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in out
    await service.close()


async def test_it_says_that_nats_is_away_and_goes_on_when_it_is_back(tmp_path: Path) -> None:
    server = await NatsServer(tmp_path / "jetstream").start()
    screens = await Screens.begin(server)
    await screens.shows(lambda frame: "away_s" not in frame or frame["away_s"] is None)
    await server.stop(kill=True)
    await screens.shows(lambda frame: frame.get("away_s") is not None)
    await server.start()
    await screens.shows(lambda frame: frame.get("away_s") is None)
    bus = await Bus.connect(server.url)
    seen: dict[str, Any] = {}
    for at in range(1, 1000):
        await bus.publish(FINISHED, Finished(source="o", seq=at, request_id=f"r{at}", outcome="done"), tenant="acme")
        seen = await screens.shows(lambda frame: True)
        if requests(seen):
            break
    assert requests(seen)
    await bus.close()
    assert await screens.end() == 130
    await server.stop(kill=True)
