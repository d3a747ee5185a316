"""`hasten watch`: hits, misses and evictions with their reasons, as they happen."""

import asyncio
import contextlib
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Annotated

import msgspec
import typer
from nats.aio.msg import Msg
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hasten.client import Hasten
from hasten.codec import decode
from hasten.commands.invalidate import counted
from hasten.commands.options import Json, Nats, with_client
from hasten.messages.cache import INVALIDATED, Invalidated
from hasten.messages.chat import FINISHED, Finished
from hasten.messages.failure import Failed
from hasten.run import say
from hasten.topics import BadName, Topic

SHOWN = 12
"""The latest events under the table."""
REASONS = 3
"""The most frequent reasons in a row."""
REDRAWN_S = 0.25
TAGS = 5
"""The most tags of one eviction that are named."""
Event = Finished | Invalidated
Tell = Callable[[str, Event], None]


def watch(
    tenant: Annotated[
        str | None, typer.Option(envvar="HASTEN_TENANT", help="Only this one; else all that the user may hear.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=0, help="End after this time.")] = None,
    events: Annotated[int | None, typer.Option(min=1, help="End after so many events.")] = None,
    nats: Nats = None,
    as_json: Json = False,
) -> None:
    """Watch hits, misses and evictions live: a table on a terminal, otherwise a line for each."""

    async def work(hasten: Hasten) -> int:
        if as_json or not sys.stdout.isatty():
            await listen(hasten, tenant, print_json if as_json else print_line, seconds, events)
            return 0
        tally = Tally()
        with Live(get_renderable=lambda: screen(tally), auto_refresh=False, console=Console(highlight=False)) as live:
            drawing = asyncio.ensure_future(draw(live))
            await listen(hasten, tenant, tally.add, seconds, events)
            drawing.cancel()
        return 0

    with_client(nats, tenant or "demo", work)


async def listen(hasten: Hasten, tenant: str | None, tell: Tell, seconds: float | None, most: int | None) -> None:
    """Tells every event of the tenant (None: of all) until the time or the number is up."""
    enough, heard = asyncio.Event(), 0
    named = {} if tenant is None else {"tenant": tenant}

    async def hear(topic: Topic) -> None:
        async def receive(msg: Msg) -> None:
            nonlocal heard
            with contextlib.suppress(BadName, Failed):
                whose = topic.parse(msg.subject)["tenant"]
                event = decode(topic.request, msg.data)
                if most is None or heard < most:
                    tell(whose, event)
                heard += 1
                if most is not None and heard >= most:
                    enough.set()

        await hasten.bus.subscribe(topic.narrowed(**named), receive)

    for topic in (FINISHED, INVALIDATED):
        await hear(topic)
    await hasten.bus.flush()
    say(f"watching {tenant or 'all tenants'}; Ctrl-C ends it")
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await enough.wait()


async def draw(live: Live) -> None:
    """Draws the screen anew, for ever. (Live's own thread would read the tally while it changes.)"""
    while True:
        live.refresh()
        await asyncio.sleep(REDRAWN_S)


def print_json(tenant: str, event: Event) -> None:
    """One event as a line of JSON."""
    kind = "finished" if isinstance(event, Finished) else "invalidated"
    made = {"event": kind, "tenant": tenant, **msgspec.to_builtins(event)}
    print(msgspec.json.encode(made).decode(), flush=True)


def print_line(tenant: str, event: Event) -> None:
    """One event as a line for people."""
    print(f"{time.strftime('%H:%M:%S')}  {line(tenant, event)}", flush=True)


def line(tenant: str, event: Event) -> str:
    """What happened, in one line without anything that could move a terminal's cursor."""
    said = told(event) if isinstance(event, Finished) else gone(event)
    return clean(f"{tenant:<10} {said}")


def clean(text: str) -> str:
    """A text of others without control characters."""
    return "".join(char if char.isprintable() else "?" for char in text)


def told(event: Finished) -> str:
    """How a request was answered."""
    what = event.outcome if event.outcome != "done" else event.cache
    why = reason_of(event)
    near = "" if event.similarity is None or event.cache == "exact" else f"similarity {event.similarity:.3f}"
    entry = f"entry {event.entry_id}" if event.entry_id else ""
    time_ = f"{event.ttft_ms:.0f} ms" if event.ttft_ms else ""
    parts = [why, near, entry, event.model, time_, f"request {event.request_id}"]
    return f"{what:<9} " + " · ".join(part for part in parts if part)


def reason_of(event: Finished) -> str:
    """Why the cache has not answered, with the guard that refused."""
    return f"{event.reason} {event.guard}".strip()


def gone(event: Invalidated) -> str:
    """What was removed and why."""
    tags = event.tags[:TAGS] + ([f"and {len(event.tags) - TAGS} more"] if len(event.tags) > TAGS else [])
    change = f"change {event.sequence}" if event.sequence else ""
    parts = [counted(event.entries), event.reason, " ".join(tags), change]
    return f"{'evicted':<9} " + " · ".join(part for part in parts if part)


class Tally:
    """What has happened since the start, by tenant, and the latest events."""

    def __init__(self) -> None:
        self.answers: dict[str, Counter[str]] = {}
        self.misses: dict[str, Counter[str]] = {}
        self.evicted: dict[str, Counter[str]] = {}
        self.latest: deque[str] = deque(maxlen=SHOWN)

    def add(self, tenant: str, event: Event) -> None:
        """Takes in one event."""
        for counts in (self.answers, self.misses, self.evicted):
            counts.setdefault(tenant, Counter())
        if isinstance(event, Invalidated):
            self.evicted[tenant][event.reason or "change"] += event.entries
        else:
            self.answers[tenant][event.cache if event.outcome == "done" else "failed"] += 1
            if reason := reason_of(event):
                self.misses[tenant][reason] += 1
        self.latest.append(f"{time.strftime('%H:%M:%S')}  {line(tenant, event)}")

    def row(self, tenant: str) -> list[str]:
        """The row of a tenant: its answers by source, hits in per cent, reasons of misses and of evictions."""
        answers = self.answers[tenant]
        hits, done = answers["exact"] + answers["semantic"], answers.total() - answers["failed"]
        rate = f"{100 * hits / done:.0f}%" if done else "-"
        numbers = [str(answers[source]) for source in ("exact", "semantic", "shared", "miss", "failed")]
        return [tenant, *numbers, rate, _most(self.misses[tenant]), _most(self.evicted[tenant])]


def _most(counts: Counter[str]) -> str:
    return ", ".join(f"{clean(reason)} {count}" for reason, count in counts.most_common(REASONS))


def screen(tally: Tally) -> Group:
    """The table and the latest events below it."""
    headings = ("tenant", "exact", "semantic", "shared", "miss", "failed", "hits", "why missed", "why evicted")
    table = Table(*headings, box=None)
    for tenant in sorted(tally.answers):
        table.add_row(*(Text(cell) for cell in tally.row(tenant)))
    return Group(table, Text(""), *(Text(one, no_wrap=True, overflow="ellipsis") for one in tally.latest))
