"""What reranking asks of a cross-encoder, and which of a model's outputs says that a passage is relevant; pure."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hasten.settings import SettingsError

JUDGED = (
    (
        "How long does a refund take?",
        "A refund will take up to 14 days from the return.",
        "Our office is closed on public holidays.",
    ),
    (
        "Who wrote the novel?",
        "The novel was written by a teacher from Bergen.",
        "The bridge is 400 metres long and was opened in 1932.",
    ),
    (
        "What does the annual ticket cost?",
        "The annual ticket costs 120 euro.",
        "Whales sleep for a few minutes at a time.",
    ),
    (
        "When does the museum open?",
        "The museum opens at ten in the morning.",
        "Filters are changed every three months.",
    ),
)
"""Questions, each with a passage that answers it and one that has nothing to do with it."""


class RerankError(SettingsError):
    """The model cannot be used; the text is one sentence that says what to do."""


class Model(Protocol):
    """A loaded cross-encoder. `window` is how many tokens of a pair it reads, `special` of them its own marks."""

    window: int
    special: int

    def tokens(self, text: str) -> list[tuple[int, int]]:
        """The tokens of a text as spans of its characters."""

    def logits(self, question: str, passages: list[str]) -> NDArray[np.float32]:
        """One row of outputs per passage (passages × labels). Blocks, without the GIL while it computes.

        Of a pair that is longer than the window the end of the passage is left out, and nothing else.
        """


def relevance(logits: NDArray[np.float32], label: int) -> NDArray[np.float32]:
    """How relevant each passage is, as a logit: the only output, or by how much the label's is above all the others."""
    if logits.shape[1] == 1:
        return logits[:, 0]
    others = np.delete(logits, label, axis=1)
    highest = others.max(axis=1, keepdims=True)
    return np.asarray(logits[:, label] - highest[:, 0] - np.log(np.exp(others - highest).sum(axis=1)), dtype=np.float32)


def relevant_label(model: Model) -> int:
    """Which output says that a passage is relevant, found by asking. Raises RerankError for a model that does not put
    what answers a question above what has nothing to do with it."""
    rows = np.stack([model.logits(question, [right, wrong]) for question, right, wrong in JUDGED])
    wins = [
        sum(float(pair[0]) > float(pair[1]) for pair in (relevance(row, label) for row in rows))
        for label in range(rows.shape[2])
    ]
    if not np.isfinite(rows).all() or max(wins) < len(JUDGED):
        raise RerankError("the model of [retriever] rerank does not tell what answers a question from what does not")
    return int(np.argmax(wins))
