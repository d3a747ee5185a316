"""Runs the exported model with ONNX Runtime and `tokenizers`: torch is never imported."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hasten.embedder.encoder import Encoded, EncoderError
from hasten.embedder.pooling import Spans, pooled

T = TypeVar("T")


class OnnxEncoder:
    """The export in `folder` (made by hasten.embedder.export), on `threads` threads."""

    def __init__(self, folder: Path, threads: int) -> None:
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError:
            raise EncoderError("the embedder needs onnxruntime: pip install 'hasten[embedded]'") from None
        facts = json.loads((folder / "export.json").read_text())
        self.name: str = facts["model"]
        self.dim: int = facts["dim"]
        self.window: int = facts["window"]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(
            str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def encode(self, texts: list[str], spans: Sequence[Spans] = ()) -> Encoded:
        """Tokenises, pads to the longest and runs the graph, which pools and normalises."""
        found = self._tokenizer.encode_batch(texts)
        ids, mask = _padded([self._windowed(one.ids) for one in found])
        wanted = ["sentence_vector", *(["token_vectors"] if any(spans) else [])]
        vectors, *states = self._session.run(wanted, {"input_ids": ids, "attention_mask": mask})
        offsets = [self._windowed(one.offsets) for one in found] if states else []
        tokens = [len(one.ids) for one in found]
        return Encoded(
            vectors=vectors,
            tokens=tokens,
            truncated=[count > self.window for count in tokens],
            spans=[pooled(*one) for one in zip(*states, offsets, spans, strict=True)]
            if states
            else [np.zeros((0, self.dim), dtype=np.float32) for _ in spans],
        )

    def _windowed(self, row: list[T]) -> list[T]:
        """The first tokens and the closing special one."""
        return row if len(row) <= self.window else [*row[: self.window - 1], row[-1]]


def _padded(rows: list[list[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    longest = max(map(len, rows))
    ids = np.zeros((len(rows), longest), dtype=np.int64)
    mask = np.zeros_like(ids)
    for at, row in enumerate(rows):
        ids[at, : len(row)] = row
        mask[at, : len(row)] = 1
    return ids, mask
