"""A provider of two simulated models with a fixed number of slots for both, over OpenAI's chat API; a real HTTP hop.

`python -m loadtest.provider --stack 1 --slots 8 --port P --questions FILE --models DIR` prints `ready` when it serves.
Every call pays the network, then waits for a slot in the order of arrival, and holds it for as long as a model of the
stack takes: the first token is linear in the tokens of the prompt that has really come, counted with a tokenizer. Each
answer names the question it is for. There is no prefix cache, and a caller that hangs up frees nothing.

GET /records gives what was asked since the last GET, with what nobody but the provider can know: the tokens that came,
how long a slot was held, and whether the evidence of the question was in the prompt.
"""

import argparse
import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import uvicorn

from hasten.compressor.hf_tokenizer import HfTokenizer
from hasten.compressor.tokens import TokenCounter
from hasten.messages.chat import Turn
from loadtest.stages import LARGE, STACKS, Stack
from loadtest.workload import Question

ASKED = "Question: "
"""What stands before the user's words where passages come before them."""
FILLER = "and so on "
Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One call. `waited_ms` for a slot, `held_ms` of it; `evidence` is None where nothing is known of the question."""

    question: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    waited_ms: float
    held_ms: float
    dollars: float
    evidence: bool | None = None


class _Body(msgspec.Struct):
    messages: list[Turn]
    model: str = LARGE
    stream: bool = False


class Catalogue:
    """The questions by their words."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self._of = {words: one for one in questions for words in (one.text, one.other) if words}

    def of(self, messages: Sequence[Turn]) -> tuple[Question | None, str]:
        """The question that is asked, and all of the prompt that stands before it."""
        last = messages[-1].text
        for words in (last, last.rpartition(ASKED)[2]):
            if (found := self._of.get(words.strip())) is not None:
                before = [turn.text for turn in messages[:-1]]
                return found, "\n".join([*before, last[: len(last) - len(words)]])
        return None, last


def answer_of(question: Question | None, tokens: int) -> list[str]:
    """An answer of so many tokens, the first of which names the question."""
    name = question.id if question else "unknown"
    filler = FILLER.split()
    return [f"[[{name}]]", *(f" {filler[at % len(filler)]}" for at in range(tokens - 1))]


def named_in(answer: str) -> str:
    """The question that an answer was made for."""
    return answer[2 : answer.find("]]")] if answer.startswith("[[") else ""


class Provider:
    """The models behind their slots."""

    def __init__(self, stack: Stack, slots: int, catalogue: Catalogue, counter: TokenCounter) -> None:
        self._stack, self._catalogue, self._counter = stack, catalogue, counter
        self._slots = asyncio.Semaphore(slots)
        self.records: list[Record] = []

    async def answer(self, body: _Body, say: Callable[[str], Awaitable[None]]) -> tuple[int, int]:
        """Says each token when it is due; returns the tokens of the prompt and of the answer."""
        stack, loop = self._stack, asyncio.get_running_loop()
        came = loop.time()
        prompt_tokens = self._counter.prompt(body.messages)
        question, before = self._catalogue.of(body.messages)
        tokens = answer_of(question, stack.answer_tokens)
        await _until(came + stack.network_ms / 1000)
        asked = loop.time()
        async with self._slots:
            began = loop.time()
            due = began + stack.first_ms(body.model, prompt_tokens) / 1000
            step = stack.generation_ms / 1000 / (len(tokens) - 1)
            for at, token in enumerate(tokens):
                await _until(due + at * step)
                await say(token)
            ended = loop.time()
        self.records.append(
            Record(
                question=question.id if question else "",
                model=body.model,
                prompt_tokens=prompt_tokens,
                completion_tokens=len(tokens),
                waited_ms=1000 * (began - asked),
                held_ms=1000 * (ended - began),
                dollars=stack.cost(body.model, prompt_tokens, len(tokens)),
                evidence=question.evidence_in(before) if question and question.has_evidence else None,
            )
        )
        return prompt_tokens, len(tokens)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """The HTTP side, as an ASGI application."""
        if scope["path"].endswith("/models"):
            await _reply(send, b'{"object": "list", "data": []}')
        elif scope["path"] == "/records":
            found, self.records = self.records, []
            await _reply(send, msgspec.json.encode(found))
        else:
            body = msgspec.json.decode(await _read(receive), type=_Body)
            await (self._streamed(body, send) if body.stream else self._whole(body, send))

    async def _whole(self, body: _Body, send: Send) -> None:
        said: list[str] = []

        async def say(token: str) -> None:
            said.append(token)

        usage = _usage(*await self.answer(body, say))
        message = {"role": "assistant", "content": "".join(said)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        plain = {"id": "1", "object": "chat.completion", "model": body.model, "choices": [choice], "usage": usage}
        await _reply(send, msgspec.json.encode(plain))

    async def _streamed(self, body: _Body, send: Send) -> None:
        await send(_head(b"text/event-stream"))

        async def say(token: str) -> None:
            await send(
                {"type": "http.response.body", "body": _event(body.model, {"content": token}), "more_body": True}
            )

        usage = _usage(*await self.answer(body, say))
        end = _event(body.model, {}, "stop") + _event(body.model, None, None, usage) + b"data: [DONE]\n\n"
        await send({"type": "http.response.body", "body": end})


async def _until(due: float) -> None:
    """Waits for a moment of the loop's clock; one that is past lets nobody in between."""
    left = due - asyncio.get_running_loop().time()
    if left > 0:
        await asyncio.sleep(left)


def _usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    whole = prompt_tokens + completion_tokens
    return {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens, "total_tokens": whole}


def _event(
    model: str, delta: dict[str, str] | None, finish_reason: str | None = None, usage: dict[str, int] | None = None
) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish_reason}]
    plain: dict[str, Any] = {"id": "1", "object": "chat.completion.chunk", "model": model, "choices": choices}
    return b"data: " + msgspec.json.encode(plain | ({"usage": usage} if usage else {})) + b"\n\n"


def _head(kind: bytes) -> dict[str, Any]:
    return {"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]}


async def _reply(send: Send, body: bytes) -> None:
    await send(_head(b"application/json"))
    await send({"type": "http.response.body", "body": body})


async def _read(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


class _Server(uvicorn.Server):
    """uvicorn's server, which says when it is up."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print("ready", flush=True)


async def _serve(provider: Provider, port: int) -> None:
    config = uvicorn.Config(provider, port=port, log_level="error", access_log=False, lifespan="off", ws="none")
    await _Server(config).serve()


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stack", choices=sorted(STACKS), default="1")
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--models", type=Path, default=Path(".hasten/models"))
    given = parser.parse_args()
    questions = msgspec.json.decode(given.questions.read_bytes(), type=list[Question])
    counter = HfTokenizer(given.models / "smollm2")
    provider = Provider(STACKS[given.stack], given.slots, Catalogue(questions), counter)
    asyncio.run(_serve(provider, given.port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
