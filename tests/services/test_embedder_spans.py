"""Vectors of stretches of a text: out of the text's own pass, whoever is in the batch."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from embedder_rig import Slow, rows, running
from sentence_transformers import SentenceTransformer

from hasten.bus import Bus
from hasten.embedder import export
from hasten.embedder.onnx_encoder import OnnxEncoder
from hasten.embedder.settings import Settings
from hasten.embedder.torch_encoder import TorchEncoder
from hasten.messages.embed import EMBED, Embed, Embedded
from hasten.messages.failure import Failure
from hasten.quantised import restored

DATA = Path(__file__).parents[2] / ".hasten"
SENTENCES = ["The fee is 5 euro.", "Waterfalls in Peru are high 🙂 indeed.", "返品は無料です。", "Ring us at noon."]
TEXT = "Prices\n" + " ".join(SENTENCES)
SPANS = [(TEXT.index(one), TEXT.index(one) + len(one)) for one in SENTENCES]


@pytest.fixture(scope="module")
def onnx() -> OnnxEncoder:
    """The real model on one thread."""
    export.prepare(DATA, print)
    return OnnxEncoder(export.folder(DATA), 1)


def test_both_ways_to_run_the_model_agree(onnx: OnnxEncoder) -> None:
    torch_encoder = TorchEncoder(export.model_path(), 1)
    texts, spans = [TEXT, "no sentence", "Two. Words."], [SPANS, [], [(0, 4), (5, 11)]]
    one, other = torch_encoder.encode(texts, spans), onnx.encode(texts, spans)
    assert [len(found) for found in other.spans] == [4, 0, 2]
    for found, same in zip(one.spans, other.spans, strict=True):
        assert np.abs(found - same).max(initial=0) < 1e-3
    assert np.abs(one.vectors - other.vectors).max() < 1e-3


def test_a_stretch_is_near_what_it_says_and_does_not_depend_on_the_batch(onnx: OnnxEncoder) -> None:
    alone = onnx.encode([TEXT], [SPANS])
    together = onnx.encode(["Something else. " * 40, TEXT, "x"], [[(0, 15)], SPANS, []])
    assert np.abs(alone.spans[0] - together.spans[1]).max() < 1e-4
    assert np.abs(alone.vectors[0] - onnx.encode([TEXT]).vectors[0]).max() < 1e-5, "asking for more changes nothing"
    assert np.allclose(np.linalg.norm(alone.spans[0], axis=1), 1, atol=1e-4)
    questions = onnx.encode(["How much must I pay?", "Which falls does Peru have?"]).vectors
    assert (questions @ alone.spans[0].T).argmax(axis=1).tolist() == [0, 1]


def test_all_of_a_text_is_the_text_but_for_its_special_tokens(onnx: OnnxEncoder) -> None:
    text = "The parcel was returned because nobody signed for it on Tuesday, and the fee was kept."
    found = onnx.encode([text], [[(0, len(text))]])
    assert found.spans[0][0] @ found.vectors[0] > 0.97


def test_a_stretch_beyond_the_window_or_without_a_word_is_zero(onnx: OnnxEncoder) -> None:
    text = "word " * 400
    found = onnx.encode([text], [[(0, 4), (len(text) - 5, len(text)), (4, 5), (3, 3)]])
    assert found.spans[0].any(axis=1).tolist() == [True, False, False, False]


def test_a_model_that_has_no_vectors_of_tokens_embeds_stretches_by_themselves(tmp_path: Path) -> None:
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(export.folder(DATA) / "tokenizer.json"))
    weights = np.random.default_rng(3).normal(size=(tokenizer.get_vocab_size(), 8)).astype(np.float32)
    SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_weights=weights)],
        device="cpu",
    ).save(str(tmp_path))
    encoder = TorchEncoder(str(tmp_path), 1)
    found = encoder.encode([TEXT, "x"], [SPANS, []])
    assert np.allclose(found.spans[0], encoder.encode(SENTENCES).vectors, atol=1e-5)
    assert found.spans[1].shape == (0, 8)


async def test_over_the_bus_they_are_bytes_that_come_back_as_vectors(bus: Bus, onnx: OnnxEncoder) -> None:
    texts, spans = [TEXT, "x", TEXT[:25]], [SPANS, [], [(0, 6)]]
    async with running(bus, onnx):
        reply = await bus.request(EMBED, Embed(texts=texts, spans=spans), tenant="acme")
        plain = await bus.request(EMBED, Embed(texts=texts), tenant="acme")
    assert isinstance(reply, Embedded)
    assert isinstance(plain, Embedded)
    assert plain.spans == []
    assert np.abs(rows(reply) - rows(plain)).max() < 1e-4
    assert [len(raw) for raw in reply.spans] == [4 * 388, 0, 388]
    exact = onnx.encode([TEXT], [SPANS]).spans[0]
    assert (restored(reply.spans[0], 384) * exact).sum(axis=1).min() > 0.999


async def test_requests_that_share_a_batch_get_their_own(bus: Bus) -> None:
    texts = [["a" * 9], ["b" * 9, "c" * 9], ["d" * 9]]
    spans = [[[(0, 3)]], [[], [(0, 4), (1, 6)]], []]
    async with running(bus, Slow(), Settings(batch_tokens=4096)) as embedder:
        assert embedder._batcher is not None
        encoded = await asyncio.gather(*(embedder._batcher.embed(*one) for one in zip(texts, spans, strict=True)))
    lengths = [[[int(row[0]) for row in text] for text in one.spans] for one in encoded]
    assert lengths == [[[3]], [[], [4, 5]], []]


@pytest.mark.parametrize(
    ("spans", "code"),
    [
        ([[(0, 1)]], "bad_request"),
        ([[], [(0, 9)]], "bad_request"),
        ([[(-1, 1)], []], "bad_request"),
        ([[(2, 1)], []], "bad_request"),
        ([[(0, 1)] * 120_000, []], "too_large"),
    ],
    ids=["not one list each", "beyond the end", "before the start", "backwards", "too many for a reply"],
)
async def test_spans_that_cannot_be_are_refused(bus: Bus, spans: list[list[tuple[int, int]]], code: str) -> None:
    slow = Slow()
    async with running(bus, slow):
        reply = await bus.request(EMBED, Embed(texts=["one", "two"], spans=spans), tenant="acme")
    assert isinstance(reply, Failure)
    assert (reply.code, reply.param) == (code, "spans")
    assert slow.batches == []
