"""Guesses how much more often a strong model is right than a small one, from a text's vector and surface; pure.

Kernel regression: the guess is a weighted sum of the likeness to some thousands of questions whose outcome is known
(anchors), where two texts are alike in meaning and form at once. `difficulty.npz` holds the anchors and their weights,
`difficulty.json` the report of the training (`loadtest.train_difficulty`).
"""

import io
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hasten.router.surface import FEATURES

Floats = NDArray[np.float32]
MEANING, FORM = 2.5, 1.0
"""How fast the likeness falls with the cosine of two meanings, and with the mean square difference of two forms."""
NEAREST = 5
"""How many of the most alike anchors say whether a text is of a known kind."""
_UNIT = 0.1
"""How far the squared length of a vector may be from 1."""
_BYTE, _WIDE = 127.0, 3.0
"""Anchors are stored in bytes: directions times 127, forms (standard deviations, cut at 3) times 127 / 3."""


class Artefact(NamedTuple):
    """What is learnt. Shapes: d numbers of a vector, k axes, f features, m anchors.

    `axes` (d × k) take a vector to what matters of its meaning; `middle` and `spread` (f) standardise a form.
    `meanings` (m × k) and `forms` (m × f) are the anchors in bytes; `weights` (m) go with the likeness in both, `plain`
    (m) with that of the form alone; `bias` is the mean gain. `levels` and `plain_levels` (101) are percentiles of the
    gain of questions that were kept out, and `familiar` is the log-likeness that 95% of those reach.
    """

    axes: NDArray[Any]
    middle: NDArray[Any]
    spread: NDArray[Any]
    meanings: NDArray[Any]
    forms: NDArray[Any]
    weights: NDArray[Any]
    plain: NDArray[Any]
    bias: NDArray[Any]
    levels: NDArray[Any]
    plain_levels: NDArray[Any]
    familiar: NDArray[Any]


class Gains(NamedTuple):
    """Guesses for n texts: the gain, that by the form alone, the log-likeness to what is known, and what each feature
    adds to the gain (n × f; first order, against an ordinary value of that feature)."""

    gain: Floats
    plain: Floats
    likeness: Floats
    parts: Floats


class Guess(NamedTuple):
    """A guess for one text: `gain` is the probability that the strong model is right and the small one wrong, less that
    of the opposite; `score` the share of the training's questions with less; `parts` what `meaning` and each feature of
    the form add to it, and `form` how far those are from the ordinary, in standard deviations."""

    gain: float
    score: float
    familiar: bool
    parts: dict[str, float] = {}
    form: dict[str, float] = {}


class Estimator:
    """The loaded artefact."""

    def __init__(self, artefact: Artefact) -> None:
        self.artefact = artefact
        self._axes = artefact.axes.astype(np.float32)
        self._meanings, self._forms = from_bytes(artefact.meanings, artefact.forms)
        self._sizes = (self._forms**2).sum(axis=1)
        self.dim = len(self._axes)

    def guess(self, vector: bytes | None, values: list[float]) -> Guess:
        """The guess for a text with this vector (float32, little endian, of unit length) and these surface values.

        Without a vector, or with one of another size, it goes by the form alone and is not familiar.
        """
        form = np.array([values], dtype=np.float32)
        point = self._point(vector)
        made = self.gains(point, form)
        gain = float(made.gain[0])
        if point is None:
            return Guess(gain, _rank(self.artefact.plain_levels, gain), False)
        parts = dict(zip(FEATURES, made.parts[0].tolist(), strict=True))
        return Guess(
            gain=gain,
            score=_rank(self.artefact.levels, gain),
            familiar=bool(made.likeness[0] >= self.artefact.familiar),
            parts={**parts, "meaning": gain - float(made.plain[0])},
            form=dict(
                zip(FEATURES, standard(form, self.artefact.middle, self.artefact.spread)[0].tolist(), strict=True)
            ),
        )

    def _point(self, vector: bytes | None) -> Floats | None:
        """The vector as a row; None for one that cannot be of this embedder."""
        if vector is None or len(vector) != 4 * self.dim:
            return None
        row = np.frombuffer(vector, dtype="<f4").astype(np.float64)
        if not abs(float(np.sum(row * row)) - 1) < _UNIT:
            return None
        return row.astype(np.float32)[None, :]

    def gains(self, vectors: Floats | None, values: Floats) -> Gains:
        """The guesses for vectors (n × d; None: by form alone) and surface values (n × f)."""
        forms = standard(values, self.artefact.middle, self.artefact.spread)
        apart = apartness(forms, self._forms, self._sizes)
        bias = float(self.artefact.bias)
        plain = bias + np.exp(-FORM * apart) @ self.artefact.plain
        if vectors is None:
            return Gains(plain, plain, np.full(len(values), -np.inf, dtype=np.float32), np.zeros_like(forms))
        logs = MEANING * (directions(vectors @ self._axes) @ self._meanings.T - 1) - FORM * apart
        likeness = np.partition(logs, -NEAREST, axis=1)[:, -NEAREST:].mean(axis=1)
        pulls = np.exp(logs) * self.artefact.weights
        gain = bias + pulls.sum(axis=1)
        slopes = pulls.sum(axis=1, keepdims=True) * forms - pulls @ self._forms
        return Gains(gain, plain, likeness, forms * slopes * (-2 * FORM / forms.shape[1]))


def standard(values: Floats, middle: Floats, spread: Floats) -> Floats:
    """Surface values in standard deviations from the mean, cut at 3."""
    return np.asarray(np.clip((values - middle) / spread, -_WIDE, _WIDE), dtype=np.float32)


def directions(points: Floats) -> Floats:
    """Rows of unit length; a row of zeros stays one."""
    return np.asarray(points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-6), dtype=np.float32)


def apartness(forms: Floats, others: Floats, sizes: Floats) -> Floats:
    """The mean square difference of n forms from m others, whose squared lengths are `sizes` (n × m)."""
    squares = (forms**2).sum(axis=1)[:, None] + sizes - 2 * forms @ others.T
    return np.asarray(np.maximum(squares, 0) / forms.shape[1], dtype=np.float32)


def in_bytes(meanings: Floats, forms: Floats) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Directions and standardised forms as the artefact stores them."""
    return np.rint(meanings * _BYTE).astype(np.int8), np.rint(forms * (_BYTE / _WIDE)).astype(np.int8)


def from_bytes(meanings: NDArray[Any], forms: NDArray[Any]) -> tuple[Floats, Floats]:
    """Directions and standardised forms out of what the artefact stores."""
    return meanings.astype(np.float32) / _BYTE, forms.astype(np.float32) * (_WIDE / _BYTE)


def _rank(levels: NDArray[Any], gain: float) -> float:
    return float(np.interp(gain, levels, np.linspace(0, 1, len(levels))))


def packed(artefact: Artefact) -> bytes:
    """The file."""
    whole = io.BytesIO()
    np.savez_compressed(whole, allow_pickle=False, **artefact._asdict())
    return whole.getvalue()


def unpacked(whole: bytes) -> Artefact:
    """The artefact of a file; raises ValueError for another one."""
    with np.load(io.BytesIO(whole), allow_pickle=False) as arrays:
        missing = set(Artefact._fields) - set(arrays)
        if missing:
            raise ValueError(f"this is no difficulty estimate: it has no {', '.join(sorted(missing))}")
        return Artefact(**{name: arrays[name] for name in Artefact._fields})


@cache
def shipped() -> Estimator:
    """The estimator of this package."""
    return Estimator(unpacked(resources.files("hasten.router").joinpath("difficulty.npz").read_bytes()))
