"""The embedder over a real NATS: with the real model, and with a slow one that shows how it orders its work."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Awaitable
from pathlib import Path

import numpy as np
import pytest
from embedder_rig import Slow, embed, rows, running

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.embedder import export
from hasten.embedder.onnx_encoder import OnnxEncoder
from hasten.embedder.service import Embedder
from hasten.embedder.settings import DEFAULT_MODEL, Settings
from hasten.messages.embed import EMBED, Embed
from hasten.messages.failure import Failure

QUESTION = "how long does a refund take when i pay with a gift card"
ROOT = Path(__file__).parents[2]
DATA = ROOT / ".hasten"


@pytest.fixture(scope="session")
def data() -> Path:
    """The data folder of the checkout, with the export made if it was not there."""
    export.prepare(DATA, print)
    return DATA


@pytest.fixture(scope="session")
def onnx(data: Path) -> OnnxEncoder:
    """The real model on one thread."""
    return OnnxEncoder(export.folder(data), 1)


async def test_the_real_model_end_to_end(bus: Bus, data: Path) -> None:
    async with running(bus, settings=Settings(data=str(data))):
        reply = await embed(bus, QUESTION, "When do I get my money back for a gift card?", "Waterfalls in Peru", "")
    vectors = rows(reply)
    assert (reply.dim, reply.model) == (384, DEFAULT_MODEL)
    assert vectors.shape == (4, 384)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-4)
    assert vectors[0] @ vectors[1] > 0.5 > 0.2 > vectors[0] @ vectors[2]
    assert reply.tokens[3] == 2
    assert reply.truncated == [False] * 4


async def test_a_text_beyond_the_window_is_said_to_be_truncated(bus: Bus, onnx: OnnxEncoder) -> None:
    fits, longer = " ".join(["word"] * 254), " ".join(["word"] * 255)
    async with running(bus, onnx):
        reply = await embed(bus, fits, longer, longer + " and then something else entirely")
    assert reply.truncated == [False, True, True]
    assert reply.tokens[:2] == [256, 257]
    vectors = rows(reply)
    assert vectors[1] @ vectors[2] > 0.99999


async def test_no_texts_give_no_vectors(bus: Bus) -> None:
    async with running(bus, Slow()):
        assert (await embed(bus)).vectors == []


def test_a_vector_does_not_depend_on_its_batch(onnx: OnnxEncoder) -> None:
    texts = [QUESTION, "no", "", "Order A-4711 was returned. " * 30, "返品 🙂 Rückgabe", "Are interns not allowed?"]
    alone = np.vstack([onnx.encode([text]).vectors for text in texts])
    together = onnx.encode(texts).vectors
    shuffled = onnx.encode(texts[::-1]).vectors[::-1]
    assert np.abs(alone - together).max() < 1e-4
    assert np.abs(alone - shuffled).max() < 1e-4


async def test_many_texts_come_back_in_order(bus: Bus, onnx: OnnxEncoder) -> None:
    texts = [f"{QUESTION} number {number} " + "and more " * (number % 7) for number in range(48)]
    async with running(bus, onnx):
        many = rows(await embed(bus, *texts))
        for at in (0, 17, 47):
            assert np.abs(many[at] - rows(await embed(bus, texts[at]))[0]).max() < 1e-4


async def turns_during(work: Awaitable[object]) -> int:
    """How often the loop got to run something else, a millisecond apart, while the work was done."""
    turns, task = 0, asyncio.ensure_future(work)
    while not task.done():
        await asyncio.sleep(0.001)
        turns += 1
    await task
    return turns


async def test_the_loop_goes_on_while_32_requests_are_embedded(bus: Bus, onnx: OnnxEncoder) -> None:
    text = "the parcel was returned because nobody signed for it on tuesday " * 20
    async with running(bus, onnx):
        turns = await turns_during(asyncio.gather(*(embed(bus, f"{number} {text}") for number in range(32))))
    assert turns > 5 * 32, "a batch per text: a loop that waited for each would get a turn or two per batch"


async def test_a_query_does_not_wait_for_an_ingestion(bus: Bus) -> None:
    slow = Slow()
    async with running(bus, slow):
        large = asyncio.ensure_future(embed(bus, *(f"{number:04} " + "x" * 500 for number in range(100))))
        while len(slow.batches) < 3:
            await asyncio.sleep(0.005)
        before = len(slow.batches)
        await embed(bus, "a question")
        waited = len(slow.batches) - before
        assert not large.done()
        assert len((await large).vectors) == 100
    assert waited <= 3
    assert len(slow.threads) == 1
    assert threading.get_ident() not in slow.threads


async def test_requests_that_arrive_together_share_batches(bus: Bus) -> None:
    slow = Slow()
    async with running(bus, slow):
        replies = await asyncio.gather(*(embed(bus, "q" * (number + 1)) for number in range(12)))
    assert [rows(reply)[0][0] for reply in replies] == [number + 1 for number in range(12)]
    assert len(slow.batches) < 12


async def test_a_request_whose_deadline_passed_is_not_encoded_to_its_end(bus: Bus) -> None:
    slow = Slow(0.05)
    async with running(bus, slow):
        texts = [f"{number:04} " + "x" * 500 for number in range(100)]
        reply = await bus.request(EMBED, Embed(texts=texts), deadline_ms=now_ms() + 200, tenant="acme")
        assert isinstance(reply, Failure)
        assert reply.code == "deadline"
        await embed(bus, "next")
    assert len(slow.batches) < 50


@pytest.mark.parametrize(
    ("texts", "code"),
    [(["x"] * 9, "too_large"), (["x" * 101], "too_large"), (["x"] * 6, "overloaded")],
    ids=["texts", "characters", "line"],
)
async def test_limits_are_answered_and_nothing_is_encoded(bus: Bus, texts: list[str], code: str) -> None:
    slow = Slow()
    async with running(bus, slow, Settings(max_texts=8, max_chars=100, max_waiting=5)):
        reply = await bus.request(EMBED, Embed(texts=texts), tenant="acme")
        assert isinstance(reply, Failure)
        assert reply.code == code
        assert (reply.retry_after_ms is not None) == (code == "overloaded")
        assert slow.batches == []
        await embed(bus, "still there")


async def test_a_failing_batch_fails_its_callers_without_their_text_and_the_service_goes_on(bus: Bus) -> None:
    async with running(bus, Slow()):
        reply = await bus.request(EMBED, Embed(texts=["poison"]), tenant="acme")
        assert isinstance(reply, Failure)
        assert reply.code == "internal"
        assert "poison" not in reply.detail
        await embed(bus, "still there")


async def test_a_drain_answers_what_was_accepted(bus: Bus) -> None:
    made = Embedder(Settings(), bus, Slow(0.05))
    await made.start()
    waiting = [asyncio.ensure_future(embed(bus, "x" * 400, f"{number}" + "y" * 400)) for number in range(5)]
    async with asyncio.timeout(20):
        while made._service.active < len(waiting):
            await asyncio.sleep(0.005)
    await made.drain()
    assert [len(reply.vectors) for reply in await asyncio.gather(*waiting)] == [2] * 5
    await made.close()


async def test_two_replicas_answer_once(bus: Bus) -> None:
    one, other = Slow(0), Slow(0)
    async with running(bus, one), running(bus, other):
        await asyncio.gather(*(embed(bus, f"text {number}") for number in range(40)))
    encoded = [text for slow in (one, other) for batch in slow.batches for text in batch]
    assert sorted(encoded) == sorted(f"text {number}" for number in range(40))


def test_a_second_start_imports_neither_torch_nor_sentence_transformers(data: Path) -> None:
    code = (
        "import sys; from hasten.embedder.loading import load; from hasten.embedder.settings import Settings;"
        f"load(Settings(data={str(data)!r})); print('torch' in sys.modules, 'sentence_transformers' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["False", "False"]
