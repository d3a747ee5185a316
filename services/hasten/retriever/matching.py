"""Says which sentences of a passage are near a question, by the vectors that lie beside its chunks; pure."""

import base64
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from hasten.messages.retrieve import Passage, Sentence
from hasten.quantised import SCALE_BYTES, restored
from hasten.retriever.chunking import Chunk
from hasten.vectors.store import Vector


def kept(found: Sequence[Chunk], raws: Sequence[bytes]) -> dict[str, Any]:
    """What is stored of the sentences of one passage's chunks: where in the passage they are, and their vectors.

    `raws` has for each chunk the vectors of its sentences as hasten.quantised packs them.
    """
    places = [
        (one.start - chunk.passage_start, one.end - chunk.passage_start)
        for chunk, raw in zip(found, raws, strict=True)
        if raw
        for one in chunk.sentences
    ]
    return {"places": places, "vectors": base64.b64encode(b"".join(raws)).decode()}


def compared(passage: Passage, stored: dict[str, Any], question: Vector) -> Passage:
    """The passage with its sentences and their cosine to the question; those the model could not see are left out."""
    raw = base64.b64decode(stored["vectors"])
    if len(raw) != len(stored["places"]) * (len(question) + SCALE_BYTES):
        return passage
    rows = restored(raw, len(question))
    scores = np.clip(rows @ question, -1, 1).round(4).tolist()
    sentences = [
        Sentence(start=start, end=end, score=score)
        for (start, end), score, row in zip(stored["places"], scores, rows, strict=True)
        if row.any()
    ]
    return msgspec.structs.replace(passage, sentences=sentences)
