"""Weights of a fusion, chosen on train questions: every choice of a grid is tried on every question.

For each question the candidates of all arms are laid out once as a matrix of points, and fused under all
choices of weights at once. A metric needs no sorting: the rank of a graded document is one more than the
number of documents above it, so that one comparison of all candidates with it, for all choices, is enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import Field, TypeAdapter

from evals.retrieving.contract import Ranking, TrainCase
from evals.retrieving.fusing import candidates
from evals.retrieving.index import OpenIndex
from evals.retrieving.methods import Floats, Method
from evals.retrieving.words import asked_tokens
from warehouse.errors import InputError

if TYPE_CHECKING:
    from evals.retrieving.fusing import Fuse

POINTS = 178
SAME = 1e-12  # means of the same values differ by rounding errors
Ints = npt.NDArray[np.int64]
Metric = Annotated[str, Field(pattern=r"^(ndcg|mrr|recall|hit_rate)@[1-9][0-9]{0,3}$")]


class TrainQuestion(NamedTuple):
    """What a question's arms found, and what they should have.

    rankings: one an arm, as `Fuse.arms` returns them
    grades: document number -> grade above 0; documents that no arm found belong here, too
    """

    rankings: Sequence[Ranking]
    grades: Mapping[int, float]


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


class Chosen(NamedTuple):
    """Weights as they were chosen for one fusion: what is told of it.

    arms: the kind of each arm
    """

    arms: tuple[str, ...]
    weights: tuple[float, ...]
    metric: str
    value: float
    questions: int


TUNED = "tuned weights"
"""Where `kit.made` keeps the list of what was chosen."""


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


def tune(fuse: Fuse, cases: Sequence[TrainCase], index: OpenIndex, metric: str) -> Fuse:
    """Choose the weights of a fusion on train questions; note them in the kit of the queries.

    Raises:
        InputError: no train question has evidence in a document.
    """
    numbers, documents = index.made("document numbers", lambda: _numbered(index))
    questions = []
    for case in cases:
        # A document that the index lacks is found by no arm; it counts all the same.
        grades = {numbers.get(doc, -1 - n): grade for n, (doc, grade) in enumerate(case.grades.items())}
        if grades:
            alone = replace(case.query, kit=replace(case.query.kit, memory=None), trace=None)
            questions.append(TrainQuestion(fuse.arms(alone, index), grades))
    found = choose_weights(questions, documents, fuse.method, metric)
    arms = tuple(str(arm.kind) for arm in fuse.of)
    chosen = Chosen(arms, found.weights, metric, found.value, found.questions)
    cases[0].query.kit.made.setdefault(TUNED, []).append(chosen)
    return fuse.with_weights(found.weights)


def _numbered(index: OpenIndex) -> tuple[dict[str, int], Ints]:
    """Return document id -> number, and the document number of each row."""
    column = index.chunks["doc_id"]
    numbers = {doc: number for number, doc in enumerate(column.unique().sort())}
    return numbers, np.array([numbers[doc] for doc in column], np.int64)


def choose_weights(
    questions: Sequence[TrainQuestion],
    documents: Ints,
    method: Method,
    metric: str = "ndcg@10",
    points: int = POINTS,
) -> Tuned:
    """Try a grid of weights on train questions; return the best and the whole curve.

    Where several choices are equally good, the middle one is taken: of two arms, the middle of the longest
    run of neighbours; of more, the choice nearest to the mean of the best ones.

    Args:
        questions: train questions, each with graded documents.
        documents: the document number of each row of the index, shape (chunks,).
        method: how the arms are fused.
        metric: ndcg, mrr, recall or hit_rate @ k, of documents, each at its best chunk.
        points: how many choices at most (all of them for two arms).

    Raises:
        InputError: there is no question, one has no graded document, or the metric is none of these.
    """
    name, depth = _metric(metric)
    if not questions:
        raise InputError("Weights cannot be chosen: the train question set holds no question.")
    if any(not question.grades for question in questions):
        raise InputError("Weights cannot be chosen: a train question has no graded document.")
    tried = grid(len(questions[0].rankings), points)
    total = np.zeros(len(tried))
    for question in questions:
        ranks, grades = _ranks(question, documents, method, tried)
        total += _value(name, depth, ranks, grades)
    values = total / len(questions)
    best = _middle(tried, np.flatnonzero(values >= values.max() - SAME))
    chosen = tuple(float(weight) for weight in tried[best])
    return Tuned(chosen, float(values[best]), tried, values, len(questions))


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


def _metric(metric: str) -> tuple[str, int]:
    try:
        name, depth = TypeAdapter(Metric).validate_python(metric).split("@")
    except ValueError as error:
        raise InputError(
            f"Weights are chosen by ndcg@k, mrr@k, recall@k or hit_rate@k, not by {metric!r}."
        ) from error
    return name, int(depth)


def _ranks(question: TrainQuestion, documents: Ints, method: Method, tried: Floats) -> tuple[Floats, Floats]:
    """Return each graded document's rank under each choice, inf where no arm found it; and its grade."""
    rows, points = candidates(question.rankings, method)
    graded = list(question.grades)
    ranks = np.full((len(graded), len(tried)), np.inf)
    if len(rows):
        order = np.lexsort((rows, documents[rows]))
        rows, scores = rows[order], method.scores(points[order], tried)
        starts = np.flatnonzero(np.diff(documents[rows], prepend=-1))
        best = scores if len(starts) == len(rows) else np.maximum.reduceat(scores, starts, axis=0)
        place = {int(document): at for at, document in enumerate(documents[rows[starts]])}
        for number, document in enumerate(graded):
            if document in place:
                ranks[number] = _rank(place[document], best, scores, rows, starts)
    return ranks, np.array([question.grades[document] for document in graded], np.float64)


def _rank(at: int, best: Floats, scores: Floats, rows: Ints, starts: Ints) -> Floats:
    """Return one document's rank under each choice; equal documents go by the row of their best chunk."""
    ranks = 1.0 + (best > best[at]).sum(axis=0)
    tied = best == best[at]
    choices = np.flatnonzero(tied.sum(axis=0) > 1)
    if len(choices):
        level = np.repeat(best[:, choices], np.diff([*starts, len(rows)]), axis=0)
        held = np.where(scores[:, choices] == level, rows[:, None], np.iinfo(np.int64).max)
        first = np.minimum.reduceat(held, starts, axis=0)
        ranks[choices] += (tied[:, choices] & (first < first[at])).sum(axis=0)
    return ranks


def _value(name: str, depth: int, ranks: Floats, grades: Floats) -> Floats:
    """Return the metric of one question under each choice (`evals.measuring` has their definitions)."""
    within = ranks <= depth
    if name == "hit_rate":
        return np.asarray(within.any(axis=0), np.float64)
    if name == "recall":
        return np.asarray(within.mean(axis=0))
    if name == "mrr":
        return np.where(within, 1 / ranks, 0.0).max(axis=0)
    gains: Floats = np.where(within, grades[:, None] / np.log2(ranks + 1), 0.0).sum(axis=0)
    ideal = np.sort(grades)[::-1][:depth]
    possible = float((ideal / np.log2(np.arange(len(ideal)) + 2)).sum())
    return gains / possible


def _middle(tried: Floats, best: Ints) -> int:
    """Return the choice in the middle of equally good ones."""
    if tried.shape[1] == 2:
        runs = np.split(best, np.flatnonzero(np.diff(best) > 1) + 1)
        longest = max(runs, key=len)
        return int(longest[(len(longest) - 1) // 2])
    away = ((tried[best] - tried[best].mean(axis=0)) ** 2).sum(axis=1)
    return int(best[np.argmin(away)])
