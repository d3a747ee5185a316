"""Keeps the model table up with the config file that it came from: an edit counts from the next request on, one that is
broken not at all."""

import asyncio
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from hasten.models import Model, ModelTable, RowError, model_table
from hasten.settings import SettingsError
from hasten.telemetry import logger

log = logger("models")
POLL_S = 0.5
Make = Callable[[Mapping[str, Any]], Sequence[Model]]
_HEADER = re.compile(r"^\s*\[\[\s*\"?models\"?\s*\]\]")
_NEW_WORKER = frozenset({"engine", "context_window", "tokenizer"})
"""Fields that are a matter of the worker's start, at least in part."""


class TableFile:
    """The `[[models]]` of a file. `follow` looks at the file twice a second and takes an edit that is at rest; `told`
    has it read at once. `make` turns the config into rows. What was done, and why not, is in the log and in the table's
    `problem`."""

    def __init__(self, path: Path, table: ModelTable, make: Make = model_table) -> None:
        self._path, self._table, self._make = path, table, make
        self._taken = self._seen = _signature(path)
        config = tomllib.loads(path.read_text(encoding="utf-8"))
        self._has_rows, self._others = "models" in config, _others(config)
        self._told = asyncio.Event()

    def told(self) -> None:
        """Asks for the file to be read, whether it seems to have changed or not."""
        self._told.set()

    async def follow(self) -> None:
        """Looks for as long as it is not cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout(POLL_S):
                    await self._told.wait()
            except TimeoutError:
                pass
            told = self._told.is_set()
            self._told.clear()
            if await loop.run_in_executor(None, self.rests, told):
                await loop.run_in_executor(None, self.read)

    def rests(self, told: bool = False) -> bool:
        """Whether there is an edit to read: a change that was there at the last look as well, so that no file is read
        that is half written."""
        now = _signature(self._path)
        due = told or (now != self._taken and now == self._seen)
        self._seen = now
        if due:
            self._taken = now
        return due

    def read(self) -> None:
        """Takes the rows of the file, or says why they cannot be taken and keeps those that there are."""
        text = ""
        try:
            text = self._path.read_text(encoding="utf-8")
            config = tomllib.loads(text)
            rows = self._rows(config)
            others = _others(config)
        except OSError as error:
            self._refuse(f"the config {self._path} cannot be read: {error.strerror}")
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            self._refuse(f"the config {self._path} is not valid TOML: {error}")
        except SettingsError as error:
            line = line_of(text, error) if isinstance(error, RowError) else None
            self._refuse(f"{self._path}{f', line {line}' if line else ''}: {error}")
        else:
            self._take(rows)
            self._has_rows = "models" in config
            if others != self._others:
                log.warning("%s: other sections have changed as well: they take a restart", self._path)
                self._others = others

    def _rows(self, config: Mapping[str, Any]) -> Sequence[Model]:
        if self._has_rows and "models" not in config:
            raise SettingsError("[[models]] is gone; to go back to the embedded models, restart without it")
        return self._make(config)

    def _refuse(self, problem: str) -> None:
        self._table.problem = problem
        log.error("%s: the model table stays as it was", problem)

    def _take(self, rows: Sequence[Model]) -> None:
        if self._table.problem:
            log.warning("model table: %s is right again", self._path)
        for said in changes(self._table.rows, rows):
            log.warning("model table: %s", said)
        self._table.replace(rows)


def _others(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name != "models"}


def _signature(path: Path) -> tuple[int, int, int]:
    """What changes when a file is edited, replaced, or a link to it set anew; zeros where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_ino, found.st_size


def changes(old: Sequence[Model], new: Sequence[Model]) -> list[str]:
    """What is different between two tables, and what it takes for that to have its effect."""
    before, after = {model.slug: model for model in old}, {model.slug: model for model in new}
    said = [
        f"{model.name} is new; `hasten run worker --model {model.name}` runs it"
        for slug, model in after.items()
        if slug not in before
    ]
    said += [
        f"{model.name} is removed; its workers finish what they have and get no more: stop them"
        for slug, model in before.items()
        if slug not in after
    ]
    for slug in before.keys() & after.keys():
        was, now = structs.asdict(before[slug]), structs.asdict(after[slug])
        if fields := sorted(name for name in was if was[name] != now[name]):
            later = sorted(_NEW_WORKER & set(fields))
            restart = f"; for {', '.join(later)} restart its workers" if later else ""
            said.append(f"{after[slug].name}: {', '.join(fields)} changed{restart}")
    return said


def line_of(text: str, error: RowError) -> int | None:
    """The line of the file that an error is about; None when the table is not written with `[[models]]` headings."""
    lines = text.splitlines()
    headings = [at for at, line in enumerate(lines) if _HEADER.match(line)]
    if error.row >= len(headings):
        return None
    start = headings[error.row]
    end = headings[error.row + 1] if error.row + 1 < len(headings) else len(lines)
    name = re.split(r"[.\[]", error.field)[-1] if error.field else ""
    field = re.compile(rf"(?:^|[\s{{,.]){re.escape(name)}\"?\s*=") if name else None
    found = (at for at in range(start + 1, end) if field is not None and field.search(lines[at]))
    return next(found, start) + 1
