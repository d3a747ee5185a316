"""How much of the gap between a weak and a strong model a router recovers, for each share of calls to the strong one.

The performance gap recovered (PGR) is 0 when the weak model answers all and 1 when the strong one does. Its average
over all shares of calls (APGR) is 0.5 for a router that draws at random. Questions of one score come in random order.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
DRAWS = 1000


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """One router on one set of questions.

    `calls_50` and `calls_80` are the shares of calls to the strong model at which half and 80% of the gap are
    recovered. Intervals hold 95% of 1,000 bootstrap draws of the questions.
    """

    apgr: float
    calls_50: float
    calls_80: float
    apgr_95: tuple[float, float] = (0.0, 1.0)
    calls_50_95: tuple[float, float] = (0.0, 1.0)
    calls_80_95: tuple[float, float] = (0.0, 1.0)


def curve(scores: Numbers, gains: Numbers, counts: Numbers | None = None) -> tuple[Numbers, Numbers]:
    """Shares of calls to the strong model (from 0 to 1) and the gap recovered at each, highest score first.

    `counts` says how often each question is there. The gap must not be zero: without one nothing can be recovered.
    """
    weights = np.ones(len(scores)) if counts is None else counts
    order = np.argsort(-scores, kind="stable")
    starts = np.flatnonzero(np.diff(scores[order], prepend=np.inf))
    calls = np.add.reduceat(weights[order], starts)
    won = np.add.reduceat((weights * gains)[order], starts)
    shares, recovered = np.cumsum(calls) / calls.sum(), np.cumsum(won) / won.sum()
    return np.concatenate([[0.0], shares]), np.concatenate([[0.0], recovered])


def apgr(shares: Numbers, recovered: Numbers) -> float:
    """The area under a curve."""
    return float(((recovered[1:] + recovered[:-1]) / 2 * np.diff(shares)).sum())


def calls(shares: Numbers, recovered: Numbers, gap: float) -> float:
    """The least share of calls at which this much of the gap is recovered."""
    at = int(np.argmax(recovered >= gap - 1e-12))
    low, high = recovered[at - 1], recovered[at]
    return float(shares[at - 1] + (shares[at] - shares[at - 1]) * (gap - low) / max(high - low, 1e-12))


def recovered(scores: Numbers, gains: Numbers, draws: int = DRAWS) -> Recovered:
    """The figures of a router, with their intervals."""
    rng = np.random.default_rng(0)
    many = len(gains)
    drawn = []
    for _ in range(draws):
        counts = np.bincount(rng.integers(0, many, many), minlength=many).astype(np.float64)
        if counts @ gains > 0:
            drawn.append(_figures(scores, gains, counts))
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0).round(3) if drawn else (np.zeros(3), np.ones(3))
    exact = [round(one, 3) for one in _figures(scores, gains)]
    spans = [(float(one), float(other)) for one, other in zip(low, high, strict=True)]
    return Recovered(
        apgr=exact[0],
        calls_50=exact[1],
        calls_80=exact[2],
        apgr_95=spans[0],
        calls_50_95=spans[1],
        calls_80_95=spans[2],
    )


def _figures(scores: Numbers, gains: Numbers, counts: Numbers | None = None) -> tuple[float, float, float]:
    made = curve(scores, gains, counts)
    return apgr(*made), calls(*made, 0.5), calls(*made, 0.8)
