"""`hasten prompts`: what is waste in prompts, what keeps them from being computed once, and how much repeats."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from hasten.client import Hasten
from hasten.commands.options import DATA, Config, Data, Json, Nats, Tenant, refuse, with_client
from hasten.commands.worker_table import wide_console
from hasten.compressor.tokenizer_folder import TokenizerFolder
from hasten.compressor.tokens import TokenCounter, as_json
from hasten.discovery import Running
from hasten.models import model_table
from hasten.orchestrator.template import Template
from hasten.prompts.finding import Finding
from hasten.prompts.reading import Unreadable, read
from hasten.prompts.review import Prompt, Review, differing, review
from hasten.run import say
from hasten.settings import SettingsError, read_config
from hasten.telemetry import configure_logging
from hasten.weights import folder

app = typer.Typer(help="Find waste in prompts, and what keeps them from being computed once.", no_args_is_help=True)


@app.command()
def lint(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE…", help="System prompts, or chat bodies as JSON or JSON lines; - is stdin."),
    ],
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose tokens are counted: a model of the table, or a tokenizer.")
    ] = None,
    write: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write the suggested text there; it is for one file only.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Let --write replace a file.")] = False,
    data: Data = DATA,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Say what is waste in prompts and what keeps their beginning from being computed once, with a shorter text.

    Ends with 0 when there is nothing to say, 1 when there is, and 2 for a file that cannot be read. Nothing is changed:
    a suggestion is written only where --write says, and no service uses it.
    """
    configure_logging()
    try:
        counter = counter_of(model, data, config)
        prompts = [prompt for path in files for prompt in read(str(path), _raw(path))]
    except (SettingsError, Unreadable) as problem:
        refuse(str(problem))
    if write is not None and (len(prompts) != 1 or (write.exists() and not force)):
        refuse(
            "--write is for one prompt: give one file that holds one"
            if len(prompts) != 1
            else f"{write} is there already: name another file, or say --force"
        )
    reviews = reviewed(prompts, counter)
    if as_json:
        ok = not any(one.findings for one in reviews)
        print(msgspec.json.encode({"ok": ok, "counted_with": counter.name, "prompts": reviews}).decode())
    else:
        _show(Console(highlight=False, soft_wrap=True, markup=False), reviews, counter)
    if write is not None:
        _write(write, prompts[0], reviews[0].suggested)
    raise typer.Exit(1 if any(one.findings for one in reviews) else 0)


@app.command()
def prefix(tenant: Tenant = "demo", nats: Nats = None, as_json: Json = False) -> None:
    """Show how much of each template's prompts repeats the one before, and how much of it engines had computed.

    A template is a model with a system text, tools and examples, named by a hash. What repeats could have been taken
    from an engine's cache; where engines had less, prompts went to other workers, or the caches are too small.
    """

    async def work(hasten: Hasten) -> int:
        found = templates_of(await hasten.services())
        if as_json:
            print(msgspec.json.encode({"templates": found}).decode())
        else:
            show_templates(wide_console(), found)
        return 0

    with_client(nats, tenant, work)


def templates_of(services: Iterable[Running]) -> list[Template]:
    """The templates of all orchestrators; those that several have met are summed."""
    found: dict[str, Template] = {}
    for service in services:
        for plain in service.report.get("templates", ()) if service.name == "orchestrator" else ():
            one = msgspec.convert(plain, Template)
            if (known := found.get(one.template)) is None:
                found[one.template] = one
                continue
            for name in ("prompts", "tokens", "repeated", "cached"):
                setattr(known, name, getattr(known, name) + getattr(one, name))
    return sorted(found.values(), key=lambda one: -one.tokens)


def show_templates(console: Console, templates: Sequence[Template]) -> None:
    """Prints the table for people."""
    if not templates:
        console.print("no prompt has been generated from since the orchestrators started, or none is running")
        return
    table = Table("template", "tenant", "model", box=None)
    for heading in ("prompts", "tokens each", "same for all", "repeats the one before", "engines had"):
        table.add_column(heading, justify="right")
    for one in templates:
        tokens = max(1, one.tokens)
        shares = (f"{one.repeated / tokens:.0%}", f"{one.cached / tokens:.0%}")
        counts = (str(one.prompts), str(round(one.tokens / max(1, one.prompts))), str(one.stable_tokens))
        table.add_row(one.template, one.tenant, one.model, *counts, *shares)
    console.print(table)


def _raw(path: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror}") from None


def counter_of(name: str | None, data: Path, config: Path | None) -> TokenCounter:
    """What counts tokens as a model does: one of the table by name or alias, the first of it, or a tokenizer."""
    table = model_table(read_config(config))
    row = next((row for row in table if name in (None, row.name, row.slug, *row.aliases)), None)
    models = folder(data)
    if row is None and not (name and (models / name / "tokenizer.json").is_file()):
        names = ", ".join(row.name for row in table)
        raise SettingsError(f"no model and no tokenizer is called {name}: the models are {names}")
    tokenizers = TokenizerFolder(models)
    tokenizer = row.tokenizer if row is not None else name or ""
    return tokenizers.known(tokenizer) or tokenizers.load(tokenizer)


def reviewed(prompts: list[Prompt], counter: TokenCounter) -> list[Review]:
    """A review of each prompt; of requests that have the same texts and tools only of the first."""
    seen: set[bytes] = set()
    changing = differing(prompts, counter)
    reviews: list[Review] = []
    for at, prompt in enumerate(prompts):
        request = prompt.request
        parts = (prompt.text, as_json(request.tools) if request else None, request.examples if request else None)
        key = msgspec.json.encode((parts, request is None))
        seen_to_change = [changing[at]] if at in changing else []
        if key in seen:
            continue
        seen.add(key)
        made = review(prompt, counter)
        known = [(one.start, one.end) for one in made.findings if one.kind == "volatile"]
        new = [one for one in seen_to_change if not any(s < one.end and one.start < e for s, e in known)]
        reviews.append(msgspec.structs.replace(made, findings=[*made.findings, *new]) if new else made)
    return reviews


def _write(path: Path, prompt: Prompt, text: str) -> None:
    """The suggested text, or of a request its body with that as the one system turn."""
    if prompt.request is None:
        path.write_text(text, encoding="utf-8")
    else:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(with_system(prompt, text)), indent=2) + b"\n")
    say(f"the suggestion is in {path}: read it before you use it")


def with_system(prompt: Prompt, text: str) -> object:
    """The body of a request with another system text."""
    request = prompt.request
    assert request is not None
    body = {**request.extra, **{name: value for name, value in msgspec.to_builtins(request).items() if name != "extra"}}
    others = [turn for turn in body["messages"] if turn["role"] not in ("system", "developer")]
    body["messages"] = [{"role": "system", "content": text}, *others] if text.strip() else others
    return body


def _show(console: Console, reviews: list[Review], counter: TokenCounter) -> None:
    for one in reviews:
        console.print(f"{one.source}: {_count(one)}", style="bold")
        for finding in one.findings:
            _finding(console, one, finding)
        if one.suggested != one.text:
            console.print("\n  suggested (--write OUT keeps it):", style="dim")
            console.print("\n".join(f"  | {line}" for line in one.suggested.splitlines()))
        console.print()
    kinds = Counter(finding.kind for one in reviews for finding in one.findings)
    before, after = (
        sum(values) for values in zip(*((one.tokens, one.suggested_tokens) for one in reviews), strict=True)
    )
    said = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()) or "nothing found"
    console.print(f"{said} · {before} → {after} tokens of system text, counted with {counter.name}")


def _count(one: Review) -> str:
    if not one.findings:
        return f"{one.tokens} tokens, nothing found"
    shorter = f" → {one.suggested_tokens}" if one.suggested_tokens != one.tokens else ""
    return f"{one.tokens}{shorter} tokens, {len(one.findings)} found"


def _finding(console: Console, one: Review, finding: Finding) -> None:
    place = f"{finding.line}" if finding.line else "-"
    cost = f"{finding.after} tokens behind it are computed anew" if finding.after else f"{finding.tokens} tokens"
    console.print(f"  {place:>4}  {finding.kind:13} {finding.text}")
    console.print(
        f"        {finding.why} ({cost})" if finding.after or finding.tokens else f"        {finding.why}", style="dim"
    )
    if finding.edit is not None and len(finding.edit.text.strip()) > 1:
        console.print(f"        → {finding.edit.text.strip()}", style="dim")
