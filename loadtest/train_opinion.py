"""Trains a small model for the cache's second opinion, from the weights of the embedding model.

    python -m loadtest.train_opinion --data DIR --out FOLDER [--hold NAME]

DIR holds fow_cache, medical_question_pairs, banking77 and clinc150. `--hold` keeps a set out of the training
(`fow_cache`, `medical_question_pairs`) or half of both (`halves`), and the result is measured on what was kept out.
Name FOLDER with `[cache] opinion = "onnx:FOLDER"`.

Both questions are read as one text, so that every word sees those of the other side. The logit is a line through the
cosine of the two sides' mean states, plus a weight on each difference and each product of the two. Before any training
(`--epochs 0`, then `loadtest.opinion_quality`) that ranks medical_question_pairs nearly as well as the similarity of
two texts read apart (AUC .87 against .89) and fow_cache worse (.57 against .66).
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
from torch.nn.functional import normalize
from transformers import AutoModel, AutoTokenizer

from hasten.embedder.export import folder, model_path
from hasten.embedder.onnx_encoder import OnnxEncoder
from loadtest.opinion_pairs import halves, mined
from loadtest.opinion_quality import SETS, measured
from loadtest.pairs import Pair, banking77, clinc150

TOKENS = 128
BATCH = 32
RATE, HEAD_RATE = 5e-5, 1e-3
WARM = 0.1
SMOOTH = 0.05
SLOPE, MIDDLE = 40.0, 0.92
"""The line at the start: how steep, and at which cosine it crosses zero."""
REPEATS = {"fow_cache": 3, "medical_question_pairs": 1}
"""How often the pairs of a set are seen in an epoch."""
INPUTS = ["input_ids", "attention_mask", "token_type_ids"]


class PairModel(torch.nn.Module):  # type: ignore[misc]
    """Token ids, mask and types (pairs × tokens) → one logit per pair (pairs × 1)."""

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.encoder = encoder
        self.line = torch.nn.Parameter(torch.tensor([SLOPE, MIDDLE]))
        self.weights = torch.nn.Linear(2 * encoder.config.hidden_size, 1, bias=False)
        torch.nn.init.zeros_(self.weights.weight)

    def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Any:
        states = self.encoder(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        ).last_hidden_state
        one, other = (self._mean(states, attention_mask * (token_type_ids == side)) for side in (0, 1))
        cosine = (one * other).sum(1, keepdim=True)
        parts = torch.cat([(one - other).abs(), one * other], dim=1) * one.shape[1] ** 0.5
        return self.line[0] * (cosine - self.line[1]) + self.weights(parts)

    def _mean(self, states: Any, mask: Any) -> Any:
        weights = mask.unsqueeze(-1).to(states.dtype)
        return normalize((states * weights).sum(1) / weights.sum(1).clamp(min=1e-6), p=2.0, dim=1)


def split(data: Path, hold: str, labelled: int, embed: Any) -> tuple[list[Pair], dict[str, list[Pair]]]:
    """What is trained on, and what is kept out of each set."""
    train: list[Pair] = []
    held: dict[str, list[Pair]] = {}
    for name, read in SETS.items():
        pairs = read(data)
        ours, held[name] = halves(pairs) if hold == "halves" else ([], pairs) if hold == name else (pairs, [])
        train += ours * REPEATS[name]
    train += mined(banking77(data), labelled, embed)
    train += mined(clinc150(data), labelled, embed)
    return train, held


def batches(pairs: list[Pair], chance: random.Random) -> list[list[Pair]]:
    """Batches of pairs of about one length, in a random order."""
    order = sorted(pairs, key=lambda pair: len(pair.a) + len(pair.b) + chance.random() * 20)
    made = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    chance.shuffle(made)
    return made


def train(pairs: list[Pair], epochs: int) -> tuple[PairModel, Any]:
    """The trained model and its tokenizer. Sides are swapped at random, so that neither is a premise."""
    torch.manual_seed(0)
    chance = random.Random(0)
    tokenizer = AutoTokenizer.from_pretrained(model_path())
    model = PairModel(AutoModel.from_pretrained(model_path(), add_pooling_layer=False))
    model.encoder.embeddings.requires_grad_(False)
    plan = [batch for _ in range(epochs) for batch in batches(pairs, chance)]
    groups = [
        {"params": [one for one in model.encoder.parameters() if one.requires_grad], "lr": RATE},
        {"params": [model.line, model.weights.weight], "lr": HEAD_RATE},
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    ramp = max(1, int(WARM * len(plan)))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / ramp, max(0.0, (len(plan) - step) / (len(plan) - ramp)))
    )
    loss_of = torch.nn.BCEWithLogitsLoss()
    model.train()
    started, losses = time.monotonic(), list[float]()
    for step, batch in enumerate(plan, 1):
        sides = [(pair.a, pair.b) if chance.random() < 0.5 else (pair.b, pair.a) for pair in batch]
        tokens = tokenizer(sides, padding=True, truncation=True, max_length=TOKENS, return_tensors="pt")
        goal = torch.tensor([[1 - SMOOTH if pair.same else SMOOTH] for pair in batch])
        loss = loss_of(model(*(tokens[name] for name in INPUTS)), goal)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step % 25 == 0:
            print(f"{step}/{len(plan)} batches, {time.monotonic() - started:.0f} s, loss {np.mean(losses[-25:]):.3f}")
    return model.eval(), tokenizer


def save(model: PairModel, tokenizer: Any, out: Path) -> None:
    """Writes `model.onnx`, whose logits are checked against torch's, and `tokenizer.json`."""
    import onnxruntime

    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    tokenizer.backend_tokenizer.save(str(out / "tokenizer.json"))
    ids = torch.randint(1000, 2000, (2, 23))
    mask, kinds = torch.ones_like(ids), torch.zeros_like(ids)
    kinds[:, 9:] = 1
    mask[1, 15:] = 0
    axes = {0: torch.export.Dim("batch", min=1, max=512), 1: torch.export.Dim("length", min=1, max=512)}
    with torch.inference_mode():
        program = torch.onnx.export(
            model,
            (ids, mask, kinds),
            dynamo=True,
            input_names=INPUTS,
            output_names=["logits"],
            dynamic_shapes=dict.fromkeys(INPUTS, axes),
            verbose=False,
        )
        program.save(str(out / "model.onnx"))
        wanted = model(ids, mask, kinds).numpy()
    session = onnxruntime.InferenceSession(str(out / "model.onnx"))
    fed = {name: value.numpy() for name, value in zip(INPUTS, (ids, mask, kinds), strict=True)}
    if not np.allclose(session.run(None, fed)[0], wanted, atol=1e-2):
        raise SystemExit("the exported model disagrees with torch")


def main() -> None:
    """Trains, saves, and measures on what was kept out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--hold", default="", choices=["", *SETS, "halves"])
    parser.add_argument("--embedder", type=Path, default=Path(".hasten"), help="the data folder of the embedding model")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--labelled", type=int, default=400, help="questions of each labelled set that become pairs")
    given = parser.parse_args()
    encoder = OnnxEncoder(folder(given.embedder), 2)

    def embed(texts: list[str]) -> Any:
        return np.concatenate([encoder.encode(texts[at : at + 16]).vectors for at in range(0, len(texts), 16)])

    training, held = split(given.data, given.hold, given.labelled, embed)
    print(f"{len(training)} pairs to train on, {sum(map(len, held.values()))} kept out")
    model, tokenizer = train(training, given.epochs)
    save(model, tokenizer, given.out)
    for name, pairs in held.items():
        if pairs:
            print(json.dumps({"set": name, **measured(pairs, f"onnx:{given.out}", embed)}))


if __name__ == "__main__":
    main()
