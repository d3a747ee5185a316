"""`hasten ask`: one question, streamed to the terminal."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
import typer
from rich.console import Console

from hasten.answered import Answered
from hasten.client import Hasten
from hasten.commands.options import Json, Nats, Tenant, refuse, with_client
from hasten.messages.chat import ChatReply, Chunk

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
    max_tokens: Annotated[int | None, typer.Option(min=1, help="The longest answer.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds until the deadline.")] = 60.0,
    tenant: Tenant = "demo",
    nats: Nats = None,
    as_json: Json = False,
) -> None:
    """Ask, and read the answer as it is generated; where it came from and how fast are said at the end."""
    if not question.strip():
        refuse("the question is empty")
    options: dict[str, Any] = {"knowledge": knowledge or [], "model": model, "cache": {"mode": cache}}
    if max_tokens is not None:
        options["max_tokens"] = max_tokens

    async def work(hasten: Hasten) -> int:
        answered = Answered()
        async for event in hasten.chat(question, timeout_s=timeout, **options):
            answered.add(event)
            if not as_json:
                show(event)
        if as_json:
            print(msgspec.json.encode(answered).decode())
        else:
            conclude(answered, knowledge or [])
        return 0 if answered.failure is None else 1

    with_client(nats, tenant, work)


def show(event: ChatReply) -> None:
    """Writes the text of a chunk at once."""
    if isinstance(event, Chunk) and event.text:
        sys.stdout.write(event.text)
        sys.stdout.flush()


def conclude(answered: Answered, knowledge: Sequence[str]) -> None:
    """Says on stderr where the answer came from, so that stdout holds the answer alone."""
    if answered.chunks:
        print(flush=True)
    console = Console(stderr=True, highlight=False)
    if answered.failure is not None:
        console.print(f"{answered.failure.code}: {answered.failure.detail}", style="red", markup=False)
        return
    console.print(summary(answered, knowledge), style="dim", markup=False, soft_wrap=True)


def summary(answered: Answered, knowledge: Sequence[str] = ()) -> str:
    """The last line: source, model, time to the first token and to the end, and what was read of `knowledge`."""
    first = "no text" if answered.ttft_ms is None else f"first token {answered.ttft_ms:.0f} ms"
    parts = [SOURCES.get(answered.cache, answered.cache), answered.model, first, f"total {answered.total_ms:.0f} ms"]
    if answered.finish_reason == "length":
        parts.append("cut at the token limit")
    parts += _read(answered.notes.get("sources", {}), knowledge)
    if entry := answered.notes.get("cache", {}).get("entry_id"):
        parts.append(f"entry {entry}")
    return " · ".join(part for part in parts if part)


def _read(sources: dict[str, Any], knowledge: Sequence[str]) -> list[str]:
    """What the note on the sources says: the titles, and the collections that hold nothing."""
    titles = [str(passage.get("title") or passage.get("document")) for passage in sources.get("passages", [])]
    missing = sources.get("missing", [])
    parts = [f"nothing found in {', '.join(missing)}"] if missing else []
    if titles:
        parts.append("from " + ", ".join(dict.fromkeys(titles)))
    elif set(knowledge) - set(missing):
        parts.append("no passages used")
    return parts
