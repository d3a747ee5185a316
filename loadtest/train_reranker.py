"""Trains a small cross-encoder for the retriever's reranking, from the weights of the embedding model.

    python -m loadtest.train_reranker --data DIR --out FOLDER

DIR holds nq_open_oracle and xquad_en. Every second question (of XQuAD: every second paragraph) is kept out of the
training, and the result is measured on those. Name FOLDER with `[retriever] rerank = "onnx:FOLDER"`.

Question and passage are read as one text; the logit is a line through the cosine of the two sides' mean states, plus a
weight on each difference and each product of the two (`loadtest.train_opinion`). It learns to choose the passage that
answers a question among three of the nearest that do not.
"""

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

from hasten.embedder.export import folder, model_path
from hasten.embedder.onnx_encoder import OnnxEncoder
from loadtest.rerank_groups import SETS, Asked, Group, groups, kept_out
from loadtest.train_opinion import INPUTS, PairModel, save

TOKENS = 160
QUESTIONS = 8
"""Questions per step, each with its right passage and `WRONG` others."""
WRONG = 3
NEAR = 20
"""Among how many nearest passages the wrong ones are drawn."""
RATE, HEAD_RATE = 5e-5, 1e-3
WARM = 0.1
SLOPE, MIDDLE = 15.0, 0.4
"""The line at the start: how steep, and at which cosine it crosses zero."""


def examples(found: list[Group], epochs: int, chance: random.Random) -> list[list[tuple[str, list[str]]]]:
    """Steps of questions with their passages, the right one first."""
    plan = []
    for _ in range(epochs):
        usable = [one for one in found if one.right >= 0 and len(one.passages) > WRONG]
        drawn = []
        for one in usable:
            wrong = [text for at, text in enumerate(one.passages) if at != one.right]
            drawn.append((one.question, [one.passages[one.right], *chance.sample(wrong, WRONG)]))
        drawn.sort(key=lambda example: sum(map(len, example[1])) + chance.random() * 400)
        steps = [drawn[at : at + QUESTIONS] for at in range(0, len(drawn), QUESTIONS)]
        chance.shuffle(steps)
        plan += steps
    return plan


def train(found: list[Group], epochs: int, minutes: float) -> tuple[PairModel, Any]:
    """The trained model and its tokenizer; ends after `minutes` at the latest, with the rate at nothing by then."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(model_path())
    model = PairModel(AutoModel.from_pretrained(model_path(), add_pooling_layer=False))
    model.line.data = torch.tensor([SLOPE, MIDDLE])
    model.encoder.embeddings.requires_grad_(False)
    plan = examples(found, epochs, random.Random(0))
    optimizer = torch.optim.AdamW(
        [
            {"params": [one for one in model.encoder.parameters() if one.requires_grad], "lr": RATE},
            {"params": [model.line, model.weights.weight], "lr": HEAD_RATE},
        ],
        weight_decay=0.01,
    )
    full = [group["lr"] for group in optimizer.param_groups]
    model.train()
    started, losses = time.monotonic(), list[float]()
    for step, batch in enumerate(plan):
        done = max(step / len(plan), (time.monotonic() - started) / 60 / minutes)
        if done >= 1:
            break
        for group, rate in zip(optimizer.param_groups, full, strict=True):
            group["lr"] = rate * min(step / (WARM * len(plan)), 1 - done)
        losses.append(_step(model, tokenizer, optimizer, batch))
        if step % 20 == 19:
            spent = time.monotonic() - started
            print(f"{step + 1}/{len(plan)} steps, {spent:.0f} s, loss {np.mean(losses[-20:]):.3f}", flush=True)
    return model.eval(), tokenizer


def _step(model: PairModel, tokenizer: Any, optimizer: Any, batch: list[tuple[str, list[str]]]) -> float:
    pairs = [(question, passage) for question, passages in batch for passage in passages]
    tokens = tokenizer(pairs, padding=True, truncation="only_second", max_length=TOKENS, return_tensors="pt")
    logits = model(*(tokens[name] for name in INPUTS)).reshape(len(batch), WRONG + 1)
    loss = torch.nn.functional.cross_entropy(logits, torch.zeros(len(batch), dtype=torch.long), label_smoothing=0.05)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return float(loss.item())


def quantise(graph: Path) -> None:
    """Replaces a graph by one with weights of 8 bits."""
    from onnxruntime.quantization import QuantType, quant_pre_process, quantize_dynamic

    ready = graph.with_suffix(".ready")
    quant_pre_process(str(graph), str(ready), skip_symbolic_shape=True)
    quantize_dynamic(str(ready), str(graph), weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)
    ready.unlink()


def main() -> None:
    """Trains and saves, with the names of what was kept out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--embedder", type=Path, default=Path(".hasten"), help="the data folder of the embedding model")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--int8", action="store_true", help="weights of 8 bits: half the time, hardly another order")
    parser.add_argument("--minutes", type=float, default=15.0, help="the most that the training may take")
    given = parser.parse_args()
    encoder = OnnxEncoder(folder(given.embedder), 2)

    def embed(texts: list[str]) -> Any:
        return np.concatenate([encoder.encode(texts[at : at + 16]).vectors for at in range(0, len(texts), 16)])

    found: list[Group] = []
    for read in SETS.values():
        try:
            ours: list[Asked] = [one for one in read(given.data) if not kept_out(one.group)]
        except OSError as error:
            parser.error(f"{error.filename} is not there")
        found += groups(ours, NEAR, embed)
    print(f"{len(found)} questions to train on", flush=True)
    model, tokenizer = train(found, given.epochs, given.minutes)
    save(model, tokenizer, given.out)
    if given.int8:
        quantise(given.out / "model.onnx")
    (given.out / "training.json").write_text(
        json.dumps({"sets": list(SETS), "split": "loadtest.rerank_groups.kept_out", "tokens": TOKENS})
    )


if __name__ == "__main__":
    main()
