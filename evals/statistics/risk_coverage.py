"""The risk-coverage curve: how wrong the answers are if only the surest ones are given.

Of the first n of N questions in order of falling confidence, coverage is n / N and risk the mean of their
losses (El-Yaniv and Wiener, JMLR 2010; Geifman and El-Yaniv, NeurIPS 2017). The excess of the area under the
curve over that in the order of the losses is what better confidence could save (Geifman, Uziel and El-Yaniv,
ICLR 2019). It is a number of a set of questions, and so no metric.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from rag_assay.evals.statistics.bootstrap import CONFIDENCE
from rag_assay.evals.statistics.clusters import Floats

RESAMPLES = 1_000
_BLOCK = 2_000_000  # numbers held at once


@dataclass(frozen=True)
class RiskCoverage:
    """The curve of one cell and the area under it.

    coverage, risk: one point a distinct confidence, coverage rising to 1, shape (points,)
    ideal: risk at the same coverages in the order of the losses, shape (points,)
    area: under the curve; excess: of it over that of the ideal order
    low, high: 95 % percentile bootstrap interval of the area, over the questions
    """

    coverage: Floats
    risk: Floats
    ideal: Floats
    area: float
    excess: float
    low: float
    high: float
    n: int


def risk_coverage(confidence: Floats, loss: Floats, seed: int) -> RiskCoverage | None:
    """Return the risk-coverage curve of questions, or None where there is none; equal confidences are one
    step.

    confidence: of each question, higher is surer, shape (n,), finite; loss: of each answer, 0 the best, the
        same

    >>> found = risk_coverage(np.array([0.9, 0.8, 0.7, 0.6]), np.array([0.0, 1.0, 0.0, 1.0]), seed=7)
    >>> found.risk.tolist()  # 0, 1/2, 1/3, 2/4
    [0.0, 0.5, 0.3333333333333333, 0.5]
    """
    if not len(loss):
        return None
    order = np.argsort(-confidence, kind="stable")
    falling, losses = confidence[order], loss[order]
    ends = np.flatnonzero(np.append(falling[1:] != falling[:-1], True))
    covered = np.arange(1.0, len(losses) + 1)[None, :]
    risk, area = _risk(losses[None, :], np.ones((1, len(losses))), covered, ends)
    coverage = covered[:, ends] / len(losses)
    best = np.sort(losses)
    ideal = np.cumsum(best) / np.arange(1, len(best) + 1)
    n = len(losses)
    drawn = [_drawn_at_once(n, seed)] if _at_once(n) >= RESAMPLES else _drawn(n, seed)
    areas = np.concatenate([_risk(losses[None, :], *counts, ends)[1] for counts in drawn])
    tail = (1 - CONFIDENCE) / 2 * 100
    low, high = np.percentile(areas, [tail, 100 - tail])
    excess = float(max(0.0, area[0] - ideal.mean()))
    figures = (float(area[0]), excess, float(low), float(high))
    return RiskCoverage(coverage[0], risk[0], ideal[ends], *figures, n)


def _risk(
    losses: Floats, counts: Floats, covered: Floats, ends: npt.NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Return risk, of shape (rows, points), and area, (rows,).

    losses: in order of falling confidence, shape (1, n); counts, covered: how often each counts, and all so
    far, shape (rows, n)
    """
    lost = np.cumsum(counts * losses, axis=1)
    if len(ends) < covered.shape[1]:
        covered, lost = covered[:, ends], lost[:, ends]
    risk = np.divide(lost, covered, out=np.zeros_like(lost), where=covered > 0)
    steps = np.diff(covered, axis=1, prepend=0.0) / covered[:, -1:]
    return risk, (steps * risk).sum(axis=1)


def _at_once(n: int) -> int:
    return max(1, _BLOCK // n)


def _drawn(n: int, seed: int) -> Iterator[tuple[Floats, Floats]]:
    chance = np.random.default_rng(seed)
    for begin in range(0, RESAMPLES, _at_once(n)):
        rows = min(_at_once(n), RESAMPLES - begin)
        counts = chance.multinomial(n, np.full(n, 1 / n), size=rows).astype(np.float64)
        yield counts, np.cumsum(counts, axis=1)


@lru_cache(maxsize=2)  # cells of one study have as many questions, as a rule, and drawing takes longest
def _drawn_at_once(n: int, seed: int) -> tuple[Floats, Floats]:
    (found,) = _drawn(n, seed)
    return found
