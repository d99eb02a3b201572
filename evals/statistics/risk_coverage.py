"""The risk-coverage curve: how wrong the answers are if only the surest ones are given.

Questions are put in order of falling confidence. Of the first n of N, coverage is n / N and risk the mean
of their losses (El-Yaniv and Wiener, JMLR 2010; Geifman and El-Yaniv, NeurIPS 2017). The area under the curve
is one number for the whole; its excess over the area in the order of the losses themselves, the best there
is, is what better confidence could save (Geifman, Uziel and El-Yaniv, ICLR 2019; Ding and others, CVPR
workshops 2020).

It is a number of a set of questions: what one adds to it depends on the others. So it is no metric, whose
mean over questions would be compared, but is computed of stored confidences and values for a report.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rag_assay.evals.statistics.bootstrap import CONFIDENCE

Floats: TypeAlias = "npt.NDArray[np.float64]"
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
    """Return the risk-coverage curve of questions, or None where there is none.

    Equal confidences cannot be cut apart: they are one step of the curve.

    Args:
        confidence: of each question, higher is surer, shape (n,), finite.
        loss: of each answer, 0 the best, shape (n,), finite.

    >>> found = risk_coverage(np.array([0.9, 0.8, 0.7, 0.6]), np.array([0.0, 1.0, 0.0, 1.0]), seed=7)
    >>> found.risk.tolist()  # 0, 1/2, 1/3, 2/4
    [0.0, 0.5, 0.3333333333333333, 0.5]
    >>> round(found.area, 4), round(found.excess, 4)  # less (0 + 0 + 1/3 + 1/2) / 4
    (0.3333, 0.125)
    """
    if not len(loss):
        return None
    order = np.argsort(-confidence, kind="stable")
    falling, losses = confidence[order], loss[order]
    ends = np.flatnonzero(np.append(falling[1:] != falling[:-1], True))
    coverage, risk, area = _curve(losses[None, :], np.ones((1, len(losses))), ends)
    best = np.sort(losses)
    ideal = np.cumsum(best) / np.arange(1, len(best) + 1)
    n = len(losses)
    drawn = [_drawn_at_once(n, seed)] if _at_once(n) >= RESAMPLES else _drawn(n, seed)
    areas = np.concatenate([_risk(losses[None, :], *counts, ends)[1] for counts in drawn])
    tail = (1 - CONFIDENCE) / 2 * 100
    low, high = np.percentile(areas, [tail, 100 - tail])
    return RiskCoverage(
        coverage[0],
        risk[0],
        ideal[ends],
        float(area[0]),
        float(max(0.0, area[0] - ideal.mean())),
        float(low),
        float(high),
        len(losses),
    )


def _curve(losses: Floats, counts: Floats, ends: npt.NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
    """Return coverage, risk, each of shape (rows, points), and area, shape (rows,).

    losses: in order of falling confidence, shape (1, n); counts: how often each counts, shape (rows, n)
    """
    covered = np.cumsum(counts, axis=1)
    risk, area = _risk(losses, counts, covered, ends)
    covered = covered[:, ends]
    return covered / covered[:, -1:], risk, area


def _risk(
    losses: Floats, counts: Floats, covered: Floats, ends: npt.NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Return risk and area; covered: the counts so far, of the same shape."""
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
