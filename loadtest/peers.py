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
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hasten.run import run_loop
from loadtest.html_report import Table, Words, page
from loadtest.http_lane import HttpLanes
from loadtest.marked import put
from loadtest.peer import RECIPES, NotThere, installed, on_core, process, running
from loadtest.peer_comparison import DIRECT, Comparison, Sizes, Target, over_bus, over_http
from loadtest.peer_figure import Row, behind, figures, table
from loadtest.peer_hasten import in_one_process, in_processes

EXACT = {"mode": "exact"}


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
