"""One question asked of one retriever: what it took, what it found, and what becomes of one that fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from rag_assay.evals.retrieval.clock import Clock, Spent
from rag_assay.evals.retrieval.context import Memory, RetrievalContext
from rag_assay.evals.retrieval.contract import Searcher
from rag_assay.evals.retrieval.fusion import SharedSearcher
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.query_runner import Hit, QueryRunner, warm_up
from rag_assay.evals.retrieval.query_vectors import QueryVector
from rag_assay.evals.retrieval.ranking import Ranking
from rag_assay.evals.study.registry import read_retriever
from tests.fakes.indexing import build_index, vector_of

TEXTS = ("ferry at noon", "tickets here", "lamp at dusk", "crane of 1901")
BOTH = {"fuse": {"of": [{"bm25": {}}, {"dense": {}}]}}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return build_index(tmp_path_factory.mktemp("index"), TEXTS)


def question(text: str, name: str = "q") -> dict[str, Any]:
    return {"question_id": name, "question": text}


class By(Searcher):
    """Searches by a function."""

    def __init__(self, rank: Callable[[Query], Ranking]) -> None:
        self.search = rank  # type: ignore[method-assign]

    def search(self, query: Query) -> Ranking:
        raise NotImplementedError


class Hands:
    """A clock that moves when it is told."""

    def __init__(self) -> None:
        self.wall = self.waited = 0.0

    def clock(self) -> Clock:
        return Clock(wall=lambda: self.wall, waited=lambda: self.waited)

    def move(self, seconds: float, waited: float = 0.0) -> None:
        self.wall += seconds
        self.waited += waited


def runner(
    rank: Callable[[Query], Ranking], index: OpenIndex, clock: Clock | None = None, **vectors: QueryVector
) -> QueryRunner:
    return QueryRunner(By(rank), index, vectors, clock or Hands().clock())


def test_a_latency_is_that_of_embedding_and_ranking(index: OpenIndex) -> None:
    hands = Hands()
    clock = hands.clock()

    def rank(query: Query) -> Ranking:
        hands.move(2.0, waited=0.25)
        clock.add(Spent(1.0))  # what an arm had taken that came from memory
        return Ranking(np.array([2]), np.array([0.5]))

    one = runner(rank, index, clock, when=QueryVector(vector_of("when"), Spent(4.0, 0.25)))
    found = one.ask(question("when"))
    assert found.spent == Spent(7.0, 0.5)
    assert (found.question_id, found.status, found.reason) == ("q", "ok", None)
    (hit,) = found.hits
    assert hit == Hit(rank=1, chunk_id="c002", doc_id="d001", start=0, end=12, score=0.5)
    assert index.passage(*hit.span) == "lamp at dusk"


@pytest.mark.parametrize("scores", [[np.nan], [np.inf], [1.0, np.nan]])
def test_a_score_that_is_no_number_fails_its_question_alone(scores: list[float], index: OpenIndex) -> None:
    def rank(query: Query) -> Ranking:
        found = scores if query.text == "bad" else [1.0]
        return Ranking(np.arange(len(found)), np.array(found))

    one = runner(rank, index)
    bad, good = one.ask(question("bad")), one.ask(question("good"))
    assert (bad.status, bad.hits, bad.spent) == ("error", (), None)
    assert "not a finite number" in str(bad.reason)
    assert good.status == "ok"


def test_a_question_that_was_not_embedded_says_why(index: OpenIndex) -> None:
    refused = QueryVector(None, refused="longer than the 256 tokens that it reads")
    searcher = read_retriever(BOTH).open(index, RetrievalContext())
    found = QueryRunner(searcher, index, {"endless": refused}, Clock()).ask(question("endless"))
    assert found.status == "error"
    assert found.reason == "InputError: longer than the 256 tokens that it reads"


def test_a_combination_takes_as_long_as_its_arms_whichever_was_asked_first(index: OpenIndex) -> None:
    hands = Hands()
    context = RetrievalContext(memory=Memory(), clock=hands.clock(), embed=None)
    vectors = {"ferry": QueryVector(vector_of("ferry"), Spent(1.0))}

    def slow(recipe: Any) -> Any:
        """Let every arm that really ranks take two seconds."""
        original = type(recipe).open

        def opened(self: Any, index: OpenIndex, context: RetrievalContext) -> Searcher:
            searcher = original(self, index, context)

            def rank(query: Query) -> Ranking:
                hands.move(2.0)
                ranking: Ranking = searcher.search(query)
                return ranking

            return By(rank)

        return opened

    alone = {name: read_retriever({name: {}}) for name in ("bm25", "dense")}
    with pytest.MonkeyPatch.context() as patched:
        for recipe in alone.values():
            patched.setattr(type(recipe), "open", slow(recipe))
        asked = [
            QueryRunner(SharedSearcher(recipe, index, context), index, vectors, context.clock)
            .ask(question("ferry"))
            .spent
            for recipe in (
                read_retriever({"fuse": {"of": [alone["bm25"], {"dense": {}}]}}),
                alone["dense"],
                read_retriever({"fuse": {"of": [{"dense": {}}, {"bm25": {}}], "k": 3}}),
            )
        ]
    assert asked == [Spent(5.0), Spent(3.0), Spent(5.0)]
    assert hands.wall == 4.0, "each arm ranked once"


def test_a_passage_that_several_chunks_deliver_is_one_hit(tmp_path: Path) -> None:
    contexts = {"context_start": [0, 0, 0, 1000], "context_end": [13, 13, 12, 1013]}
    columns = {**contexts, "doc_id": ["a", "a", "b", "b"]}
    shared = build_index(tmp_path, TEXTS, columns=columns)
    ranking = Ranking(np.array([1, 2, 0, 3]), np.array([4.0, 3.0, 2.0, 1.0]))
    found = runner(lambda _: ranking, shared).ask(question("?"))
    assert [(hit.rank, hit.chunk_id, hit.score) for hit in found.hits] == [
        (1, "c001", 4.0),
        (2, "c002", 3.0),
        (3, "c003", 1.0),
    ]


def test_the_clock_runs_for_no_question_before_one_has_found_something(index: OpenIndex) -> None:
    asked: list[str] = []

    def rank(query: Query) -> Ranking:
        asked.append(query.text)
        assert not query.remembered, "what is made at first use is remembered as no arm's time"
        rows = np.arange(int(query.text == "third"))
        return Ranking(rows, np.ones(len(rows)))

    questions = pl.DataFrame([question(text) for text in ("first", "second", "third", "fourth")])
    one = runner(rank, index)
    warm_up(one, questions)
    assert asked == ["first", "second", "third"]
    asked.clear()
    warm_up(replace(one, vectors={}), pl.DataFrame([question(str(n)) for n in range(99)]))
    assert len(asked) == 10, "and not without end"
