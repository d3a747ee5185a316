"""The stream of one answer under its rules: text, reasoning and the arguments of each tool call by themselves."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from msgspec import structs

from hasten.chunks import merge_tool_calls
from hasten.messages.cache import Answer
from hasten.messages.chat import Chunk
from hasten.messages.guard import Kind
from hasten.orchestrator.guard.rules import NOTE, Rules
from hasten.orchestrator.guard.sieve import Sieve
from hasten.telemetry import counter

_guarded = counter("guard_matches_total", "What rules have found in answers, by what became of it", "rule", "outcome")
STOPPED = "content_filter"
"""The finish_reason of an answer that a rule has ended."""
Say = Callable[[Chunk], None]


class Guarded:
    """Takes the chunks of one answer as they were generated and calls `say` with chunks, whose numbers count nothing,
    of what may be shown. Without rules each goes on as it is; with rules only its text, reasoning and tool calls do."""

    def __init__(self, rules: Rules, tenant: str, deadline_ms: Callable[[], float], say: Say) -> None:
        self._rules, self._tenant, self._deadline_ms, self._say = rules, tenant, deadline_ms, say
        self._sieves: dict[tuple[Kind, Any], Sieve] = {}
        self._calls: list[tuple[Any, Any]] = []

    @property
    def stopped(self) -> str:
        """The rule that has ended the answer; nothing while it goes on."""
        return next((sieve.stopped for sieve in self._sieves.values() if sieve.stopped), "")

    def restart(self) -> None:
        """Forgets what was taken, of which nothing has been shown."""
        self.close()
        self._sieves.clear()
        self._calls.clear()

    def known(self, chunks: Iterable[Chunk]) -> None:
        """Takes what readers have been shown already: text, since nothing else can be gone on from."""
        if self._looked_for("text"):
            self._sieve("text").known("".join(chunk.text for chunk in chunks))

    async def take(self, chunk: Chunk) -> None:
        """Takes the next chunk."""
        if not self._rules.mark:
            self._say(chunk)
            return
        for kind, text in (("reasoning", chunk.reasoning), ("text", chunk.text)):
            if text and not self.stopped:
                await self._take(kind, text)  # type: ignore[arg-type]
        for delta in chunk.tool_calls or ():
            if not self.stopped:
                await self._take_call(delta)

    async def _take(self, kind: Kind, text: str) -> None:
        if self._looked_for(kind):
            await self._sieve(kind).take(text)
        else:
            self._give(kind, text)

    async def _take_call(self, delta: dict[str, Any]) -> None:
        """A delta goes on without its arguments, if it has anything else to say; these follow as they may be shown."""
        function = delta.get("function")
        arguments = function.get("arguments") if isinstance(function, dict) else None
        if not self._looked_for("tool_calls") or not isinstance(function, dict) or not isinstance(arguments, str):
            self._say(Chunk(seq=0, tool_calls=[delta]))
            return
        call = await self._call_of(delta)
        if set(delta) - {"index"} != {"function"} or set(function) != {"arguments"}:
            self._say(Chunk(seq=0, tool_calls=[{**delta, "function": {**function, "arguments": ""}}]))
        await self._sieve("tool_calls", call).take(arguments)

    async def _call_of(self, delta: dict[str, Any]) -> tuple[Any, Any]:
        """The index and id of the call that a delta belongs to. One with another id than the last of its index begins
        another call: the one before it has ended."""
        index, id_ = delta.get("index"), delta.get("id")
        same = [call for call in self._calls if index is None or call[0] == index]
        last = same[-1] if same else None
        if last is not None and (not id_ or id_ == last[1]):
            return last
        if last is not None and index is not None:
            await self._sieve("tool_calls", last).end()
        self._calls.append((index, id_))
        return self._calls[-1]

    def _looked_for(self, kind: Kind) -> bool:
        return bool(self._rules.patterns[kind].all or self._rules.judges[kind])

    def _sieve(self, kind: Kind, call: tuple[Any, Any] = (None, None)) -> Sieve:
        made = self._sieves.get((kind, call))
        if made is None:
            give = partial(self._give, kind, call=call)
            made = self._sieves[kind, call] = Sieve(self._rules, kind, self._tenant, self._deadline_ms, give)
        return made

    def _give(self, kind: Kind, text: str, call: tuple[Any, Any] = (None, None)) -> None:
        if kind == "text":
            self._say(Chunk(seq=0, text=text))
        elif kind == "reasoning":
            self._say(Chunk(seq=0, reasoning=text))
        else:
            index, id_ = call
            name = {"index": index} if index is not None else {"id": id_} if id_ else {}
            self._say(Chunk(seq=0, tool_calls=[{**name, "function": {"arguments": text}}]))

    async def settle(self) -> None:
        """Returns when everything has been judged that was taken."""
        for sieve in self._sieves.values():
            await sieve.settle()

    async def end(self) -> None:
        """Says what may be shown now that nothing follows."""
        for sieve in list(self._sieves.values()):
            await sieve.end()
        for outcome, found in (("redacted", self._hits), ("stopped", {self.stopped: 1} if self.stopped else {})):
            for rule, times in found.items():
                _guarded.labels(rule, outcome).inc(times)

    @property
    def _hits(self) -> dict[str, int]:
        hits: dict[str, int] = {}
        for sieve in self._sieves.values():
            for rule, times in sieve.hits.items():
                hits[rule] = hits.get(rule, 0) + times
        return hits

    @property
    def found(self) -> dict[str, Any]:
        """What a note says of it: how often each rule has `redacted`, which one has `stopped` the answer and, if it was
        no match, why, and which ones were left out since they did not answer. No word of what was found."""
        silent = sorted({name for sieve in self._sieves.values() for name in sieve.silent})
        why = next((sieve.why for sieve in self._sieves.values() if sieve.why), "")
        said = {"redacted": self._hits, "stopped": self.stopped, "reason": why, "unanswered": silent}
        return {name: value for name, value in said.items() if value}

    @property
    def kept(self) -> list[dict[str, Any]]:
        """The notes of an answer that is stored: what was found, and the rules that it was made under, if all of them
        have read it."""
        found = self.found
        data = found if "unanswered" in found else {**found, "rules": self._rules.mark}
        return [{"kind": NOTE, "data": data}] if self._rules.mark else []

    def close(self) -> None:
        """Gives up what is being judged."""
        for sieve in self._sieves.values():
            sieve.close()


async def guarded(answer: Answer, rules: Rules, tenant: str, deadline_ms: float) -> Answer:
    """A stored answer as it may be shown under these rules, which it was not made under."""
    said: list[Chunk] = []

    stream = Guarded(rules, tenant, lambda: deadline_ms, said.append)
    try:
        await stream.take(Chunk(seq=0, text=answer.text, reasoning=answer.reasoning))
        for at, call in enumerate(answer.tool_calls or ()):
            await stream.take(Chunk(seq=0, tool_calls=[{"index": at, **call}]))
        await stream.end()
    finally:
        stream.close()
    others = [note for note in answer.notes if note.get("kind") != NOTE]
    return structs.replace(
        answer_of(answer, said),
        notes=[*others, *stream.kept],
        finish_reason=STOPPED if stream.stopped else answer.finish_reason,
    )


def answer_of(answer: Answer, said: list[Chunk]) -> Answer:
    """The answer with what has been said in place of what was generated."""
    return structs.replace(
        answer,
        text="".join(chunk.text for chunk in said),
        reasoning="".join(chunk.reasoning for chunk in said),
        tool_calls=merge_tool_calls(delta for chunk in said for delta in chunk.tool_calls or ()) or None,
    )
