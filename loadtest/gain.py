"""Fits the difficulty estimate to questions whose outcome is known, and guesses for questions that were kept out."""

import zlib

import numpy as np
from numpy.typing import NDArray

from hasten.router.estimator import (
    FORM,
    MEANING,
    Artefact,
    Estimator,
    Floats,
    Gains,
    apartness,
    directions,
    from_bytes,
    in_bytes,
    standard,
)

AXES, ANCHORS = 32, 2000
"""Directions that are kept of the vectors, and questions that are kept as anchors."""
RIDGE = 8.0
"""The penalty of the weights, in units of the noise of one question."""
LEAST_SPREAD = 0.05
"""A feature that hardly varies is not blown up."""
FOLDS, THIRDS = 5, 3
_LEVELS = np.linspace(0, 1, 101)
_KNOWN = 0.05
"""The share of questions of a known kind that is called unknown."""
Numbers = NDArray[np.float64]


def fitted(vectors: Floats, values: Floats, gains: Numbers) -> Artefact:
    """The artefact for these questions (n × d, n × f, n); its levels are not yet set. Deterministic."""
    middle, spread = values.mean(axis=0), np.maximum(values.std(axis=0), LEAST_SPREAD)
    axes = np.linalg.svd(vectors, full_matrices=False)[2][:AXES].T.astype(np.float16)
    meanings = directions(vectors @ axes.astype(np.float32))
    forms = standard(values, middle, spread)
    chosen = np.random.default_rng(0).permutation(len(gains))[:ANCHORS]
    anchors, anchor_forms = in_bytes(meanings[chosen], forms[chosen])
    bare = Artefact(
        axes=axes,
        middle=middle.astype(np.float32),
        spread=spread.astype(np.float32),
        meanings=anchors,
        forms=anchor_forms,
        weights=np.zeros(len(chosen), np.float32),
        plain=np.zeros(len(chosen), np.float32),
        bias=np.array(gains.mean(), np.float32),
        levels=_LEVELS,
        plain_levels=_LEVELS,
        familiar=np.array(0, np.float32),
    )
    whole, plain = likenesses(bare, meanings, forms)
    rest = gains - gains.mean()
    return bare._replace(weights=_weights(whole, chosen, rest), plain=_weights(plain, chosen, rest))


def likenesses(artefact: Artefact, meanings: Floats, forms: Floats) -> tuple[Floats, Floats]:
    """The likeness to each anchor in meaning and form, and in form alone (n × m)."""
    other_meanings, other_forms = from_bytes(artefact.meanings, artefact.forms)
    apart = apartness(forms, other_forms, (other_forms**2).sum(axis=1))
    near = meanings @ other_meanings.T
    plain: Floats = np.exp(-FORM * apart)
    return np.exp(MEANING * (near - 1)) * plain, plain


def _weights(likeness: Floats, chosen: NDArray[np.int64], rest: Numbers) -> Floats:
    wide = likeness.astype(np.float64)
    left = wide.T @ wide + RIDGE * (wide[chosen] + wide[chosen].T) / 2
    left[np.diag_indices(len(left))] += 1e-4 * len(rest) / len(left)
    return np.asarray(np.linalg.solve(left, wide.T @ rest), dtype=np.float32)


def by_question(texts: list[str], folds: int = FOLDS, draw: int = 0) -> NDArray[np.int64]:
    """In which part each question is; `draw` makes other parts."""
    return np.array([zlib.crc32(f"{draw} {' '.join(text.split())}".encode()) % folds for text in texts])


def by_subject(subjects: list[str], folds: int = 7) -> NDArray[np.int64]:
    """In which part each question is, with all the questions of a subject in one."""
    order = {subject: number % folds for number, subject in enumerate(sorted(set(subjects)))}
    return np.array([order[subject] for subject in subjects])


def guesses(vectors: Floats, values: Floats, gains: Numbers, folds: NDArray[np.int64]) -> Gains:
    """A guess for every question by an estimate that has not seen its part."""
    many, width = values.shape
    whole = Gains(*(np.zeros(size, np.float32) for size in (many, many, many, (many, width))))
    for part in np.unique(folds):
        out = folds == part
        seen = Estimator(fitted(vectors[~out], values[~out], gains[~out]))
        for target, source in zip(whole, seen.gains(vectors[out], values[out]), strict=True):
            target[out] = source
    return whole


def trained(vectors: Floats, values: Floats, gains: Numbers) -> Artefact:
    """The artefact for these questions; its levels are those of a third, guessed by an estimate of the other two."""
    out = np.random.default_rng(1).permutation(len(gains)) % THIRDS == 0
    made = Estimator(fitted(vectors[~out], values[~out], gains[~out])).gains(vectors[out], values[out])
    return fitted(vectors, values, gains)._replace(
        levels=np.quantile(made.gain, _LEVELS).astype(np.float32),
        plain_levels=np.quantile(made.plain, _LEVELS).astype(np.float32),
        familiar=np.array(np.quantile(made.likeness, _KNOWN), np.float32),
    )
