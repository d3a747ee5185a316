"""What the cache asks of a model for second opinions, and which of a model's outputs says yes; pure."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hasten.settings import SettingsError

WINDOW = 256
"""Tokens of a pair that are read when the model itself sets no length. A pair with more is not judged: what is cut off
could be the difference."""
ALIKE = (
    ("How do I reset my password?", "How can I reset my password?"),
    ("Dogs run in the snow.", "In the snow dogs are running."),
    ("Can I return shoes that I bought online?", "May I return shoes that I bought online?"),
    ("A man is eating a pizza.", "A pizza is eaten by a man."),
)
NEAR = (
    ("How do I reset my password?", "How do I choose a safe password?"),
    ("Dogs run in the snow.", "No dog is in the snow."),
    ("Can I return shoes that I bought online?", "Which shoes can I buy online?"),
    ("A man is eating a pizza.", "Nobody is eating."),
)
FAR = (
    ("How do I reset my password?", "Which museums are there in Oslo?"),
    ("Dogs run in the snow.", "The bank raised its interest rates."),
    ("Can I return shoes that I bought online?", "How tall is the Eiffel tower?"),
    ("A man is eating a pizza.", "Our server was down for an hour."),
)
MARGIN = 0.25
"""By how much a model must rate ALIKE above both others, on average, to be of any use: one that only knows what
contradicts, or only what is related, confuses ALIKE with one of them."""


class OpinionError(SettingsError):
    """The model cannot be used; the text is one sentence that says what to do."""


class Model(Protocol):
    """A loaded cross-encoder or entailment model."""

    def score(self, premise: str, claim: str) -> float:
        """How surely the claim follows from the premise, or is the same, from 0 to 1; blocks, most of the time
        without the GIL. It may differ when the sides are exchanged, and is 0 for a pair that is too long to be read."""


Logits = Callable[[str, str], NDArray[np.float32]]


def shares(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """One row of outputs as probabilities: of each label, or of the only one."""
    if logits.shape[-1] == 1:
        return (1 / (1 + np.exp(-np.clip(logits, -50, 50)))).astype(np.float32)
    raised = np.exp(logits - logits.max())
    made: NDArray[np.float32] = (raised / raised.sum()).astype(np.float32)
    return made


def yes_label(logits: Logits) -> int:
    """Which output says yes, found by asking: models order their labels in different ways. Raises OpinionError for a
    model that does not tell pairs of one meaning from others."""
    rated = np.stack([[shares(logits(*pair)) for pair in pairs] for pairs in (ALIKE, NEAR, FAR)]).mean(axis=1)
    gains = rated[0] - rated[1:].max(axis=0)
    if not np.isfinite(gains).all() or gains.max() < MARGIN:
        raise OpinionError("the model of [cache] opinion does not tell questions of one meaning from others")
    return int(gains.argmax())
