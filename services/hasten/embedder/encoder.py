"""What the service asks of a model; the adapters are in onnx_encoder.py and torch_encoder.py."""

from collections.abc import Sequence
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from hasten.embedder.pooling import Spans
from hasten.settings import SettingsError


class EncoderError(SettingsError):
    """The model cannot be used; the text is one sentence that says what to do."""


class Encoded(msgspec.Struct, frozen=True, kw_only=True):
    """One row per text: unit vectors (float32, texts × dim), tokens with the special ones, whether the end was cut.

    `spans` has an array (spans × dim) per text when stretches were asked for; zeros are one that was beyond the window.
    """

    vectors: NDArray[np.float32]
    tokens: list[int]
    truncated: list[bool]
    spans: list[NDArray[np.float32]] = []


class Encoder(Protocol):
    """A loaded model. `window` is how many tokens of a text it reads, the special ones included."""

    name: str
    dim: int
    window: int

    def encode(self, texts: list[str], spans: Sequence[Spans] = ()) -> Encoded:
        """Encodes one batch; blocks, without the GIL while it computes. A text's row does not depend on others.

        `spans` are stretches of each text to make vectors of too, in the same pass."""
