"""Reranking with real cross-encoders, in the retriever on a real NATS: what it may cost, and that it costs no more."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from retriever_rig import running
from small_cross_encoder import WORDS, passage, write_layer, write_overlap

from hasten.bus import Bus
from hasten.deadline import now_ms
from hasten.messages.retrieve import RETRIEVE, Document, Passage, Retrieve, Retrieved
from hasten.retriever.reranker import Pace
from hasten.retriever.rerankers import Model, RerankError, load
from hasten.retriever.rerankers.onnx_model import OnnxModel
from hasten.retriever.rerankers.torch_model import TorchModel
from hasten.retriever.reranking import Reranker
from hasten.retriever.settings import Settings

LONG: dict[str, Any] = {"rerank_ms": 60_000.0, "rerank_weight": 1.0}
"""So long that no machine is too slow for what a test wants to be read."""
QUESTION = "the pump of an orka costs"


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("layer")
    write_layer(folder)
    return folder


@pytest.fixture(scope="module")
def overlap(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("overlap")
    write_overlap(folder)
    return folder


async def reranked(
    passages: list[Passage],
    asked: bool | None = None,
    left_s: float = 3600,
    model: Model | None = None,
    **settings: Any,
) -> tuple[list[str], dict[str, Any]]:
    """The order of the documents, and the account."""
    reranker = Reranker(Settings(**{**LONG, **settings}), model)
    await reranker.start()
    try:
        found, account = await reranker.rerank(asked, QUESTION, passages, left_s)
    finally:
        reranker.close()
    told = {} if account is None else {name: getattr(account, name) for name in ("scored", "partial", "skipped")}
    return [one.document for one in found], told


TWO = [passage(0, "weather was fine in bergen", 0.9), passage(1, "the pump of an orka costs eighty euro", 0.5)]


async def test_what_answers_the_question_comes_first(overlap: Path) -> None:
    order, account = await reranked(TWO, rerank=f"onnx:{overlap}")
    assert order == ["1", "0"]
    assert account == {"scored": 2, "partial": False, "skipped": ""}


@pytest.mark.parametrize("place", [700, 3600])
async def test_a_sentence_far_behind_in_a_passage_is_read_too(overlap: Path, place: int) -> None:
    filler = "filler text goes on here " * 300
    deep = f"{filler[:place]} the pump of an orka costs eighty euro {filler[place:4000]}"
    order, _ = await reranked([TWO[0], passage(1, deep, 0.5)], rerank=f"onnx:{overlap}", rerank_tokens=64)
    assert order == ["1", "0"]


async def test_a_graph_of_one_length_and_the_wrong_sign_is_used_or_refused(tmp_path: Path) -> None:
    write_overlap(tmp_path / "fixed", length=48)
    assert (await reranked(TWO, rerank=f"onnx:{tmp_path / 'fixed'}"))[0] == ["1", "0"]
    write_overlap(tmp_path / "labels", labels=2, yes=1)
    assert (await reranked(TWO, rerank=f"onnx:{tmp_path / 'labels'}"))[0] == ["1", "0"]
    write_overlap(tmp_path / "turned", sign=-1.0)
    with pytest.raises(RerankError, match="does not tell"):
        load(f"onnx:{tmp_path / 'turned'}", 256, 1)


@pytest.mark.parametrize("kind", ["torch", "onnx"])
def test_only_the_end_of_a_passage_is_ever_cut(layer: Path, overlap: Path, kind: str) -> None:
    model: Model = TorchModel(str(layer), 32, 1) if kind == "torch" else OnnxModel(overlap, 32, 1)
    long = f"euro {'filler ' * 200}"
    one, other = (model.logits(f"{'the ' * 20}{end}", [long]) for end in ("euro", "weather"))
    assert one.shape == (1, 1)
    assert one[0, 0] != other[0, 0], "the last word of the question is read"
    assert model.logits("the", [long])[0, 0] == pytest.approx(model.logits("the", [f"{long} weather"])[0, 0])
    assert [long[start:end] for start, end in model.tokens(long)[:2]] == ["euro", "filler"]
    together = model.logits("the euro", ["euro", long, "weather was"])
    alone = np.concatenate([model.logits("the euro", [text]) for text in ("euro", long, "weather was")])
    assert together == pytest.approx(alone, abs=1e-4), "padding and companions change nothing"


async def test_a_real_layer_reads_all_where_there_is_time_and_some_where_there_is_little(layer: Path) -> None:
    model = TorchModel(str(layer), 128, 1)
    many = [passage(at, f"{WORDS} " * 45, 1 - at / 1000) for at in range(100)]
    order, account = await reranked(many[:12], model=model)
    assert sorted(order, key=int) == [str(at) for at in range(12)]
    assert account == {"scored": 12, "partial": False, "skipped": ""}
    order, account = await reranked(many, model=model, rerank_ms=150.0, rerank_candidates=100)
    assert len(set(order)) == 100
    unread = [document for document in order if int(document) >= account["scored"]]
    assert unread == sorted(unread, key=int), "the rest is in its original order"


class Held:
    """A model that waits, in its thread, until the test lets it go on; the first `free` batches do not wait."""

    window, special = 64, 3

    def __init__(self, free: int) -> None:
        self.free, self.begun, self.go_on = free, threading.Event(), threading.Event()

    def tokens(self, text: str) -> list[tuple[int, int]]:
        return [(at, at + 1) for at in range(min(len(text), 40))]

    def logits(self, question: str, passages: list[str]) -> NDArray[np.float32]:
        self.free -= 1
        if self.free < 0:
            self.begun.set()
            self.go_on.wait()
        return np.array([[float(len(one))] for one in passages], dtype=np.float32)


WARM_UPS = 3


async def test_the_event_loop_goes_on_while_the_model_computes() -> None:
    """The model goes on only when the loop says so: on the loop it would wait for ever."""
    model = Held(WARM_UPS)
    asking = asyncio.ensure_future(reranked(TWO, model=model))
    while not model.begun.is_set():
        await asyncio.sleep(0.001)
    model.go_on.set()
    assert (await asking)[1] == {"scored": 2, "partial": False, "skipped": ""}


async def test_a_model_that_hangs_costs_no_more_than_the_time_and_what_was_read_counts() -> None:
    model = Held(WARM_UPS + 2)
    try:
        listed = [passage(at, "x" * (30 + at % 2), 1 - at / 10) for at in range(9)]
        order, account = await reranked(listed, model=model, rerank_ms=300.0)
        assert account["scored"] < 9
        assert account["partial"] is (account["scored"] > 0) is (account["skipped"] == "")
        assert sorted(order) == [str(at) for at in range(9)]
    finally:
        model.go_on.set()


async def test_while_a_model_hangs_the_others_are_told_that_it_is_busy() -> None:
    model = Held(WARM_UPS)
    reranker = Reranker(Settings(**{**LONG, "rerank_ms": 200.0, "rerank_waiting": 2}), model)
    await reranker.start()
    reranker._pace = Pace()  # a warm-up that was held up would make it give up before the model hangs
    try:
        first, second, third = await asyncio.gather(*(reranker.rerank(None, "q", TWO, 3600) for _ in range(3)))
        told = [account.skipped for _, account in (first, second, third) if account is not None]
        assert told[0] in ("slow", "busy")
        assert told[1:] == ["busy", "busy"]
        assert all([one.document for one in found] == ["0", "1"] for found, _ in (first, second, third))
    finally:
        model.go_on.set()
        reranker.close()


class Failing(Held):
    """A model that raises, or says what is no number, after the warm-up."""

    def __init__(self, said: float | None) -> None:
        super().__init__(WARM_UPS)
        self.said = said

    def logits(self, question: str, passages: list[str]) -> NDArray[np.float32]:
        self.free -= 1
        if self.free < 0 and self.said is None:
            raise MemoryError("out of it")
        return np.full((len(passages), 1), 0.0 if self.free >= 0 else self.said, dtype=np.float32)


@pytest.mark.parametrize("said", [None, float("nan"), float("inf")])
async def test_a_model_that_fails_costs_the_better_order_only(said: float | None) -> None:
    assert await reranked(TWO, model=Failing(said)) == (
        ["0", "1"],
        {"scored": 0, "partial": False, "skipped": "failed"},
    )


async def test_it_is_said_why_nothing_was_reranked(overlap: Path) -> None:
    named = f"onnx:{overlap}"
    assert await reranked(TWO) == (["0", "1"], {})
    for reason, asked, left_s, listed, settings in (
        ("no_model", True, 3600.0, TWO, {}),
        ("no_model", None, 3600.0, TWO, {"rerank": "onnx:/nowhere/at/all"}),
        ("declined", False, 3600.0, TWO, {"rerank": named}),
        ("deadline", None, 0.0, TWO, {"rerank": named}),
        ("nothing", None, 3600.0, TWO[:1], {"rerank": named}),
        ("long_question", None, 3600.0, TWO, {"rerank": named, "rerank_tokens": 36}),
        ("busy", None, 3600.0, TWO, {"rerank": named, "rerank_waiting": 0}),
    ):
        order, account = await reranked(listed, asked, left_s, **settings)
        assert order == [one.document for one in listed]
        assert account == {"scored": 0, "partial": False, "skipped": reason}


def test_a_setting_that_names_no_model_is_refused() -> None:
    for named in ("bge", "onnx:", "torch:/x"):
        with pytest.raises(RerankError, match="rerank"):
            Reranker(Settings(rerank=named))


async def test_the_retriever_searches_more_reranks_and_says_so(bus: Bus, tmp_path: Path, overlap: Path) -> None:
    async with running(bus, tmp_path, rerank=f"onnx:{overlap}", **LONG) as rig:
        for at in range(6):
            await rig.put(Document(id=f"near{at}", text="orka pump orka pump weather"))
        await rig.put(Document(id="right", text="the pump of an orka costs eighty euro in bergen, weather was fine"))
        body = Retrieve(query=QUESTION, knowledge=["help"], limit=2)
        reply = await bus.request(RETRIEVE, body, tenant="acme", deadline_ms=now_ms() + 3_600_000)
        assert isinstance(reply, Retrieved)
        assert (len(reply.passages), reply.passages[0].document) == (2, "right")
        assert [one.score for one in reply.passages] == sorted((one.score for one in reply.passages), reverse=True)
        assert reply.reranking is not None
        assert (reply.reranking.scored, reply.reranking.candidates) == (7, 7)
        declined = await rig.ask(QUESTION, rerank=False)
        assert isinstance(declined, Retrieved)
        assert declined.reranking is not None
        assert declined.reranking.skipped == "declined"
        assert rig.retriever.report()["rerank"] == f"onnx:{overlap}"


async def test_a_retriever_whose_model_is_absent_finds_all_the_same(bus: Bus, tmp_path: Path) -> None:
    async with running(bus, tmp_path, rerank=f"sentence-transformers:{tmp_path / 'absent'}") as rig:
        await rig.put(Document(id="one", text="the pump of an orka"))
        reply = await rig.ask("pump")
        assert isinstance(reply, Retrieved)
        assert [one.document for one in reply.passages] == ["one"]
        assert reply.reranking is not None
        assert reply.reranking.skipped == "no_model"
