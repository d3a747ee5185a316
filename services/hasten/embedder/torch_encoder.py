"""Runs any sentence-transformers model with torch: slower to start and to run than the export, but general."""

from typing import Any

import numpy as np

from hasten.embedder.encoder import Encoded, EncoderError

NO_WINDOW = 1_000_000
"""The window of a model that has no limit (a bag of words)."""


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
        self.window = int(self._model.max_seq_length or NO_WINDOW)

    def encode(self, texts: list[str]) -> Encoded:
        """Encodes with the model's own pooling and normalises."""
        vectors = self._model.encode(
            texts, batch_size=len(texts), normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False
        )
        tokens = [self._count(text) for text in texts]
        return Encoded(
            vectors=np.asarray(vectors, dtype=np.float32),
            tokens=tokens,
            truncated=[count > self.window for count in tokens],
        )

    def _count(self, text: str) -> int:
        tokenizer: Any = self._model.tokenizer
        if callable(tokenizer):
            return len(tokenizer(text, truncation=False, verbose=False)["input_ids"])
        return len(tokenizer.encode(text).ids)
