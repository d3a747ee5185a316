"""`hasten ask`: one question, streamed to the terminal."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
import typer
from rich.console import Console

from hasten.answered import Answered
from hasten.client import Hasten, Prompt
from hasten.commands.explain import turns
from hasten.commands.options import Json, Nats, Tenant, refuse, with_client
from hasten.messages.chat import ChatReply, Chunk
from hasten.topics import random_id

SOURCES = {
    "exact": "exact hit",
    "semantic": "semantic hit",
    "shared": "shared with an identical request",
    "miss": "generated",
}


def ask(
    question: Annotated[str, typer.Argument(help="What to ask.")],
    knowledge: Annotated[
        list[str] | None, typer.Option("--knowledge", "-k", help="A collection to answer from; may be repeated.")
    ] = None,
    model: Annotated[str, typer.Option(help="The model's public name; auto leaves the choice to the router.")] = "auto",
    cache: Annotated[
        Literal["auto", "exact", "off", "refresh"], typer.Option(help="What the cache may do; exact: not by meaning.")
    ] = "auto",
    system: Annotated[str | None, typer.Option(help="The system text of the request.")] = None,
    max_age: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0, help="Take no stored answer that is older.")
    ] = None,
    ttl: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0, help="Keep the answer no longer; 0: not at all.")
    ] = None,
    no_store: Annotated[bool, typer.Option("--no-store", help="Do not store the answer.")] = False,
    tag: Annotated[
        list[str] | None, typer.Option(help="What the answer depends on, such as prices:7; may be repeated.")
    ] = None,
    user: Annotated[
        str | None, typer.Option(help="Whose request it is; what is stored of it answers this user alone.")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="The longest answer.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds until the deadline.")] = 60.0,
    why: Annotated[bool, typer.Option("--why", help="Say why this model and worker were chosen.")] = False,
    tenant: Tenant = "demo",
    nats: Nats = None,
    as_json: Json = False,
) -> None:
    """Ask, and read the answer as it is generated; where it came from and how fast are said at the end."""
    if not question.strip():
        refuse("the question is empty")
    policy = {
        "mode": cache,
        "max_age_s": max_age,
        "ttl_s": ttl,
        "store": not no_store,
        "tags": tag or [],
        "scope": "tenant" if user is None else "user",
    }
    given = {"max_tokens": max_tokens, "user": user}
    options: dict[str, Any] = {"knowledge": knowledge or [], "model": model, "cache": policy}
    options |= {name: value for name, value in given.items() if value is not None}
    prompt: Prompt = question if system is None else turns(system, question)

    async def work(hasten: Hasten) -> int:
        answered = Answered(request_id=random_id())
        async for event in hasten.chat(prompt, request_id=answered.request_id, timeout_s=timeout, **options):
            answered.add(event)
            if not as_json:
                show(event)
        if as_json:
            print(msgspec.json.encode(answered).decode())
        else:
            conclude(answered, knowledge or [], why=why)
        return 0 if answered.failure is None else 1

    with_client(nats, tenant, work)


def show(event: ChatReply) -> None:
    """Writes the text of a chunk at once."""
    if isinstance(event, Chunk) and event.text:
        sys.stdout.write(event.text)
        sys.stdout.flush()


def conclude(answered: Answered, knowledge: Sequence[str], *, why: bool = False) -> None:
    """Says on stderr where the answer came from, so that stdout holds the answer alone."""
    if answered.chunks:
        print(flush=True)
    console = Console(stderr=True, highlight=False)
    if answered.failure is not None:
        console.print(f"{answered.failure.code}: {answered.failure.detail}", style="red", markup=False)
    else:
        console.print(summary(answered, knowledge), style="dim", markup=False, soft_wrap=True)
    for line in reasons(answered) if why else []:
        console.print(line, style="dim", markup=False, soft_wrap=True)


def reasons(answered: Answered) -> list[str]:
    """What the notes say of the choice of the model and the worker, a line for each."""
    notes = answered.notes
    if answered.cache in ("exact", "semantic"):
        return ["no model was chosen: the answer comes from the cache, hasten explain says why"]
    if (route := notes.get("route")) is None:
        return ["no model was chosen"]
    lines = [f"{route['worker']}: {route['reason']}, confidence {route['confidence']:.2f}"]
    if cascade := notes.get("cascade"):
        what = "another model was asked" if cascade.get("escalated") else "its draft was shown"
        because = f" ({cascade['reason']})" if cascade.get("reason") else ""
        lines.append(f"cascade: {cascade['model']} answered first, {what}{because}")
    if hedge := notes.get("hedge"):
        lines.append(f"hedge: a second worker was asked after {hedge['after_ms']:.0f} ms; {hedge['won']} spoke first")
    return lines


def summary(answered: Answered, knowledge: Sequence[str] = ()) -> str:
    """The last line: source, model, time to the first token and to the end, and what was read of `knowledge`."""
    first = "no text" if answered.ttft_ms is None else f"first token {answered.ttft_ms:.0f} ms"
    parts = [SOURCES.get(answered.cache, answered.cache), answered.model, first, f"total {answered.total_ms:.0f} ms"]
    if answered.finish_reason == "length":
        parts.append("cut at the token limit, so not stored")
    parts += _guarded(answered.notes.get("guard", {}))
    parts += _read(answered.notes.get("sources", {}), knowledge)
    about = answered.notes.get("cache", {})
    if entry := about.get("entry_id"):
        parts.append(f"entry {entry}")
    if answered.cache == "semantic":
        parts += [f"similarity {about.get('similarity', 0):.3f}", f"request {answered.request_id}"]
    return " · ".join(part for part in parts if part)


def _guarded(guard: dict[str, Any]) -> list[str]:
    """What the note of the guard says: what was hidden by which rule, who stopped the answer, who had no word on it."""
    parts = [f"{times} × hidden by the guard {rule}" for rule, times in guard.get("redacted", {}).items()]
    if rule := guard.get("stopped"):
        parts.append(f"stopped by the guard {rule}" + (f" ({guard['reason']})" if guard.get("reason") else ""))
    return parts + [f"the guard {rule} has not answered" for rule in guard.get("unanswered", [])]


def _read(sources: dict[str, Any], knowledge: Sequence[str]) -> list[str]:
    """What the note on the sources says: the titles, and the collections that hold nothing."""
    titles = [str(passage.get("title") or passage.get("document")) for passage in sources.get("passages", [])]
    missing = sources.get("missing", [])
    parts = [f"nothing found in {', '.join(missing)}"] if missing else []
    parts += [f"{name} was left out ({reason})" for name, reason in sources.get("skipped", {}).items()]
    if titles:
        parts.append("from " + ", ".join(dict.fromkeys(titles)))
    elif set(knowledge) - set(missing):
        parts.append("no passages used")
    return parts
