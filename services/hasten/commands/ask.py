"""`hasten ask`: one question, streamed to the terminal."""

import sys
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from hasten.answered import Answered
from hasten.client import Hasten
from hasten.commands.options import Json, Nats, Tenant, with_client
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
    cache: Annotated[str, typer.Option(help="auto, exact, off or refresh.")] = "auto",
    max_tokens: Annotated[int | None, typer.Option(min=1, help="The longest answer.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds until the deadline.")] = 60.0,
    tenant: Tenant = "demo",
    nats: Nats = None,
    as_json: Json = False,
) -> None:
    """Ask, and read the answer as it is generated; where it came from and how fast are said at the end."""
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
            conclude(answered)
        return 0 if answered.failure is None else 1

    with_client(nats, tenant, work)


def show(event: ChatReply) -> None:
    """Writes the text of a chunk at once."""
    if isinstance(event, Chunk) and event.text:
        sys.stdout.write(event.text)
        sys.stdout.flush()


def conclude(answered: Answered) -> None:
    """Says on stderr where the answer came from, so that stdout holds the answer alone."""
    if answered.chunks:
        print(flush=True)
    console = Console(stderr=True, highlight=False)
    if answered.failure is not None:
        console.print(f"{answered.failure.code}: {answered.failure.detail}", style="red", markup=False)
        return
    console.print(summary(answered), style="dim", markup=False)


def summary(answered: Answered) -> str:
    """The last line: source, model, time to the first token and to the end, and what was read."""
    first = "no text" if answered.ttft_ms is None else f"first token {answered.ttft_ms:.0f} ms"
    parts = [SOURCES.get(answered.cache, answered.cache), answered.model, first, f"total {answered.total_ms:.0f} ms"]
    passages = answered.notes.get("sources", {}).get("passages", [])
    titles = [str(passage.get("title") or passage.get("document")) for passage in passages]
    if titles:
        parts.append("from " + ", ".join(dict.fromkeys(titles)))
    return " · ".join(part for part in parts if part)
