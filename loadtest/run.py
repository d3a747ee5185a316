"""Runs a scenario and writes what came of it: one HTML file and a JSON file beside it.

`python -m loadtest.run loadtest/scenarios/faq.toml` starts a system of its own, each service as a process; `--against`
names another one, by NATS (`nats://…`, as the tenant loadtest) or HTTP (`http://…`, with the key in HASTEN_API_KEY).
The same seed asks the same at the same moments.
"""

import argparse
import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from hasten.bus import Unreachable
from hasten.nats_server import ServerMissing
from hasten.run import run_loop, say
from hasten.settings import SettingsError
from loadtest.own_system import Target, own_system
from loadtest.result import Result, machine
from loadtest.runner import Runner
from loadtest.scenario import Scenario, load
from loadtest.search import search
from loadtest.summary import summary
from loadtest.trace_prompt import answering
from loadtest.written_report import lines, report


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the command was given."""

    scenario: Path
    against: str = ""
    data: Path | None = None
    models: Path = Path(".hasten/models")
    seed: int = 1
    out: Path = Path()
    multiple: float = 1.0
    no_search: bool = False


async def measured(scenario: Scenario, options: Options) -> Result:
    """The scenario against its target, and the search for the highest rate if it has a bound."""
    async with (
        _target(scenario, options) as target,
        Runner.connect(scenario, target, options.data, options.seed) as runner,
    ):
        samples, busy = await runner.run(options.multiple)
        found, bound = None, scenario.bound
        if bound is not None and not options.no_search:
            found = await search(
                lambda multiple: runner.at(multiple, bound), most=bound.most, steps=bound.steps, first=bound.first
            )
    return Result(
        name=options.scenario.stem,
        about=scenario.about,
        command=_command(options),
        seed=options.seed,
        machine=machine(),
        scenario=scenario,
        summary=summary(samples, late_ms=scenario.late_ms),
        busy=busy,
        search=found,
        samples=samples,
    )


@contextlib.asynccontextmanager
async def _target(scenario: Scenario, options: Options) -> AsyncIterator[Target]:
    against = options.against
    if against.startswith("nats://"):
        yield Target(nats=against)
    elif against:
        yield Target(http=against.rstrip("/").removesuffix("/v1"), key=os.environ.get("HASTEN_API_KEY", ""))
    else:
        models = await asyncio.to_thread(lambda: options.models.resolve() if options.models.exists() else None)
        own = scenario.own
        if scenario.recorded:
            own = msgspec.structs.replace(own, config=answering(own.config))
        async with own_system(own, models) as target:
            yield target


def _command(options: Options) -> str:
    more = [f"--against {options.against}"] if options.against else []
    more += [f"--data {options.data}"] if options.data else []
    more += [f"--multiple {options.multiple:g}"] if options.multiple != 1 else []
    more += ["--no-search"] if options.no_search else []
    return " ".join(["python -m loadtest.run", str(options.scenario), *more, f"--seed {options.seed}"])


async def carried_out(options: Options) -> int:
    """Runs the command; 1 for a run that is not valid."""
    scenario = load(options.scenario)
    scheme = options.against.partition("://")[0]
    if options.against and scheme not in ("nats", "http", "https"):
        raise SettingsError("--against must be nats://… or http://…")
    if options.against:
        scenario = msgspec.structs.replace(scenario, via="bus" if scheme == "nats" else "http")
    try:
        result = await measured(scenario, options)
    except (Unreachable, ServerMissing, RuntimeError) as error:
        raise SettingsError(str(error)) from None
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"{result.name}.json").write_bytes(result.plain())
    (options.out / f"{result.name}.html").write_text(report(result))
    print("\n".join(lines(result)))
    say(f"written: {options.out / result.name}.html and .json")
    return 1 if result.summary.invalid else 0


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.run", description=__doc__)
    parser.add_argument("scenario", type=Path, help="a TOML file; loadtest/scenarios/ has some")
    parser.add_argument("--against", default="", metavar="URL", help="nats://… or http://…; else a system of its own")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder with public data sets and traces")
    parser.add_argument("--models", type=Path, default=Path(".hasten/models"), metavar="DIR", help="prepared weights")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--multiple", type=float, default=1.0, metavar="X", help="ask at X times the scenario's rate")
    parser.add_argument("--out", type=Path, default=Path(), metavar="DIR", help="where the report goes")
    parser.add_argument("--no-search", action="store_true", help="leave out the search for the highest rate")
    sys.exit(run_loop(carried_out(Options(**vars(parser.parse_args())))))


if __name__ == "__main__":
    main()
