"""Weights of a fusion, chosen on train questions: every choice of a grid is tried on every question.

For each question the candidates of all arms are laid out once as a matrix of points, and fused under all
choices of weights at once. What each choice delivers is measured by the metric itself, on the passages that
would be reported: there is no other definition of it here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from evals.measuring.contract import Gold, RetrievalMetric
from evals.retrieving.analyzer import asked_tokens
from evals.retrieving.contract import Chosen, Finish, Ranking, TrainCase, Tuning
from evals.retrieving.delivering import delivered
from evals.retrieving.fusing import candidates
from evals.retrieving.index import OpenIndex
from evals.retrieving.methods import Floats, Method
from warehouse.errors import InputError
from warehouse.spans import Span

if TYPE_CHECKING:
    from evals.retrieving.fusing import Fuse

Fusion = TypeVar("Fusion", bound="Fuse")
CODE_VERSION = "2"  # of how weights are chosen
POINTS = 178
SAME = 1e-12  # means of the same values differ by rounding errors
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Worth:
    """What a ranking is worth to one question: the metric of what is delivered of it.

    finish: what is done with the ranking before it is delivered, in this order
    """

    metric: RetrievalMetric
    gold: Gold
    index: OpenIndex
    finish: tuple[Finish, ...] = ()

    def of(self, ranking: Ranking) -> float:
        """Return the metric of a whole ranking."""
        for step in self.finish:
            ranking = step(ranking)
        return self.metric.value(self.gold, self._spans(ranking))

    def of_beginning(self, ranking: Ranking) -> float | None:
        """Return the metric of a ranking by its first rows; None where further ones may change it."""
        if self.finish:
            return None
        spans = self._spans(ranking)
        decided = len({span.doc_id for span in spans}) >= self.metric.k
        return self.metric.value(self.gold, spans) if decided else None

    def _spans(self, ranking: Ranking) -> list[Span]:
        return [*dict.fromkeys(delivered(ranking, self.index))]


class TrainQuestion(NamedTuple):
    """What a question's arms found, and what a ranking is worth to it.

    rankings: one an arm, as `Fuse.arms` returns them
    """

    rankings: Sequence[Ranking]
    worth: Worth


@dataclass(frozen=True)
class Tuned:
    """The result of choosing weights.

    weights: the chosen ones, one an arm; they add up to 1
    value: their mean over the train questions
    tried: all choices, shape (choices, arms)
    values: the mean of each choice, shape (choices,): the curve
    questions: how many questions they are means of
    """

    weights: tuple[float, ...]
    value: float
    tried: Floats
    values: Floats
    questions: int


def apart(train: pl.DataFrame, asked: pl.DataFrame) -> pl.DataFrame:
    """Return the train questions (schemas.QUESTIONS) that are not asked as test questions, too.

    A question is the same by its words and what was said before it, whatever its id, its case and its signs.

    Raises:
        InputError: all of them are.
    """
    known = {_said(row) for row in asked.iter_rows(named=True)}
    kept = train.filter([_said(row) not in known for row in train.iter_rows(named=True)])
    if len(train) and not len(kept):
        raise InputError("every train question is a test question, too: there is nothing to tune on")
    return kept


def _said(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(" ".join(asked_tokens(text)) for text in (row["question"], *(row["conversation"] or ())))


def tune(
    fuse: Fusion, cases: Sequence[TrainCase], index: OpenIndex, metric: RetrievalMetric
) -> Tuning[Fusion]:
    """Choose the weights of a fusion on train questions.

    Raises:
        InputError: there is no train question.
    """
    questions = []
    for case in cases:
        alone = replace(case.query, context=replace(case.query.context, memory=None), trace=None)
        questions.append(TrainQuestion(fuse.arms(alone, index), Worth(metric, case.gold, index, case.finish)))
    found = choose_weights(questions, fuse.method, fuse.k)
    arms = tuple(arm.kind for arm in fuse.of)
    chosen = Chosen(arms, found.weights, metric.name, found.value, found.questions)
    return Tuning(fuse.with_weights(found.weights), (chosen,))


def choose_weights(questions: Sequence[TrainQuestion], method: Method, k: int, points: int = POINTS) -> Tuned:
    """Try a grid of weights on train questions; return the best and the whole curve.

    Where several choices are equally good, the middle one is taken: of two arms, the middle of the longest
    run of neighbours; of more, the choice nearest to the mean of the best ones.

    Args:
        questions: train questions.
        method: how the arms are fused.
        k: how many passages the fusion returns.
        points: how many choices at most (all of them for two arms).

    Raises:
        InputError: there is no question.
    """
    if not questions:
        raise InputError("Weights cannot be chosen: the train question set holds no question.")
    tried = grid(len(questions[0].rankings), points)
    total = np.zeros(len(tried))
    for question in questions:
        total += _values(question, method, k, tried)
    values = total / len(questions)
    best = _middle(tried, np.flatnonzero(values >= values.max() - SAME))
    chosen = tuple(float(weight) for weight in tried[best])
    return Tuned(chosen, float(values[best]), tried, values, len(questions))


def _values(question: TrainQuestion, method: Method, k: int, tried: Floats) -> Floats:
    """Return what the ranking of each choice is worth to a question, shape (choices,)."""
    rows, points = candidates(question.rankings, method)
    if not len(rows):
        return np.full(len(tried), question.worth.of(question.rankings[0]))
    scores = np.ascontiguousarray(method.scores(points, tried).T)
    known: dict[bytes, float] = {}
    return np.array([_value(question.worth, rows, one, k, known) for one in scores])


def _value(worth: Worth, rows: Ints, scores: Floats, k: int, known: dict[bytes, float]) -> float:
    """Return what one choice is worth; choices that rank alike are measured once."""
    # Few rows are most often enough, and sooner sorted than all.
    for depth in dict.fromkeys((min(k, worth.metric.k), min(k, 4 * worth.metric.k), k)):
        ranking = Ranking.best(rows, scores, depth)
        key = ranking.rows.tobytes()
        if key not in known:
            whole = depth == k or len(ranking) < depth
            value = worth.of(ranking) if whole else worth.of_beginning(ranking)
            if value is None:
                continue
            known[key] = value
        return known[key]
    raise AssertionError("the whole ranking always has a value")


def grid(arms: int, points: int = POINTS) -> Floats:
    """Return weights that add up to 1, evenly spaced, shape (choices, arms); at most ``points`` of them.

    >>> grid(2, 5).tolist()
    [[0.0, 1.0], [0.25, 0.75], [0.5, 0.5], [0.75, 0.25], [1.0, 0.0]]
    >>> len(grid(2)), len(grid(3)), len(grid(4))
    (178, 171, 165)
    """
    if arms < 2 or points < arms:
        raise InputError(f"Weights of {arms} arms cannot be chosen among {points} points.")
    steps = 1
    while comb(steps + arms, arms - 1) <= points:
        steps += 1
    return np.array(_shares(arms, steps), np.float64) / steps


def _shares(arms: int, steps: int) -> list[list[int]]:
    """Return all ways to share whole steps among arms, in rising order."""
    if arms == 1:
        return [[steps]]
    return [[first, *rest] for first in range(steps + 1) for rest in _shares(arms - 1, steps - first)]


def _middle(tried: Floats, best: Ints) -> int:
    """Return the choice in the middle of equally good ones."""
    if tried.shape[1] == 2:
        runs = np.split(best, np.flatnonzero(np.diff(best) > 1) + 1)
        longest = max(runs, key=len)
        return int(longest[(len(longest) - 1) // 2])
    away = ((tried[best] - tried[best].mean(axis=0)) ** 2).sum(axis=1)
    return int(best[np.argmin(away)])
