"""Keeps the vectors of texts in one file per model, so that an evaluation embeds each text once."""

import hashlib
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hasten.embedder.encoder import Encoder

BATCH = 32
SAVE_EVERY = 40
"""Batches after which the file is written: a run that is stopped loses no more."""


class VectorFile:
    """The vectors of an encoder, kept in `folder` by the hash of their texts; without a folder in memory only."""

    def __init__(self, encoder: Encoder, folder: Path | None) -> None:
        self._encoder = encoder
        model = hashlib.sha256(encoder.name.encode()).hexdigest()[:12]
        self._path = folder / f"{model}.npz" if folder else None
        self._known: dict[str, NDArray[np.float32]] = {}
        if self._path is not None and self._path.exists():
            with np.load(self._path) as kept:
                self._known = dict(zip(kept["names"].tolist(), kept["vectors"], strict=True))

    def of(self, texts: list[str], what: str = "") -> NDArray[np.float32]:
        """The unit vectors of these texts, in order (n × d); progress goes to stderr."""
        names = [_name(text) for text in texts]
        new = sorted(dict(zip(names, texts, strict=True)).items(), key=lambda one: len(one[1]))
        new = [one for one in new if one[0] not in self._known]
        for number, start in enumerate(range(0, len(new), BATCH), 1):
            part = new[start : start + BATCH]
            vectors = self._encoder.encode([text for _, text in part]).vectors
            self._known |= dict(zip([name for name, _ in part], vectors, strict=True))
            if number % SAVE_EVERY == 0:
                print(f"embedding {what}: {start + len(part)} of {len(new)}", file=sys.stderr, flush=True)
                self._save()
        if new:
            self._save()
        return np.array([self._known[name] for name in names], dtype=np.float32).reshape(-1, self._encoder.dim)

    def _save(self) -> None:
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part = self._path.with_suffix(".part.npz")
        np.savez(part, names=np.array(list(self._known)), vectors=np.array(list(self._known.values()), np.float32))
        part.replace(self._path)


def _name(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
