"""`hasten cache calibrate`: how sure the cache must be on your own questions for an error bound to hold."""

import csv
import io
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from hasten.cache.calibration import CONFIDENCE, Calibration, Scored, Step, by_collection
from hasten.cache.guards import Reading, compared
from hasten.cache.lookup import unsuited
from hasten.cache.settings import Settings
from hasten.cache.verifier import shipped
from hasten.client import Hasten
from hasten.commands.options import Config, Json, Nats, Tenant, refuse, with_client
from hasten.messages.embed import EMBED, Embed, Embedded
from hasten.messages.failure import Failed
from hasten.settings import SettingsError, read_config, settings

BATCH = 64
TRUE, FALSE = frozenset({"1", "true", "yes", "same"}), frozenset({"0", "false", "no", "different"})


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A pair of the file."""

    a: str
    b: str
    same: bool
    collection: str = ""


class Calibrated(msgspec.Struct, frozen=True, kw_only=True):
    """The whole result: of all pairs first, then of each collection."""

    max_error: float
    confidence: float
    refused: int
    results: list[Calibration]
    toml: str


def calibrate(
    pairs: Annotated[Path, typer.Argument(help="CSV with the columns a, b, same[, collection], or JSON lines.")],
    max_error: Annotated[str, typer.Option(metavar="SHARE", help="The most wrong hits among all hits.")] = "1%",
    config: Config = None,
    tenant: Tenant = "demo",
    nats: Nats = None,
    as_json: Json = False,
) -> None:
    """Learn the threshold of the cache, for all and for each collection, from pairs of your own questions.

    The pairs should be what your users ask: each question with the nearest earlier one, judged by a person. The running
    embedder makes the vectors.
    """
    try:
        error, lines = share(max_error), read(pairs)
        own = settings(Settings, "cache", read_config(config))
    except SettingsError as problem:
        refuse(str(problem))

    async def work(hasten: Hasten) -> int:
        vectors = await embedded(hasten, sorted({text for line in lines for text in (line.a, line.b)}), tenant)
        scored = [score(line, vectors, own) for line in lines]
        found = by_collection(scored, error)
        refused = sum(one.confidence is None for one in scored)
        result = Calibrated(
            max_error=error, confidence=CONFIDENCE, refused=refused, results=found, toml=toml(found, error)
        )
        if as_json:
            print(msgspec.json.encode(result).decode())
        else:
            show(Console(highlight=False), result)
        return 0

    with_client(nats, tenant, work)


def share(text: str) -> float:
    """`1%` or `0.01`; raises SettingsError."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise SettingsError(f"--max-error must be a share above 0 and below 100%, such as 1% or 0.01, not {text}")
    return value


def read(path: Path) -> list[Line]:
    """The pairs of a file; raises SettingsError naming the line that cannot be used."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8'}") from None
    rows = _objects(path, text) if text.lstrip().startswith("{") else _table(path, text)
    lines = [_line(path, number, row) for number, row in rows]
    if not lines:
        raise SettingsError(f"{path} has no pairs")
    return lines


def _objects(path: Path, text: str) -> list[tuple[int, dict[str, Any]]]:
    made = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                made.append((number, msgspec.json.decode(line, type=dict[str, Any])))
            except msgspec.DecodeError:
                raise SettingsError(f"{path}, line {number}: this is not a JSON object") from None
    return made


def _table(path: Path, text: str) -> list[tuple[int, dict[str, Any]]]:
    if not text.strip():
        raise SettingsError(f"{path} is empty; it needs a line with the columns a, b and same, and pairs below it")
    if text.lstrip().startswith("["):
        raise SettingsError(f"{path} is a JSON list: write each object on a line of its own")
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    table = csv.DictReader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True)
    table.fieldnames = [name.strip().lower() for name in table.fieldnames or ()]
    missing = {"a", "b", "same"} - set(table.fieldnames)
    if missing:
        raise SettingsError(f"{path} has no column {', '.join(sorted(missing))}; it needs a, b and same")
    return [(table.line_num, row) for row in table]


def _line(path: Path, number: int, row: dict[str, Any]) -> Line:
    """`same_answer` stands for `same` too, as in the pairs of fow_cache."""
    a, b, same = row.get("a"), row.get("b"), row.get("same", row.get("same_answer"))
    said = str(same).strip().lower()
    if not (isinstance(a, str) and isinstance(b, str) and a.strip() and b.strip()):
        raise SettingsError(f"{path}, line {number}: a and b must be two questions")
    if said not in TRUE | FALSE:
        raise SettingsError(f"{path}, line {number}: same must be true or false (or 1, 0, yes, no)")
    return Line(a=a, b=b, same=said in TRUE, collection=str(row.get("collection") or "").strip())


async def embedded(hasten: Hasten, texts: list[str], tenant: str) -> dict[str, Any]:
    """The unit vector of each text, from the running embedder; raises Failed."""
    made: dict[str, Any] = {}
    for start in range(0, len(texts), BATCH):
        part = texts[start : start + BATCH]
        reply = await hasten.bus.request(EMBED, Embed(texts=part), tenant=tenant)
        if not isinstance(reply, Embedded):
            raise Failed.of(reply)
        made |= {text: np.frombuffer(raw, "<f4") for text, raw in zip(part, reply.vectors, strict=True)}
    return made


def score(line: Line, vectors: dict[str, Any], own: Settings) -> Scored:
    """What the cache thinks of a pair."""
    one, other = Reading(line.a), Reading(line.b)
    forbidden = unsuited(line.a, one, own) or unsuited(line.b, other, own) or compared(one, other)
    similarity = float(vectors[line.a] @ vectors[line.b])
    confidence = None if forbidden else shipped().weights.confidence(one, other, similarity)
    return Scored(confidence=confidence, same=line.same, collection=line.collection)


def toml(results: list[Calibration], max_error: float) -> str:
    """What to write into the config: only what is proven."""
    everywhere, *own = results
    lines = [f"# wrong hits ≤ {max_error:.2%} of hits at {CONFIDENCE:.0%} confidence, by hasten cache calibrate"]
    if everywhere.threshold is not None:
        lines += ["[cache]", f"threshold = {everywhere.threshold:.3f}"]
    proven = [one for one in own if one.threshold is not None]
    if proven:
        lines += ["[cache.thresholds]", *(f'"{one.collection}" = {one.threshold:.3f}' for one in proven)]
    return "\n".join(lines) + "\n" if len(lines) > 1 else ""


def show(console: Console, result: Calibrated) -> None:
    """The curves, what they prove, and the lines for the config."""
    for one in result.results:
        console.print(
            f"\n{one.collection or 'all pairs'}: {one.pairs} pairs, {one.same} of them the same", style="bold"
        )
        table = Table("threshold", "hits", "good hits / same", "wrong", "wrong / hits", "at most", box=None)
        for number, row in enumerate(sorted([*one.curve, *([one.found] if one.found else [])], key=_strictness)):
            style = "bold" if row == one.found else ("" if number % 2 else "dim")
            table.add_row(*_cells(row), style=style)
        console.print(table)
        console.print(verdict(one, result.max_error))
    console.print(f"\n{result.refused} pairs are refused by a guard or found by their key only, at every threshold")
    if result.toml:
        console.print("\nfor the config:\n")
        console.print(result.toml, markup=False)
    else:
        console.print("\nnothing is proven: keep the shipped threshold, and collect more pairs")


def _strictness(row: Step) -> float:
    return -row.threshold


def _cells(row: Step) -> list[str]:
    rates = (f"{row.hit_rate:.1%}", str(row.wrong), f"{row.wrong_rate:.2%}" if row.hits else "-", f"{row.at_most:.2%}")
    return [f"{row.threshold:.3f}", str(row.hits), *rates]


def verdict(one: Calibration, max_error: float) -> str:
    """In words what the pairs prove."""
    if one.found is not None:
        return (
            f"threshold {one.found.threshold:.3f}: {one.found.wrong} of {one.found.hits} hits are wrong, so that with "
            f"{CONFIDENCE:.0%} confidence at most {one.found.at_most:.2%} are; {one.found.hit_rate:.1%} good hits"
        )
    few = f"too few pairs to prove {max_error:.2%}: it takes {one.needed} hits without a wrong one"
    if one.guess is None:
        return f"{few}; no threshold keeps it even on these pairs"
    return (
        f"{few}. On these very pairs {one.guess.threshold:.3f} keeps it ({one.guess.wrong} of {one.guess.hits} wrong), "
        "which is a guess"
    )
