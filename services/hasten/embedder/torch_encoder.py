"""Runs any sentence-transformers model with torch: slower to start and to run than the export, but general."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hasten.embedder.encoder import Encoded, EncoderError
from hasten.embedder.pooling import Spans, pooled

NO_WINDOW = 1_000_000
"""The window of a model that has no limit (a bag of words)."""
_MEAN = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
"""The parts of a model whose vector of a text is the mean of its tokens' vectors, if the pooling is."""
Rows = NDArray[np.float32]


class TorchEncoder:
    """The sentence-transformers model at a name or path, on the processor; `name` is what replies call it."""

    def __init__(self, model: str, threads: int, name: str = "") -> None:
        try:
            import torch
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise EncoderError("this model needs sentence-transformers: pip install 'hasten[embedded]'") from None
        torch.set_num_threads(threads)
        try:
            self._model = SentenceTransformer(model, device="cpu")
        except Exception as error:
            raise EncoderError(f"the embedding model {model} cannot be loaded ({type(error).__name__})") from None
        self.name = name or model
        self.dim = len(self._model.encode("size", show_progress_bar=False))
        self.window = int(min(self._model.max_seq_length or NO_WINDOW, NO_WINDOW))

    def encode(self, texts: list[str], spans: Sequence[Spans] = ()) -> Encoded:
        """Encodes with the model's own pooling and normalises."""
        if not any(spans):
            vectors, stretches = self._rows(texts), [np.zeros((0, self.dim), dtype=np.float32) for _ in spans]
        elif self._pools:
            vectors, stretches = self._together(texts, spans)
        else:
            vectors, stretches = self._rows(texts), [self._apart(*one) for one in zip(texts, spans, strict=True)]
        tokens = [self._count(text) for text in texts]
        return Encoded(
            vectors=vectors,
            tokens=tokens,
            truncated=[count > self.window for count in tokens],
            spans=stretches,
        )

    def _rows(self, texts: list[str]) -> Rows:
        rows = self._model.encode(
            texts, batch_size=len(texts), normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False
        )
        return np.asarray(rows, dtype=np.float32)

    @property
    def _pools(self) -> bool:
        """Whether a text's vector is the mean of its tokens', so that a stretch's can be made in the same way."""
        parts = list(self._model)
        return (
            [type(part).__name__ for part in parts] in _MEAN
            and getattr(parts[1], "pooling_mode", None) == "mean"
            and getattr(self._model.tokenizer, "is_fast", False)
        )

    def _together(self, texts: list[str], spans: Sequence[Spans]) -> tuple[Rows, list[Rows]]:
        """The texts and stretches of them out of one pass."""
        read: Any = self._model.encode(texts, output_value=None, batch_size=len(texts), show_progress_bar=False)
        rows: Rows = np.array([one["sentence_embedding"].numpy() for one in read], dtype=np.float32)
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        states = [one["token_embeddings"].numpy() for one in read]
        offsets = [
            self._model.tokenizer(text, truncation=True, max_length=self.window, return_offsets_mapping=True)
            for text in texts
        ]
        return rows, [
            pooled(state, offset["offset_mapping"], wanted)
            for state, offset, wanted in zip(states, offsets, spans, strict=True)
        ]

    def _apart(self, text: str, spans: Spans) -> Rows:
        """Stretches of a text as texts of their own, for a model that pools in another way."""
        return self._rows([text[start:end] for start, end in spans]) if spans else np.zeros((0, self.dim), np.float32)

    def _count(self, text: str) -> int:
        tokenizer: Any = self._model.tokenizer
        if callable(tokenizer):
            return len(tokenizer(text, truncation=False, verbose=False)["input_ids"])
        return len(tokenizer.encode(text).ids)
