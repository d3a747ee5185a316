"""The compressor over a real NATS: its replies, its failures, long requests beside short ones, and its drain."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from hasten.bus import Bus
from hasten.compressor.service import Compressor, build
from hasten.compressor.settings import Settings
from hasten.messages.chat import Turn
from hasten.messages.compress import COMPRESS, Compress, Compressed
from hasten.messages.failure import Failure
from hasten.messages.retrieve import Passage
from hasten.telemetry import REGISTRY

QUESTION = Turn(role="user", content="What does the Family plan cost?")
FACT = "The Family plan costs 9 euros per month."
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with a tokenizer for which every byte is a token."""
    folder = tmp_path / "data" / "models" / "bytes"
    folder.mkdir(parents=True)
    alphabet = {byte: at for at, byte in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    made = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.add_special_tokens([AddedToken(token, special=True) for token in ("<|im_start|>", "<|im_end|>")])
    made.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return tmp_path / "data"


@pytest_asyncio.fixture
async def compressor(bus: Bus, data: Path) -> AsyncIterator[Compressor]:
    """A running compressor."""
    made = build(Settings(data=str(data)), bus)
    await made.start()
    yield made
    await made.close()


def request(*texts: str, **options: Any) -> Compress:
    passages = [Passage(id=f"p{at}", collection="c", document="d", text=text) for at, text in enumerate(texts)]
    return Compress(**{"messages": [QUESTION], "passages": passages, "tokenizer": "bytes", **options})


def filler(characters: int) -> str:
    sentence = "The office of the {n}th district opens at nine. "
    return "".join(sentence.format(n=n) for n in range(characters // len(sentence)))


async def test_it_compresses_in_tokens_of_the_named_tokenizer(bus: Bus, compressor: Compressor) -> None:
    body = request(filler(3000), f"{filler(900)}{FACT} {filler(900)}", token_budget=600, context_window=4000)
    made = await bus.request(COMPRESS, body, tenant="acme")
    assert isinstance(made, Compressed)
    assert FACT in made.messages[-1].text
    rendered = sum(len(f"{turn.role}\n{turn.text}\n".encode()) + 2 for turn in made.messages)
    assert made.tokens_after == rendered <= 600
    assert made.tokens_before > 4000
    assert made.used == [part.id for part in made.parts if part.kind == "passage" and part.after]


async def test_a_tokenizer_that_is_not_there_is_estimated(bus: Bus, compressor: Compressor) -> None:
    counted = REGISTRY.get_sample_value("hasten_compressor_estimated_total") or 0.0
    for name in ("", "absent"):
        made = await bus.request(COMPRESS, request(FACT, tokenizer=name), tenant="acme")
        assert isinstance(made, Compressed)
        assert FACT in made.messages[-1].text
    assert REGISTRY.get_sample_value("hasten_compressor_estimated_total") == counted + 2


async def test_failures_are_replies(bus: Bus, compressor: Compressor) -> None:
    overflow = await bus.request(COMPRESS, request(messages=[Turn(role="user", content=filler(9000))]), tenant="acme")
    assert isinstance(overflow, Failure)
    assert overflow.code == "context_overflow"
    assert "4096" in overflow.detail
    refused = await bus.request(COMPRESS, request(tokenizer="../../etc"), tenant="acme")
    assert isinstance(refused, Failure)
    assert refused.code == "bad_request"
    assert compressor.report()["context_overflow"] == 1


async def test_a_long_request_does_not_hold_up_the_loop(bus: Bus, compressor: Compressor) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    ticking = asyncio.create_task(tick())
    long = request(*[filler(40_000) for _ in range(20)], token_budget=2000)
    slow = asyncio.create_task(bus.request(COMPRESS, long, tenant="acme"))
    quick = await bus.request(COMPRESS, request(FACT, tokenizer=""), tenant="acme")
    assert isinstance(quick, Compressed)
    assert not slow.done()
    assert isinstance(await slow, Compressed)
    ticking.cancel()
    assert ticks >= 20


LONG = "w " * 2000
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": LONG}}


@pytest.mark.parametrize(
    "options",
    [
        {"tools": [{"type": "function", "function": {"name": "f", "description": LONG}}]},
        {"passages": [Passage(id="p", collection="c", document="d", text="x", title=LONG)]},
        {"passages": [Passage(id="p", collection="c", document="d", text="x", heading=LONG)]},
        {"messages": [QUESTION, Turn(role="assistant", tool_calls=[CALL]), QUESTION]},
        {"messages": [Turn(role="user", name=LONG, content="hi")]},
        {"messages": [Turn(role="user", content="")] * 2000 + [QUESTION]},
    ],
    ids=["tools", "title", "heading", "call", "name", "turns"],
)
async def test_what_is_long_anywhere_is_read_beside_the_loop(
    bus: Bus, compressor: Compressor, options: dict[str, Any]
) -> None:
    def in_a_thread() -> float:
        return REGISTRY.get_sample_value("hasten_compressor_seconds_count", {"where": "thread"}) or 0.0

    before = in_a_thread()
    reply = await bus.request(COMPRESS, request(**{"context_window": 50_000, **options}), tenant="acme")
    assert isinstance(reply, Compressed)
    assert in_a_thread() == before + 1


async def test_many_tenants_at_once_get_their_own_prompts(bus: Bus, compressor: Compressor) -> None:
    async def ask(at: int) -> None:
        own = f"The code of tenant {at} is {at * 7919}."
        made = await bus.request(COMPRESS, request(own, filler(4000)), tenant=f"t{at}")
        assert isinstance(made, Compressed)
        assert own in made.messages[-1].text

    await asyncio.gather(*(ask(at) for at in range(100)))
    assert compressor.report()["requests"] == 100


async def test_a_drain_answers_what_was_accepted(bus: Bus, data: Path) -> None:
    made = build(Settings(data=str(data)), bus)
    await made.start()
    asked = [asyncio.create_task(bus.request(COMPRESS, request(filler(30_000)), tenant="acme")) for _ in range(20)]
    while not made._service.active:
        await asyncio.sleep(0.001)
    await bus.flush()
    await made.drain()
    assert all(isinstance(reply, Compressed) for reply in await asyncio.gather(*asked))
    await made.close()
    after = await bus.request(COMPRESS, request(FACT), tenant="acme")
    assert isinstance(after, Failure)
    assert after.code == "unavailable"


async def test_plain_json_takes_part_and_figures_are_kept(bus: Bus, compressor: Compressor) -> None:
    counted = REGISTRY.get_sample_value("hasten_compressor_tokens_before_count") or 0.0
    body = {"messages": [{"role": "user", "content": "hi"}], "future_field": 1}
    reply = await bus.client.request("hasten.v1.compress.acme", json.dumps(body).encode(), timeout=10)
    assert json.loads(reply.data)["messages"] == [{"role": "user", "content": "hi"}]
    assert REGISTRY.get_sample_value("hasten_compressor_tokens_before_count") == counted + 1
    report = compressor.report()
    assert report["requests"] == 1
    assert report["tokens_before"] == report["tokens_after"] > 0
