"""Every step of a chain is held to one contract, which is itself proved against steps that break it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.contract import OpenStep, Step
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.passage_steps import delivered_spans
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.ranking import Ranking
from rag_assay.evals.study.registry import STEPS
from tests.fakes.cross_encoder import POSITIONS, build_cross_encoder
from tests.fakes.indexing import applied, build_index, query

TEXTS = (
    *("The ferry leaves at noon.", "Tickets are sold on the quay.", "Dogs travel free.", "The quay is old."),
    *("the ferry leaves at noon", "A lighthouse keeper.", "Lamps burn oil.", "Oil is sold by the litre."),
    *("Winter closes the harbour.", "Ice stays until March.", "Der Hafen schließt.", "漢字 🛳️"),
)
PARAMETERS: dict[str, dict[str, Any]] = {
    "cross_encoder": {"n": 8, "max_length": POSITIONS},
    "graph": {"similarity": 0.1, "percentile": 50, "add": 3},
    "top": {"k": 5},
    "token_budget": {"tokens": 12},
    "deduplicate": {"jaccard": 0.3},
}

Check = Callable[[Step, OpenIndex], None]


def rankings(index: OpenIndex) -> list[Ranking]:
    """Return full, single, tied, negative and widened rankings."""
    chance = np.random.default_rng(5)
    n = len(index)
    rows = chance.permutation(n)
    falling = np.sort(chance.normal(size=n))[::-1].copy()
    widened = np.array([[s.start, s.end] for s in delivered_spans(Ranking(rows, falling), index)], np.int64)
    widened[:3, 1] -= 2
    return [
        Ranking.best(rows, falling, n),
        Ranking.best(rows[:1], falling[:1], n),
        Ranking.best(rows[:6], np.zeros(6), n),
        Ranking.best(rows[:4], np.array([-1.0, -2, -3, -4]), n),
        Ranking(rows, falling, widened),
    ]


def asked(index: OpenIndex) -> Query:
    return replace(plain(), allowed=np.arange(len(index)) % 5 != 4)


CONTEXT = RetrievalContext(count=lambda texts: [len(text.split()) for text in texts])


def plain() -> Query:
    return query("ferry quay")


def permitted(ranking: Ranking, question: Query) -> Ranking:
    return ranking.take(question.permitted(ranking.rows))


def rows_stay_what_they_are(step: Step, index: OpenIndex) -> None:
    question = asked(index)
    adds = getattr(step, "add", 0)
    for ranking in rankings(index):
        given = permitted(ranking, question)
        found = applied(step, given, question, index, CONTEXT)
        assert len(found.rows) == len(found.scores) <= len(given) + adds
        assert len(set(found.rows.tolist())) == len(found), "a chunk comes twice"
        assert question.permitted(found.rows).all(), "a forbidden chunk"
        assert len(set(found.rows.tolist()) - set(given.rows.tolist())) <= adds, "a chunk out of nowhere"
        assert np.isfinite(found.scores).all()


def spans_are_in_their_documents(step: Step, index: OpenIndex) -> None:
    for ranking in rankings(index):
        found = applied(step, ranking, plain(), index, CONTEXT)
        if found.spans is not None:
            assert found.spans.shape == (len(found), 2)
        for span in delivered_spans(found, index):
            assert 0 <= span.start < span.end
            assert index.passage(*span).strip(), "no text is delivered"


def the_same_ranking_gives_the_same(step: Step, index: OpenIndex) -> None:
    for ranking in rankings(index):
        before = ranking.rows.tolist(), ranking.scores.tolist()
        first, second = (applied(step, ranking, plain(), index, CONTEXT) for _ in range(2))
        assert first.rows.tolist() == second.rows.tolist()
        assert first.scores.tolist() == second.scores.tolist()
        assert (ranking.rows.tolist(), ranking.scores.tolist()) == before, "the ranking was changed in place"


def no_text_comes_twice(step: Step, index: OpenIndex) -> None:
    """Chunks of these documents share no character, and so no two passages do after any step."""
    for ranking in rankings(index):
        held: set[tuple[str, int]] = set()
        for span in delivered_spans(applied(step, ranking, plain(), index, CONTEXT), index):
            own = {(span.doc_id, at) for at in range(span.start, span.end)}
            assert not own & held, "a text comes twice"
            held |= own


def nothing_stays_nothing(step: Step, index: OpenIndex) -> None:
    empty = Ranking(np.zeros(0, np.int64), np.zeros(0, np.float64))
    for nothing in (empty, replace(empty, spans=np.zeros((0, 2), np.int64))):
        assert not len(applied(step, nothing, plain(), index, CONTEXT))


def taken(step: OpenStep, index: OpenIndex) -> list[tuple[object, ...]]:
    found = [step.apply(ranking, plain()) for ranking in rankings(index)]
    return [
        (r.rows.tolist(), r.scores.tolist(), None if r.spans is None else r.spans.tolist()) for r in found
    ]


def what_was_opened_keeps_nothing_of_a_question(step: Step, index: OpenIndex) -> None:
    alone = [taken(step.open(index, CONTEXT), index) for _ in range(2)]
    first = step.open(index, CONTEXT)
    second = step.open(index, CONTEXT)
    assert [taken(first, index), taken(second, index), taken(first, index)] == [alone[0]] * 3
    assert alone[0] == alone[1]


def two_indexes_do_not_mix(step: Step, index: OpenIndex, other: OpenIndex) -> None:
    apart = [taken(step.open(each, CONTEXT), each) for each in (index, other)]
    first, second = step.open(index, CONTEXT), step.open(other, CONTEXT)
    assert [taken(first, index), taken(second, other), taken(first, index)] == [*apart, apart[0]]


CHECKS: tuple[Check, ...] = (
    rows_stay_what_they_are,
    spans_are_in_their_documents,
    the_same_ranking_gives_the_same,
    no_text_comes_twice,
    nothing_stays_nothing,
    what_was_opened_keeps_nothing_of_a_question,
)


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    dates = [f"2024-01-{number + 1:02}" if number % 3 else None for number in range(len(TEXTS))]
    titles = ["Yearly report 2023" if number % 2 else "Yearly report 2024" for number in range(len(TEXTS))]
    # Six documents of two chunks that stand one after the other, a space between them.
    starts, ends = [], []
    for number, text in enumerate(TEXTS):
        starts.append(0 if number % 2 == 0 else ends[-1] + 1)
        ends.append(starts[-1] + len(text))
    columns = {
        "published_at": dates,
        "title": titles,
        "gap": [" " if number % 2 == 0 else "" for number in range(len(TEXTS))],
        "start": starts,
        "end": ends,
        "context_start": starts,
        "context_end": ends,
    }
    return build_index(tmp_path_factory.mktemp("index"), TEXTS, columns=columns)


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return build_index(tmp_path_factory.mktemp("other"), [*TEXTS[::-1], "One more.", "And one."])


@pytest.fixture(scope="session")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_cross_encoder(tmp_path_factory.mktemp("cross-encoder"), TEXTS)


def made(kind: str, cross_encoder: Path) -> Step:
    given = PARAMETERS.get(kind, {}) | ({"model": str(cross_encoder)} if kind == "cross_encoder" else {})
    return STEPS[kind].model_validate(given)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", STEPS)
def test_contract(kind: str, check: Check, index: OpenIndex, cross_encoder: Path) -> None:
    step = made(kind, cross_encoder)
    assert step.role
    check(step, index)


@pytest.mark.parametrize("kind", STEPS)
def test_a_step_opened_on_two_indexes(
    kind: str, index: OpenIndex, other: OpenIndex, cross_encoder: Path
) -> None:
    two_indexes_do_not_mix(made(kind, cross_encoder), index, other)


class _Broken(Step):
    kind = "broken"
    role = "deliver"

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenStep:
        return OpenStep(lambda ranking, query: self.apply(ranking, query, index))

    def apply(self, ranking: Ranking, query: Query, index: OpenIndex) -> Ranking:
        return ranking


class Repeats(_Broken):
    def apply(self, ranking: Ranking, query: Query, index: OpenIndex) -> Ranking:
        return ranking.take(np.zeros(len(ranking), np.int64))


class Adds(_Broken):
    def apply(self, ranking: Ranking, query: Query, index: OpenIndex) -> Ranking:
        rows = np.setdiff1d(np.arange(len(index)), ranking.rows)[: len(ranking)]
        return Ranking(rows, np.ones(len(rows)))


class AnswersNothing(_Broken):
    def apply(self, ranking: Ranking, query: Query, index: OpenIndex) -> Ranking:
        return ranking if len(ranking) else Ranking(np.zeros(1, np.int64), np.zeros(1))


class LosesSpans(_Broken):
    def apply(self, ranking: Ranking, query: Query, index: OpenIndex) -> Ranking:
        spans = None if ranking.spans is None else ranking.spans[:-1]
        return replace(ranking, spans=spans)


class RunsOver(_Broken):
    def apply(self, ranking: Ranking, query: Query, index: OpenIndex) -> Ranking:
        beyond = np.full((len(ranking), 2), 10**6, np.int64)
        beyond[:, 1] += 5
        return replace(ranking, spans=beyond)


class WidensWithoutMerging(_Broken):
    def apply(self, ranking: Ranking, query: Query, index: OpenIndex) -> Ranking:
        ends = index.chunks.group_by("doc_id").agg(end=pl.col("context_end").max())
        last = dict(ends.iter_rows())
        docs = index.chunks["doc_id"].gather(ranking.rows).to_list()
        return replace(ranking, spans=np.array([[0, last[doc]] for doc in docs]).reshape(-1, 2))


class SortsInPlace(_Broken):
    def apply(self, ranking: Ranking, query: Query, index: OpenIndex) -> Ranking:
        ranking.rows.sort()
        return ranking


class Shuffles(_Broken):
    def apply(self, ranking: Ranking, query: Query, index: OpenIndex) -> Ranking:
        return ranking.take(np.random.default_rng().permutation(len(ranking)))


class KeepsTheFirst(_Broken):
    """Drops what a question before had."""

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenStep:
        seen: set[int] = set()

        def apply(ranking: Ranking, query: Query) -> Ranking:
            new = ranking.take(np.array([row not in seen for row in ranking.rows.tolist()], np.bool_))
            seen.update(ranking.rows.tolist())
            return new

        return OpenStep(apply)


class SharesSpans(_Broken):
    """Takes the passages of the first index that it was opened on for those of all."""

    contexts: ClassVar[list[npt.NDArray[np.int64]]] = []

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenStep:
        self.contexts.append(index.spans.contexts)
        return OpenStep(lambda ranking, query: replace(ranking, spans=self.contexts[0][ranking.rows]))


def test_the_suite_notices_indexes_that_mix(index: OpenIndex, other: OpenIndex) -> None:
    SharesSpans.contexts.clear()
    with pytest.raises((AssertionError, IndexError)):
        two_indexes_do_not_mix(SharesSpans(), index, other)


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (Repeats, rows_stay_what_they_are),
        (Adds, rows_stay_what_they_are),
        (AnswersNothing, nothing_stays_nothing),
        (LosesSpans, spans_are_in_their_documents),
        (WidensWithoutMerging, no_text_comes_twice),
        (RunsOver, spans_are_in_their_documents),
        (SortsInPlace, the_same_ranking_gives_the_same),
        (Shuffles, the_same_ranking_gives_the_same),
        (KeepsTheFirst, what_was_opened_keeps_nothing_of_a_question),
    ],
    ids=lambda value: value.__name__,
)
def test_the_suite_notices(broken: type[Step], check: Check, index: OpenIndex) -> None:
    with pytest.raises((AssertionError, ValueError)):
        check(broken(), index)
