"""Trains a small cross-encoder for the cache's second opinion, from the weights of the embedding model.

    python -m loadtest.train_opinion --data DIR --out FOLDER [--hold NAME]

DIR holds fow_cache, medical_question_pairs, banking77 and clinc150. `--hold` keeps a set out of the training
(`fow_cache`, `medical_question_pairs`) or half of both (`halves`), and the result is measured on what was kept out.
FOLDER gets the weights in the usual form and `model.onnx`: name it with `[cache] opinion = "onnx:FOLDER"`.
"""

import argparse
import json
import random
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from hasten.embedder.export import folder, model_path
from hasten.embedder.onnx_encoder import OnnxEncoder
from loadtest.opinion_pairs import Pair, banking77, clinc150, fow_cache, halves, medical_question_pairs, mined
from loadtest.opinion_quality import measured

TOKENS = 96
BATCH = 32
RATE = 8e-5
WARM = 0.1
SMOOTH = 0.05
REPEATS = {"fow_cache": 4, "medical_question_pairs": 2}
"""How often the pairs of a set are seen in an epoch: those that a person judged are few and the truest."""


def split(data: Path, hold: str, labelled: int, embed: Any) -> tuple[list[Pair], list[Pair]]:
    """What is trained on, and what is kept out."""
    judged = {"fow_cache": fow_cache(data), "medical_question_pairs": medical_question_pairs(data)}
    train: list[Pair] = []
    held: list[Pair] = []
    for name, pairs in judged.items():
        ours, theirs = halves(pairs) if hold == "halves" else ([], pairs) if hold == name else (pairs, [])
        train += ours * REPEATS[name]
        held += theirs
    train += mined(banking77(data), "banking77", labelled, embed)
    train += mined(clinc150(data), "clinc150", labelled, embed)
    return train, held


def batches(pairs: list[Pair], chance: random.Random) -> list[list[Pair]]:
    """Batches of pairs of about one length, in a random order."""
    order = sorted(pairs, key=lambda pair: len(pair.a) + len(pair.b) + chance.random() * 20)
    made = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    chance.shuffle(made)
    return made


def train(pairs: list[Pair], epochs: int) -> tuple[Any, Any]:
    """The trained model and its tokenizer. Sides are swapped at random, so that neither is a premise."""
    torch.manual_seed(0)
    chance = random.Random(0)
    source = model_path()
    tokenizer = AutoTokenizer.from_pretrained(source)
    model = AutoModelForSequenceClassification.from_pretrained(source, num_labels=1)
    plan = [batch for _ in range(epochs) for batch in batches(pairs, chance)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    ramp = max(1, int(WARM * len(plan)))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / ramp, max(0.0, (len(plan) - step) / (len(plan) - ramp)))
    )
    loss_of = torch.nn.BCEWithLogitsLoss()
    model.train()
    started, sums = time.monotonic(), 0.0
    for step, batch in enumerate(plan, 1):
        sides = [(pair.a, pair.b) if chance.random() < 0.5 else (pair.b, pair.a) for pair in batch]
        tokens = tokenizer(sides, padding=True, truncation=True, max_length=TOKENS, return_tensors="pt")
        goal = torch.tensor([1 - SMOOTH if pair.same else SMOOTH for pair in batch])
        loss = loss_of(model(**tokens).logits[:, 0], goal)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        sums += loss.item()
        if step % 100 == 0:
            print(f"{step}/{len(plan)} batches, {time.monotonic() - started:.0f} s, loss {sums / 100:.3f}", flush=True)
            sums = 0.0
    return model.eval(), tokenizer


def save(model: Any, tokenizer: Any, out: Path) -> None:
    """Writes the usual files and `model.onnx`, whose logits are checked against torch's."""

    class Graph(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Any:
            return self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids).logits

    shutil.rmtree(out, ignore_errors=True)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    ids = torch.randint(1000, 2000, (2, 23))
    mask, kinds = torch.ones_like(ids), torch.zeros_like(ids)
    mask[1, 15:] = 0
    kinds[:, 9:] = 1
    axes = {0: torch.export.Dim("batch", min=1, max=512), 1: torch.export.Dim("length", min=1, max=512)}
    names = ["input_ids", "attention_mask", "token_type_ids"]
    with torch.inference_mode():
        program = torch.onnx.export(
            Graph().eval(),
            (ids, mask, kinds),
            dynamo=True,
            input_names=names,
            output_names=["logits"],
            dynamic_shapes=dict.fromkeys(names, axes),
            verbose=False,
        )
        program.save(str(out / "model.onnx"))
        wanted = Graph()(ids, mask, kinds).numpy()
    import onnxruntime

    made = onnxruntime.InferenceSession(str(out / "model.onnx")).run(
        None, {name: value.numpy() for name, value in zip(names, (ids, mask, kinds), strict=True)}
    )[0]
    if not np.allclose(made, wanted, atol=1e-3):
        raise SystemExit("the exported model disagrees with torch")


def main() -> None:
    """Trains, saves, and measures on what was kept out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--hold", default="", choices=["", "fow_cache", "medical_question_pairs", "halves"])
    parser.add_argument(
        "--embedder", type=Path, default=Path(".hasten"), help="the data folder with the embedding model"
    )
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--labelled", type=int, default=1200, help="questions of each labelled set that become pairs")
    given = parser.parse_args()
    encoder = OnnxEncoder(folder(given.embedder), 2)

    def embed(texts: list[str]) -> Any:
        return np.concatenate([encoder.encode(texts[at : at + 16]).vectors for at in range(0, len(texts), 16)])

    training, held = split(given.data, given.hold, given.labelled, embed)
    print(f"{len(training)} pairs to train on, {len(held)} kept out", flush=True)
    model, tokenizer = train(training, given.epochs)
    save(model, tokenizer, given.out)
    for name in sorted({pair.source for pair in held}):
        rows = measured([pair for pair in held if pair.source == name], f"onnx:{given.out}", embed)
        print(json.dumps({"set": name, **rows}), flush=True)


if __name__ == "__main__":
    main()
