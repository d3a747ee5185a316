"""hasten beside other gateways, live: what each adds to a first token and to a chunk, its rate, its hits, its memory.

`python -m loadtest.peers` installs LiteLLM's proxy, MLflow's gateway (PyPI, each in an environment of its own) and
Portkey's gateway (npm) in `--data`, starts them and hasten in front of the same simulated model server, and asks all of
them in turns, so that a busy moment falls on everybody. One that cannot be installed or started says why, and the rest
is compared. What is added is the difference to asking the model server directly. Where the machine has two cores,
whatever is compared runs on the last one, with all it starts, and who asks and the model server on the others.
`--only NAME …` compares some; `--json FILE`, `--html FILE` and `--page docs/peers.md` write the figures.
"""

import argparse
import asyncio
import contextlib
import os
import platform
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hasten.bus import Bus
from hasten.cancellation import cancelled
from hasten.messages.chat import CHAT, Chunk, Done
from hasten.run import run_loop
from hasten.topics import random_id
from loadtest.arrivals import poisson
from loadtest.html_report import Table, Words, page
from loadtest.http_lane import HttpLanes
from loadtest.marked import put
from loadtest.open_loop import open_loop
from loadtest.peer import RECIPES, NotThere, installed, on_core, process, running
from loadtest.peer_figure import SLOWEST_MS, Row, Search, added, ages_ms, behind, figures, table, texts
from loadtest.peer_hasten import TENANT, in_one_process, in_processes
from loadtest.peer_upstream import MODEL, SLOWLY
from loadtest.processor_time import processor_s, resident_mb
from loadtest.sample import Sample

TOKENS, SLOW_TOKENS = 8, 40
BLOCK = 100
"""Questions of which the processor time is read at once: the kernel counts in steps of 10 ms."""
DIRECT = "direct"
EXACT = {"mode": "exact"}
Heard = list[tuple[float, str]]
Ask = Callable[[dict[str, Any]], Awaitable[Heard]]


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured: `rounds` of one question to each, `blocks` of a hundred to each for what they cost (less
    what is spent in `idle_s` of silence), `streams` slow answers at once `slow_rounds` times, and `steps` tries for a
    rate, of `seconds` each, from `rate` requests a second on."""

    rounds: int = 200
    blocks: int = 3
    idle_s: float = 2.0
    streams: int = 10
    slow_rounds: int = 4
    steps: int = 8
    seconds: float = 6.0
    rate: float = 20.0


class Refused(Exception):
    """An answer that is none: its status or failure."""


class Target(msgspec.Struct, kw_only=True):
    """One that is asked. `pids` are its processes."""

    name: str
    what: str
    ask: Ask
    pids: list[int] = []


def over_http(lanes: HttpLanes, **options: Any) -> Ask:
    """Asks a gateway."""

    async def ask(body: dict[str, Any]) -> Heard:
        told = await lanes.post("/chat/completions", {**body, **options})
        if told.status != 200 or not (heard := texts(told)):
            raise Refused(f"status {told.status}")
        return heard

    return ask


def over_bus(bus: Bus, **options: Any) -> Ask:
    """Asks hasten over NATS."""

    async def ask(body: dict[str, Any]) -> Heard:
        heard, last = Heard(), None
        async with await bus.stream(CHAT, {**body, **options}, tenant=TENANT) as stream:
            async for last in stream:
                if isinstance(last, Chunk):
                    heard.append((time.monotonic(), last.text))
        if not isinstance(last, Done) or not heard:
            raise Refused(getattr(last, "code", "no answer"))
        return heard

    return ask


def question(text: str, tokens: int = TOKENS) -> dict[str, Any]:
    """A chat body that every gateway takes."""
    return {"model": MODEL, "max_tokens": tokens, "stream": True, "messages": [{"role": "user", "content": text}]}


class Comparison:
    """Asks everybody in turns."""

    def __init__(self, targets: Sequence[Target], asked: Callable[[], Awaitable[int]], sizes: Sizes) -> None:
        self._targets, self._asked, self._sizes = targets, asked, sizes
        self.rows = {one.name: Row(name=one.name, what=one.what) for one in targets}

    async def run(self, say: Callable[[str], None]) -> None:
        """Measures everything."""
        for _ in range(3):
            await self._first_tokens(5)
        for row in self.rows.values():
            row.first.clear()
        say(f"first tokens: {self._sizes.rounds} rounds")
        await self._first_tokens(self._sizes.rounds)
        say("exact hits")
        for one in self._targets:
            await self._hits(one)
        say("processor time")
        for _ in range(self._sizes.blocks):
            for one in self._targets:
                await self._costs(one)
        say(f"chunks of {self._sizes.streams} answers at once")
        for _ in range(self._sizes.slow_rounds):
            for one in self._targets:
                await self._chunks(one)
        say("rates")
        await self._rates(say)
        for one in self._targets:
            sizes = [resident_mb(pid) for pid in one.pids]
            self.rows[one.name].resident_mb = sum(resident for resident, _ in sizes)
            self.rows[one.name].proportional_mb = sum(share for _, share in sizes)

    async def _first(self, one: Target, body: dict[str, Any]) -> float | None:
        began = time.monotonic()
        try:
            heard = await one.ask(body)
        except (Refused, OSError):
            self.rows[one.name].errors += 1
            return None
        finally:
            _heed_cancellation()
        return (heard[0][0] - began) * 1000

    async def _first_tokens(self, rounds: int) -> None:
        for _ in range(rounds):
            for one in self._targets:
                if (took := await self._first(one, question(f"What of {random_id()}?"))) is not None:
                    self.rows[one.name].first.append(took)

    async def _hits(self, one: Target) -> None:
        """Asks one question again and again, which the model server must not hear of; a store may take a moment."""
        if one.name == DIRECT:
            return
        row, body = self.rows[one.name], question(f"What is there of {random_id()}?")
        await self._first(one, body)
        await asyncio.sleep(0.3)
        before = await self._asked()
        for _ in range(self._sizes.rounds):
            if (took := await self._first(one, body)) is not None:
                row.hit.append(took)
        row.hits_asked = await self._asked() - before

    async def _costs(self, one: Target) -> None:
        """The processor time of a miss and of a hit, of all its processes, without what they take anyway."""
        row, body = self.rows[one.name], question(f"What is there of {random_id()}?")
        if not one.pids:
            return
        before, since = _processor_s(one), time.monotonic()
        await asyncio.sleep(self._sizes.idle_s)
        idle = (_processor_s(one) - before) / (time.monotonic() - since)
        misses = [question(f"What of {random_id()}?") for _ in range(BLOCK)]
        row.miss_cpu_ms.append(await self._cost_ms(one, misses, idle))
        if row.hit and row.hits_asked == 0:
            await self._first(one, body)
            await asyncio.sleep(0.3)
            row.hit_cpu_ms.append(await self._cost_ms(one, [body] * BLOCK, idle))

    async def _cost_ms(self, one: Target, bodies: Sequence[dict[str, Any]], idle: float) -> float:
        """The mean of some questions, one after the other."""
        before, since = _processor_s(one), time.monotonic()
        for body in bodies:
            await self._first(one, body)
        spent = _processor_s(one) - before - idle * (time.monotonic() - since)
        return max(0.0, spent) / len(bodies) * 1000

    async def _chunks(self, one: Target) -> None:
        """Slow answers at once: how old each token is when it is read."""
        row = self.rows[one.name]
        bodies = [question(f"{SLOWLY} say what of {random_id()}.", SLOW_TOKENS) for _ in range(self._sizes.streams)]
        for heard in await asyncio.gather(*(one.ask(body) for body in bodies), return_exceptions=True):
            if isinstance(heard, BaseException):
                row.errors += 1
            else:
                row.ages += ages_ms(heard)

    async def _rates(self, say: Callable[[str], None]) -> None:
        direct = self.rows[DIRECT].first
        searches = {one.name: Search(self._sizes.rate, self._sizes.steps) for one in self._targets}
        for step in range(self._sizes.steps):
            for one in self._targets:
                search = searches[one.name]
                samples = await self._at_rate(one, search.rate, step)
                _heed_cancellation()
                times = [sample.ttft_ms for sample in samples if sample.ok and sample.ttft_ms is not None]
                late = max((sample.late_ms for sample in samples), default=0.0)
                whole = bool(times) and len(times) == len(samples)
                kept = whole and added(times, direct).p99 <= SLOWEST_MS
                said = "kept" if kept else "not kept"
                say(f"{one.name}: {search.rate:.0f}/s {said} (generator at most {late:.0f} ms late)")
                search.tell(kept=kept)
                await asyncio.sleep(0.5)
        for name, search in searches.items():
            self.rows[name].rate = search.as_json()

    async def _at_rate(self, one: Target, rate: float, seed: int) -> list[Sample]:
        async def ask(index: int, due: float) -> Sample:
            heard = await one.ask(question(f"What of {random_id()}?"))
            offset = time.monotonic() - time.perf_counter()
            took = (heard[0][0] - offset - due) * 1000
            return Sample(ttft_ms=took, total_ms=took)

        return await open_loop(poisson(rate, self._sizes.seconds, seed), ask)


def _heed_cancellation() -> None:
    """Ends here, should a library have swallowed the cancellation (`hasten.bus.cancelled`)."""
    if cancelled():
        raise asyncio.CancelledError


def _processor_s(one: Target) -> float:
    return sum(processor_s({str(pid): pid for pid in one.pids}).values())


async def compare(data: Path, only: Sequence[str], sizes: Sizes, say: Callable[[str], None]) -> dict[str, Any]:
    """Starts everything, compares it, and returns rows as `figures` makes them."""
    cores = sorted(os.sched_getaffinity(0))
    core = cores[-1] if len(cores) > 1 else None
    failed = list[Row]()
    async with contextlib.AsyncExitStack() as stack:
        if core is not None:
            stack.enter_context(_kept_off(core, cores))
        command = [sys.executable, "-m", "loadtest.peer_upstream"]
        server = await stack.enter_async_context(process(command, data / "upstream.log", _path(), reads=True))
        assert server.stdout is not None
        upstream = f"http://127.0.0.1:{int(await server.stdout.readline())}/v1"
        plain = HttpLanes(upstream)
        targets = [Target(name=DIRECT, what="the model server itself", ask=over_http(plain), pids=[])]
        for recipe in RECIPES:
            if only and not any(word.lower() in recipe.name.lower() for word in only):
                continue
            try:
                folder = await installed(recipe, data, say)
                say(f"starting {recipe.name}")
                with on_core(core):
                    lanes, pid = await stack.enter_async_context(running(recipe, folder, upstream))
                targets.append(Target(name=recipe.name, what=recipe.what, ask=over_http(lanes), pids=[pid]))
            except NotThere as error:
                say(f"{recipe.name} {error}")
                failed.append(Row(name=recipe.name, what=recipe.what, failed=str(error)))
        targets += await _hasten(stack, data, upstream, core, only, say)
        comparison = Comparison(targets, lambda: _count(plain), sizes)
        await comparison.run(say)
        plain.close()
        direct = comparison.rows[DIRECT]
        rows = [figures(row, direct) for row in [*comparison.rows.values(), *failed]]
    return {
        "machine": {"cores": len(cores), "python": platform.python_version(), "load": round(os.getloadavg()[0], 1)},
        "sizes": msgspec.to_builtins(sizes),
        "rows": rows,
    }


@contextlib.contextmanager
def _kept_off(core: int, cores: Sequence[int]) -> Any:
    os.sched_setaffinity(0, set(cores) - {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, set(cores))


def _path() -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(one for one in sys.path if one)}


async def _hasten(
    stack: contextlib.AsyncExitStack, data: Path, upstream: str, core: int | None, only: Sequence[str], say: Any
) -> list[Target]:
    """hasten's own targets: as much of it as exact hits need, asked in two ways, all of it, and a process for each
    service."""
    say("starting hasten")
    with on_core(core):
        spare = in_one_process(data / "hasten-exact", upstream, "--without", "embedder")
        one = await stack.enter_async_context(spare)
    up = "`hasten up --without embedder`: its services in one process, NATS server and vector engine beside it"
    found = [
        Target(name="hasten gateway", what=f"{up}; exact cache", ask=over_http(one.lanes, cache=EXACT), pids=one.pids),
        Target(
            name="hasten bus", what="the same over NATS; exact cache", ask=over_bus(one.bus, cache=EXACT), pids=one.pids
        ),
    ]
    if only and "hasten" not in only:
        return found
    with on_core(core):
        whole = await stack.enter_async_context(in_one_process(data / "hasten", upstream))
        many = await stack.enter_async_context(in_processes(upstream))
    what = "`hasten up` over HTTP with its defaults: each question is embedded and looked up by meaning as well"
    found.append(Target(name="hasten gateway, semantic", what=what, ask=over_http(whole.lanes), pids=whole.pids))
    what = "six services in a process each, and a NATS server; exact cache"
    ask = over_http(many.lanes, cache=EXACT)
    return [*found, Target(name="hasten gateway, 6 processes", what=what, ask=ask, pids=many.pids)]


async def _count(plain: HttpLanes) -> int:
    told = await plain.get("/asked")
    return int(msgspec.json.decode(told.body)["asked"])


def markdown(found: dict[str, Any]) -> str:
    """The table in Markdown, and what each row is."""
    names, *rows = table(found["rows"])
    lines = ["| " + " | ".join(row) + " |" for row in [names, ["---"] * len(names), *rows]]
    return "\n".join([*lines, "", *(f"- {row['name']}: {row['what']}" for row in found["rows"])])


def html(found: dict[str, Any]) -> str:
    """The same as a page."""
    names, *rows = table(found["rows"])
    lead = f"Gateways in front of one simulated model server, asked in turns, on {found['machine']['cores']} cores"
    words = "\n".join(f"{row['name']}: {row['what']}" for row in found["rows"])
    compared = Table(title="Compared", columns=names, rows=rows)
    return page("hasten beside other gateways", lead, [compared, Words(title="What each is", text=words)])


async def until_told(work: Coroutine[Any, Any, int]) -> int:
    """Does the work and returns its exit code; SIGTERM ends it as Ctrl-C does, with all that it has started."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    told = False

    def tell() -> None:
        nonlocal told
        told = True
        task.cancel()

    loop.add_signal_handler(signal.SIGTERM, tell)
    try:
        return await work
    except asyncio.CancelledError:
        if not told:
            raise
        return 128 + signal.SIGTERM
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


async def run(given: argparse.Namespace) -> int:
    """The command."""
    sizes = Sizes(rounds=given.rounds, blocks=given.blocks, steps=given.steps, seconds=given.seconds)
    found = await compare(given.data, given.only, sizes, lambda line: print(line, file=sys.stderr, flush=True))
    text = markdown(found)
    print(text)
    for row in found["rows"]:
        if "failed" not in row and not row["name"].startswith(("hasten", DIRECT)):
            worse = behind(found["rows"], "hasten gateway", row["name"])
            print(
                f"\nhasten's gateway against {row['name']}: " + ("ahead everywhere" if not worse else "; ".join(worse))
            )
    if given.json:
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    if given.html:
        given.html.write_text(html(found))
    if given.page:
        put(given.page, "peers", text)
    return 0


def main() -> int:
    """Reads the options."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.peers", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(".hasten/peers"), help="where gateways are installed")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="some of litellm, mlflow, portkey, hasten"
    )
    parser.add_argument("--rounds", type=int, default=Sizes().rounds)
    parser.add_argument("--blocks", type=int, default=Sizes().blocks, help="of a hundred, for the processor time")
    parser.add_argument("--steps", type=int, default=Sizes().steps, help="tries for the rate of each")
    parser.add_argument("--seconds", type=float, default=Sizes().seconds, help="of a try")
    for name in ("json", "html", "page"):
        parser.add_argument(f"--{name}", type=Path, metavar="FILE")
    given = parser.parse_args()
    given.data.mkdir(parents=True, exist_ok=True)
    return run_loop(until_told(run(given)))


if __name__ == "__main__":
    sys.exit(main())
