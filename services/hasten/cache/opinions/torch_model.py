"""Runs any cross-encoder that sentence-transformers loads, by torch: slower to start, and the same on a pair."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hasten.cache.opinions.model import WINDOW, OpinionError, shares, yes_label


class TorchModel:
    """The cross-encoder or entailment model in `folder`; nothing is downloaded."""

    def __init__(self, folder: Path, threads: int) -> None:
        try:
            import torch
            from sentence_transformers import CrossEncoder
        except ImportError:
            raise OpinionError(
                "a second opinion by torch needs sentence-transformers: pip install 'hasten[opinion]'"
            ) from None
        torch.set_num_threads(threads)
        self._plain = torch.nn.Identity()
        self._model = CrossEncoder(str(folder), max_length=WINDOW, device="cpu", local_files_only=True)
        self._yes = yes_label(self._logits)

    def _logits(self, premise: str, claim: str) -> NDArray[np.float32]:
        made = self._model.predict([(premise, claim)], activation_fn=self._plain, show_progress_bar=False)
        return np.asarray(made, dtype=np.float32).reshape(-1)

    def score(self, premise: str, claim: str) -> float:
        """The probability of the label that says yes; 0 for a pair that is longer than the window."""
        if len(self._model.tokenizer(premise, claim)["input_ids"]) > WINDOW:
            return 0.0
        return float(shares(self._logits(premise, claim))[self._yes])
