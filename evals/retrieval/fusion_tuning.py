"""Tunes the weights of a fusion on train questions by a grid search, by the metric of the passages that would
be delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from math import comb
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from rag_assay.evals.metrics.contract import Gold, RetrievalMetric
from rag_assay.evals.retrieval.analyzer import question_tokens
from rag_assay.evals.retrieval.chain import Around, Chain
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.contract import OpenStep, Retriever
from rag_assay.evals.retrieval.fusion import Floats, Fuse, Method, candidates
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.passage_steps import delivered_spans
from rag_assay.evals.retrieval.query import Query, Trace
from rag_assay.evals.retrieval.ranking import Ranking
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.spans import Span

CODE_VERSION = "2"  # of how weights are chosen
POINTS = 178
SAME = 1e-12  # means of the same values differ by rounding errors
Ints: TypeAlias = "npt.NDArray[np.int64]"


Finish = Callable[[Ranking], Ranking]
"""What is done with a ranking of a train question before it is delivered."""


class TrainCase(NamedTuple):
    """A train question on its way through a retriever, and what it should find."""

    query: Query
    gold: Gold
    finish: tuple[Finish, ...] = ()


@dataclass(frozen=True)
class Bench:
    """What a retriever is tuned on, and the metric that it is tuned by."""

    index: OpenIndex
    context: RetrievalContext
    metric: RetrievalMetric


class Chosen(NamedTuple):
    """Weights as they were chosen for one fusion: what is told of it."""

    arms: tuple[str, ...]
    weights: tuple[float, ...]
    metric: str
    value: float
    questions: int


class Tuning(NamedTuple):
    """A retriever with what was to be tuned chosen; and what that was, inner parts first."""

    retriever: Retriever
    chosen: tuple[Chosen, ...] = ()


@dataclass(frozen=True)
class Worth:
    """What a ranking is worth to one question, after the steps of ``finish``."""

    metric: RetrievalMetric
    gold: Gold
    index: OpenIndex
    finish: tuple[Finish, ...] = ()

    def of(self, ranking: Ranking) -> float:
        for step in self.finish:
            ranking = step(ranking)
        return self.metric.value(self.gold, self._spans(ranking))

    def of_beginning(self, ranking: Ranking) -> float | None:
        if self.finish:
            return None
        spans = self._spans(ranking)
        decided = len({span.doc_id for span in spans}) >= self.metric.k
        return self.metric.value(self.gold, spans) if decided else None

    def _spans(self, ranking: Ranking) -> list[Span]:
        return [*dict.fromkeys(delivered_spans(ranking, self.index))]


class TrainQuestion(NamedTuple):
    """What a question's arms found (one ranking an arm), and what a ranking is worth to it."""

    rankings: Sequence[Ranking]
    worth: Worth


@dataclass(frozen=True)
class Tuned:
    """The weights of each arm, which add up to 1; tried: all choices, shape (choices, arms), and values."""

    weights: tuple[float, ...]
    value: float
    tried: Floats
    values: Floats
    questions: int


def apart(train: pl.DataFrame, test: pl.DataFrame) -> pl.DataFrame:
    """Return the train questions that are not asked as test questions, case, signs and ids aside."""
    known = {_conversation_words(row) for row in test.iter_rows(named=True)}
    kept = train.filter([_conversation_words(row) not in known for row in train.iter_rows(named=True)])
    if len(train) and not len(kept):
        raise InputError("every train question is a test question, too: there is nothing to tune on")
    return kept


def _conversation_words(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(" ".join(question_tokens(text)) for text in (row["question"], *(row["conversation"] or ())))


def tune_retriever(retriever: Retriever, cases: Sequence[TrainCase], bench: Bench) -> Tuning:
    """Choose on train questions what is to be tuned, inner parts first; a chain's by what it delivers."""
    if not retriever.needs_tuning:
        return Tuning(retriever)
    if isinstance(retriever, Fuse):
        return _tuned_fusion(retriever, cases, bench)
    if isinstance(retriever, Chain):
        inner = tune_retriever(retriever.retriever, _as_read(retriever, cases, bench), bench)
        return Tuning(retriever.with_retriever(inner.retriever), inner.chosen)
    if isinstance(retriever, Around):
        inner = tune_retriever(retriever.of, _alone(cases), bench)
        return Tuning(retriever.model_copy(update={"of": inner.retriever}), inner.chosen)
    raise InputError(
        f"`{retriever.kind}` cannot be tuned: only fusions, and chains and retrievers around them"
    )


def _alone(cases: Sequence[TrainCase]) -> list[TrainCase]:
    return [case._replace(finish=()) for case in cases]


def _as_read(chain: Chain, cases: Sequence[TrainCase], bench: Bench) -> list[TrainCase]:
    opened = chain.open(bench.index, bench.context)
    tried = list(takewhile(lambda step: not step.costly, chain.later))
    steps = [step.open(bench.index, bench.context) for step in tried]
    found = []
    for case in cases:
        outer = case.finish if len(tried) == len(chain.later) else ()
        for query in opened.read(case.query):
            steps_of_arm = tuple(partial(_applied, step, query) for step in steps)
            found.append(TrainCase(query, case.gold, steps_of_arm + outer))
    return found


def _applied(step: OpenStep, query: Query, ranking: Ranking) -> Ranking:
    return step.apply(ranking, query)


def _tuned_fusion(fuse: Fuse, cases: Sequence[TrainCase], bench: Bench) -> Tuning:
    found = [tune_retriever(arm, _alone(cases), bench) for arm in fuse.of]
    ready = fuse.model_copy(update={"of": tuple(arm.retriever for arm in found)})
    inner = tuple(one for arm in found for one in arm.chosen)
    if fuse.weights != "tuned":
        return Tuning(ready, inner)
    opened = ready.open(bench.index, bench.context)
    questions = []
    for case in cases:
        alone = replace(case.query, remembered=False, trace=Trace())
        rankings = opened.arms(alone)
        case.query.trace.include((), alone.trace.notes)
        questions.append(TrainQuestion(rankings, Worth(bench.metric, case.gold, bench.index, case.finish)))
    best = choose_weights(questions, fuse.method, fuse.k)
    kinds = tuple(arm.kind for arm in fuse.of)
    chosen = Chosen(kinds, best.weights, bench.metric.name, best.value, best.questions)
    return Tuning(ready.with_weights(best.weights), (*inner, chosen))


def choose_weights(questions: Sequence[TrainQuestion], method: Method, k: int, points: int = POINTS) -> Tuned:
    """Return the best of at most ``points`` weights on a grid (of equals the middle one), and the curve."""
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
    rows, points = candidates(question.rankings, method)
    if not len(rows):
        return np.full(len(tried), question.worth.of(question.rankings[0]))
    scores = np.ascontiguousarray(method.scores(points, tried).T)
    known: dict[bytes, float] = {}
    return np.array([_value(question.worth, rows, one, k, known) for one in scores])


def _value(worth: Worth, rows: Ints, scores: Floats, k: int, known: dict[bytes, float]) -> float:
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
        raise InputError(f"Weights of {arms} retrievers cannot be chosen among {points} points.")
    steps = 1
    while comb(steps + arms, arms - 1) <= points:
        steps += 1
    return np.array(_shares(arms, steps), np.float64) / steps


def _shares(arms: int, steps: int) -> list[list[int]]:
    if arms == 1:
        return [[steps]]
    return [[first, *rest] for first in range(steps + 1) for rest in _shares(arms - 1, steps - first)]


def _middle(tried: Floats, best: Ints) -> int:
    if tried.shape[1] == 2:
        runs = np.split(best, np.flatnonzero(np.diff(best) > 1) + 1)
        longest = max(runs, key=len)
        return int(longest[(len(longest) - 1) // 2])
    away = ((tried[best] - tried[best].mean(axis=0)) ** 2).sum(axis=1)
    return int(best[np.argmin(away)])
