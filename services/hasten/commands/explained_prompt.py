"""Shows what became of each part of a prompt: for `hasten explain`."""

from rich.console import Console
from rich.table import Table

from hasten.messages.compress import Part
from hasten.messages.explain import Prompted

NAMES = {"user": "last user turn", "steps": "tool steps", "system": "system text"}
"""What parts are called for people, where their own name says too little."""


def show_prompt(console: Console, prompt: Prompted, *, text: bool) -> None:
    """Prints the parts with their tokens, and with `text` each sentence, round and example."""
    for service, why in prompt.missing.items():
        console.print(f"\nno {service} answers ({why}): is `hasten run {service}` running?")
    if prompt.empty:
        console.print(f"\nnothing found in {', '.join(prompt.empty)}")
    for name, why in prompt.skipped.items():
        console.print(f"\nthe look-up {name} was left out ({why})")
    if not prompt.tokens_after:
        return
    console.print(
        f"\nthe prompt: {prompt.tokens_before} → {prompt.tokens_after} tokens for {prompt.model}, of which "
        f"{prompt.stable_tokens} at the start are the same for every request; the aim is {prompt.token_budget}, the "
        f"window {prompt.context_window}",
        style="bold",
    )
    console.print(_table(prompt.parts))
    if text:
        for part in prompt.parts:
            _pieces(console, part)
    elif any(part.pieces for part in prompt.parts):
        console.print("--text shows each sentence, round and example, kept or cut, and why", style="dim")


def _table(parts: list[Part]) -> Table:
    table = Table(box=None)
    table.add_column("part", overflow="fold")
    table.add_column("before", justify="right")
    table.add_column("after", justify="right")
    table.add_column("pieces kept", justify="right")
    table.add_column("why", overflow="fold")
    for part in parts:
        kept = f"{sum(piece.kept for piece in part.pieces)} of {len(part.pieces)}" if part.pieces else ""
        table.add_row(name_of(part), str(part.before), str(part.after), kept, part.why)
    return table


def name_of(part: Part) -> str:
    """What a part is called."""
    name = NAMES.get(part.kind, part.kind)
    return f"{name} {part.id}" if part.id else name


def _pieces(console: Console, part: Part) -> None:
    if not part.pieces:
        return
    console.print(f"\n{name_of(part)}", style="bold")
    for piece in part.pieces:
        first, *rest = piece.text.splitlines() or [""]
        style = "" if piece.kept else "dim"
        console.print(f"  {'+' if piece.kept else '-'} {piece.tokens:>4}  {first}", style=style)
        for line in rest:
            console.print(f"          {line}", style=style)
        console.print(f"          {piece.why}", style="italic dim")
