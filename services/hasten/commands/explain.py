"""`hasten explain`: why a request would hit or miss, and what its prompt would be, without an answer being made."""

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from hasten.client import Hasten
from hasten.commands.explained_prompt import show_prompt
from hasten.commands.options import Json, Nats, Tenant, refuse, with_client
from hasten.messages.cache import Explained, Neighbour
from hasten.messages.explain import Explanation

PARTS = {
    "system": "system text",
    "history": "earlier turns",
    "response_format": "response format",
    "options": "extra options",
    "user": "user scope",
    "schema": "form of the hashes, or stream of changes",
    "unknown": "not known: it was stored without the hashes of its parts",
}
"""What the parts of a partition are called for people, where their own name says too little."""
REASONS = {
    "absent": "nothing is stored for it",
    "threshold": "nothing that is stored is near enough",
    "guard": "the nearest entry asks for something else",
    "stale": "what the entry depends on has changed",
    "expired": "the entry is too old",
    "rejected": "an operator has rejected this pair",
    "shadow": "an entry would answer, but hits by meaning are only rehearsed",
    "alarm": "an entry would answer, but the hit rate has jumped and hits by meaning are stopped",
    "short": "it is too short to be found by meaning",
    "uncacheable": "it is about one person or one moment, or too long to be found by meaning",
    "lease": "the cache has lost touch with the changes",
    "disabled": "hits by meaning are switched off",
    "unavailable": "the cache or its store does not answer, or the embedder tells nothing apart",
    "off": "the request does not read the cache",
}
"""What the reasons of a miss mean."""
WORDLESS = frozenset({"hit", "rejected", "threshold", "stale", "expired", "lease"})
"""Verdicts that no single word has led to."""
PERMISSIONS = {"exact": "found by key", "meaning": "found by meaning", "share": "shared", "store": "stored"}


def explain(
    question: Annotated[str | None, typer.Argument(help="What would be asked.")] = None,
    request: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="The whole chat body instead; - reads it from stdin.")
    ] = None,
    system: Annotated[str | None, typer.Option(help="The system text of the request.")] = None,
    knowledge: Annotated[
        list[str] | None, typer.Option("--knowledge", "-k", help="A collection to answer from; may be repeated.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model's public name.")] = None,
    text: Annotated[
        bool, typer.Option("--text", help="Show what of passages, history and examples is kept and what is cut.")
    ] = False,
    tenant: Tenant = "demo",
    nats: Nats = None,
    as_json: Json = False,
) -> None:
    """Say why a request would hit or miss the cache, and what its prompt would be; nothing is generated or stored."""
    if (question is None) == (request is None):
        refuse("give the question, or the whole request with --request FILE.json")
    if question is not None and not question.strip():
        refuse("the question is empty")
    body = read(request) if request is not None else {"messages": turns(system, question or "")}
    options: dict[str, Any] = {name: value for name, value in (("knowledge", knowledge), ("model", model)) if value}

    async def work(hasten: Hasten) -> int:
        found = await hasten.explain({**body, "explain": text}, **options)
        if as_json:
            print(msgspec.json.encode(found).decode())
        else:
            show(Console(highlight=False, soft_wrap=True, markup=False), found, text=text)
        return 0

    with_client(nats, tenant, work)


def turns(system: str | None, question: str) -> list[dict[str, str]]:
    """The messages of a question under a system text."""
    before = [{"role": "system", "content": system}] if system is not None else []
    return [*before, {"role": "user", "content": question}]


def read(path: Path) -> dict[str, Any]:
    """The chat body in a file."""
    try:
        raw = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        return msgspec.json.decode(raw, type=dict[str, Any])
    except OSError as error:
        refuse(f"{path} cannot be read: {error.strerror}")
    except (msgspec.DecodeError, UnicodeDecodeError):
        refuse(f"{path} is not a JSON object: it must be the body of a chat request, with its messages")


def show(console: Console, found: Explanation, *, text: bool = False) -> None:
    """Prints the verdict and what led to it, and what an answer would be generated from."""
    hit = {"exact": "exact hit", "semantic": "hit by meaning"}.get(found.outcome)
    missed = f"miss: {found.reason} ({REASONS.get(found.reason, 'see below')})"
    console.print(f"{hit}: entry {found.entry_id}" if hit else missed, style="bold")
    for name, label in PERMISSIONS.items():
        if why := found.may_not.get(name):
            console.print(f"may not be {label}: {why}")
    console.print(f"key {found.key} · partition {found.partition} ({', '.join(named(sorted(found.parts)))})")
    if found.tags:
        console.print(f"an answer would depend on {' '.join(found.tags)}")
    if found.lookup is None:
        console.print("no cache answers: is `hasten run cache` running?")
    else:
        _lookup(console, found.lookup)
    if found.prompt is not None:
        show_prompt(console, found.prompt, text=text)


def named(parts: list[str]) -> list[str]:
    """The parts in words."""
    return [PARTS.get(part, part) for part in parts]


def _lookup(console: Console, lookup: Explained) -> None:
    removed = lookup.by_key is not None and lookup.by_key.verdict == "removed"
    console.print(f"\nby key: {lookup.exact}" + (", but there was an entry" if removed else ""))
    if lookup.by_key is not None:
        _entry(console, lookup.by_key)
    if lookup.threshold is None:
        return
    console.print(
        f"\nby meaning, similarity and confidence, which must be {lookup.threshold:.3f}:"
        + ("" if lookup.nearest else " nothing here")
    )
    for one in lookup.nearest:
        sure = "  -  " if one.confidence is None else f"{one.confidence:.3f}"
        console.print(f"  {one.similarity:.3f} {sure}  {one.text}")
        console.print(f"         {verdict(one)}")
        _entry(console, one)
    if lookup.elsewhere:
        console.print("\nin other partitions of the tenant:")
    for one in lookup.elsewhere:
        console.print(f"  {one.similarity:.3f}  {one.text}")
        console.print(f"         differs in {', '.join(named(one.differs))}")
        _entry(console, one)


def verdict(one: Neighbour) -> str:
    """Why a neighbour may answer or not, and the words behind it."""
    why = f"{one.verdict} {one.guard}" if one.guard else one.verdict
    if one.verdict in WORDLESS:
        return why
    if not (one.asked_only or one.stored_only):
        return f"{why}: the same words in another order"
    sides = (("only asked", one.asked_only), ("only stored", one.stored_only))
    return f"{why}: " + "; ".join(f"{side}: {' '.join(words)}" for side, words in sides if words)


def _entry(console: Console, one: Neighbour) -> None:
    console.print(f"         entry {one.entry_id}, {one.age_s:.0f} s old, for {one.lives_s:.0f} s more", style="dim")
    for tag, sequence in one.changed.items():
        what = "everything was outdated" if tag == "*" else f"{tag} changed"
        console.print(f"         {what} (change {sequence}, read at {one.read_seq})", style="dim")
    console.print(f"         tags {' '.join(one.tags)}", style="dim")
    if one.sources:
        console.print(f"         made from {' '.join(one.sources)}", style="dim")
