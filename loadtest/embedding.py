"""Embeds texts in this process with the code of the embedder service; vectors are kept in memory only."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hasten.embedder.loading import load
from hasten.embedder.settings import Settings

Vectors = dict[str, NDArray[np.float32]]
BATCH = 32


class Embedding:
    """The real encoder and the vectors it has made."""

    def __init__(self, data: Path = Path(".hasten")) -> None:
        self._encoder: Any = load(Settings(data=str(data)))
        self._known: Vectors = {}
        self.name: str = self._encoder.name

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        """The unit vectors of these texts, made anew."""
        vectors: NDArray[np.float32] = self._encoder.encode(texts).vectors
        return vectors

    def of(self, texts: list[str], what: str = "") -> Vectors:
        """The unit vector of each text; progress goes to stderr."""
        new = sorted({text for text in texts if text not in self._known}, key=len)
        for start in range(0, len(new), BATCH):
            part = new[start : start + BATCH]
            self._known |= dict(zip(part, self._encoder.encode(part).vectors, strict=True))
            if sys.stderr.isatty() or start % (BATCH * 50) == 0:
                print(f"\rembedding {what} {start + len(part)}/{len(new)}  ", end="", file=sys.stderr, flush=True)
        if new:
            print(file=sys.stderr)
        return {text: self._known[text] for text in texts}
