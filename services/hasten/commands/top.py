"""`hasten top`: live figures of a running system in the terminal, from the events on its bus."""

import asyncio
import contextlib
import sys
import time
from typing import Annotated

import msgspec
import typer
from nats.aio.msg import Msg
from rich.console import Console
from rich.live import Live

from hasten.address import nats_url, without_secret
from hasten.board import HEARD, Board
from hasten.client import Hasten
from hasten.codec import decode
from hasten.commands.options import Json, Nats, with_client
from hasten.commands.top_screen import Frame, screen
from hasten.discovery import Running
from hasten.messages.failure import Failed
from hasten.topics import BadName, Topic

SURVEY_S = 2.0
"""Pause between two questions to all services."""
NARROW = 80
"""The width where there is no terminal to ask."""


class Top:
    """A board that is fed from the bus, and what the services said last; a context while it listens."""

    def __init__(self, hasten: Hasten, url: str, tenant: str | None) -> None:
        self._hasten, self._url, self._tenant = hasten, url, tenant
        self._board = Board(time.monotonic())
        self._services: list[Running] | None = None
        self._away_since: float | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when events are heard and the services have been asked once."""
        for topic in HEARD:
            await self._listen(topic)
        if self._tenant is None:
            self._services = await self._hasten.services()
            self._task = asyncio.get_running_loop().create_task(self._ask_for_ever())

    async def _listen(self, topic: Topic) -> None:
        async def receive(msg: Msg) -> None:
            with contextlib.suppress(BadName, Failed):
                self._board.hear(decode(topic.request, msg.data), topic.parse(msg.subject), time.monotonic())

        tenant = {"tenant": self._tenant} if self._tenant and "{tenant}" in topic.template else {}
        await self._hasten.bus.subscribe(topic.narrowed(**tenant), receive)

    async def _ask_for_ever(self) -> None:
        while True:
            await asyncio.sleep(SURVEY_S)
            if self._hasten.bus.connected:
                with contextlib.suppress(Exception):
                    self._services = await self._hasten.services()

    def frame(self) -> Frame:
        """What is known now."""
        now = time.monotonic()
        if self._hasten.bus.connected:
            self._away_since = None
        elif self._away_since is None:
            self._away_since = now
        away_s = None if self._away_since is None else now - self._away_since
        view = self._board.view(now, self._tenant)
        return Frame(view=view, services=self._services, away_s=away_s, url=self._url)

    async def close(self) -> None:
        """Asks no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def top(
    tenant: Annotated[
        str | None, typer.Option(metavar="NAME", help="The figures of this tenant alone. Else of all together.")
    ] = None,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="How often the screen is drawn anew.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Listen for --every seconds, show that once, and end.")] = False,
    nats: Nats = None,
    as_json: Json = False,
) -> None:
    """Show live hit rates, first-token times, throughput, lines, models, workers and invalidations; Ctrl-C ends it.

    Counts begin with the command. Where the output is no terminal, a screen follows the other; with --json each is one
    line.
    """

    async def work(hasten: Hasten) -> int:
        made = Top(hasten, without_secret(nats_url(nats)), tenant)
        await made.start()
        try:
            await _show(made, every, once=once, as_json=as_json)
        finally:
            await made.close()
        return 0

    with_client(nats, tenant or "demo", work)


async def _show(made: Top, every_s: float, *, once: bool, as_json: bool) -> None:
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = NARROW
    if console.is_terminal and not once and not as_json:
        with Live(screen(made.frame()), console=console, screen=True, auto_refresh=False) as live:
            while True:
                await asyncio.sleep(every_s)
                live.update(screen(made.frame()), refresh=True)
    while True:
        await asyncio.sleep(every_s)
        if as_json:
            print(msgspec.json.encode(made.frame()).decode(), flush=True)
        else:
            console.print(screen(made.frame()))
            sys.stdout.flush()
        if once:
            return
