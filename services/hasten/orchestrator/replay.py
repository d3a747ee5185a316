"""Says a stored answer on a flight, in the pieces that a generation would have come in."""

from collections.abc import Iterator
from typing import Any

from msgspec import structs, to_builtins

from hasten.chunks import split_text
from hasten.messages.cache import Answer, CacheHit
from hasten.messages.chat import Done, Usage
from hasten.orchestrator.flight import Flight
from hasten.orchestrator.guard.rules import NOTE


def replay(flight: Flight, hit: CacheHit, words: int) -> None:
    """The whole stream of a hit, in pieces of so many words whose concatenation is the stored text."""
    answer = hit.answer
    flight.tags, flight.read_seq = hit.tags, hit.read_seq
    flight.note("cache", about(hit))
    for kind, data in notes_of(answer):
        flight.note(kind, data)
    if answer.reasoning:
        flight.text(reasoning=answer.reasoning)
    pieces = split_text(answer.text)
    for start in range(0, len(pieces), words):
        flight.text("".join(pieces[start : start + words]))
    if answer.tool_calls:
        flight.text(tool_calls=[{"index": at, **call} for at, call in enumerate(answer.tool_calls)])
    flight.say(done_of(flight, structs.replace(answer, usage=from_cache(answer.usage)), hit.kind))


def notes_of(answer: Answer) -> Iterator[tuple[str, dict[str, Any]]]:
    """The kind and data of what is told of a stored answer: not under which rules it was made."""
    for note in answer.notes:
        kind, data = note.get("kind"), note.get("data")
        if isinstance(kind, str) and isinstance(data, dict):
            told = {name: value for name, value in data.items() if kind != NOTE or name != "rules"}
            if told or kind != NOTE:
                yield kind, told


def about(hit: CacheHit) -> dict[str, Any]:
    """What the note says of a hit."""
    said = {"hit": hit.kind, "model": hit.answer.model, "entry_id": hit.entry_id, "age_s": hit.age_s}
    expired = {"stale": True} if hit.stale else {}
    why = {"explained": to_builtins(hit.explained)} if hit.explained is not None else {}
    return {**said, "similarity": round(hit.similarity, 6), **expired, **why}


def from_cache(usage: Usage) -> Usage:
    """The counts of the first generation, with all tokens marked as cached: they cost nothing this time."""
    details = {**(usage.completion_tokens_details or {}), "cached_tokens": usage.completion_tokens}
    details.pop("cascade", None)
    return structs.replace(usage, cached_tokens=usage.prompt_tokens, completion_tokens_details=details)


def done_of(flight: Flight, answer: Answer, cache: Any) -> Done:
    """The end of a flight whose answer is whole."""
    return Done(
        finish_reason=answer.finish_reason,
        usage=answer.usage,
        model=answer.model,
        cache=cache,
        timings_ms=dict(flight.watch.stages),
        chunks=flight.chunks,
    )
