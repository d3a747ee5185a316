"""Runs any cross-encoder that sentence-transformers loads, by torch: slower to start, and the same on a pair."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hasten.retriever.rerankers.model import RerankError


class TorchModel:
    """The cross-encoder in a folder, or under a name that is on this machine already; nothing is downloaded."""

    def __init__(self, place: str, window: int, threads: int) -> None:
        try:
            import torch
            from sentence_transformers import CrossEncoder
        except ImportError:
            raise RerankError(
                "reranking by torch needs sentence-transformers: pip install 'hasten[embedded]'"
            ) from None
        torch.set_num_threads(threads)
        self._calm = torch.inference_mode
        loaded = CrossEncoder(place, device="cpu", local_files_only=True)
        if loaded.model is None:
            raise RerankError(f"the reranking model {place} is no cross-encoder of transformers")
        self._model: Any = loaded.model.eval()
        self._tokenizer: Any = loaded.tokenizer
        most = getattr(self._model.config, "max_position_embeddings", window)
        self.window = min(window, most)
        self.special = int(self._tokenizer.num_special_tokens_to_add(pair=True))

    def tokens(self, text: str) -> list[tuple[int, int]]:
        """The tokens of a text as spans of its characters."""
        read = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        return [(start, end) for start, end in read["offset_mapping"]]

    def logits(self, question: str, passages: list[str]) -> NDArray[np.float32]:
        """One row of outputs per passage."""
        pairs = [(question, passage) for passage in passages]
        fed = self._tokenizer(
            pairs, padding=True, truncation="only_second", max_length=self.window, return_tensors="pt"
        )
        with self._calm():
            made: NDArray[np.float32] = self._model(**fed).logits.float().numpy()
        return made.reshape(len(passages), -1)
