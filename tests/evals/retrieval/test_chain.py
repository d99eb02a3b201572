from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from rag_assay.evals.retrieval.bm25 import Bm25
from rag_assay.evals.retrieval.clock import Spent
from rag_assay.evals.retrieval.context import Memory, RetrievalContext
from rag_assay.evals.retrieval.contract import OpenTransform, QueryTransform, Searcher
from rag_assay.evals.retrieval.fusion import SharedSearcher
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query, Trace
from rag_assay.evals.retrieval.ranking import Ranking
from rag_assay.evals.study.registry import read_retriever
from tests.fakes.indexing import build_index, query, read_by, searched, vector_of

TEXTS = ("ferry ferry quay", "ferry noon", "quay storm", "noon noon lamp", "lamp oil", "oil ferry lamp quay")
BOTH = {"fuse": {"of": [{"bm25": {"k": 5}}, {"dense": {"k": 5}}], "k": 4}}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return build_index(tmp_path_factory.mktemp("index"), TEXTS)


def recipe(written: Any) -> Any:
    return read_retriever(written)


def test_every_step_notes_its_candidates(index: OpenIndex) -> None:
    trace = Trace()
    chain = recipe([BOTH, {"graph": {"similarity": 0.1}}, {"top": {"k": 3}}, {"token_budget": {"tokens": 5}}])
    context = RetrievalContext(count=lambda texts: [len(text.split()) for text in texts])
    searched(chain, replace(query("ferry noon"), trace=trace), index, context)
    assert [(note.step, note.kind) for note in trace.steps] == [
        ("bm25", "arm"),
        ("dense", "arm"),
        ("fuse", "fuse"),
        ("graph", "rerank"),
        ("top", "cut"),
        ("token_budget", "budget"),
    ]
    assert trace.steps[0].rows.tolist() == searched(Bm25(k=5), query("ferry noon"), index).rows.tolist()


def test_a_retriever_by_itself_is_an_arm(index: OpenIndex) -> None:
    trace = Trace()
    part = SharedSearcher(recipe({"bm25": {}}), index, RetrievalContext())
    part.search(replace(query("ferry"), trace=trace))
    assert [(note.step, note.kind) for note in trace.steps] == [("bm25", "arm")]


def test_several_queries_are_fused_by_their_ranks(index: OpenIndex) -> None:
    asked = query("When is noon? Where is oil?")
    context = RetrievalContext(embed=lambda t: np.stack(list(map(vector_of, t))))
    chain = recipe([{"multi_query": {}}, {"bm25": {"k": 5}}])
    step = chain.steps[0]
    each = [searched(Bm25(k=5), one, index) for one in read_by(step, asked, index, context)]
    assert len(each) > 1
    points: dict[int, float] = {}
    for ranking in each:
        for place, row in enumerate(ranking.rows.tolist(), 1):
            points[row] = points.get(row, 0) + 1 / (60 + place)
    found = searched(chain, asked, index, context)
    assert dict(zip(found.rows.tolist(), found.scores.tolist(), strict=True)) == pytest.approx(
        dict(sorted(points.items(), key=lambda item: (-item[1], item[0]))[:5])
    )


class Counting(Searcher):
    """Keeps the texts that a searcher is asked."""

    def __init__(self, searcher: Searcher, calls: list[str]) -> None:
        self.searcher, self.calls = searcher, calls

    def search(self, query: Query) -> Ranking:
        self.calls.append(query.text)
        return self.searcher.search(query)


def test_an_arm_that_combinations_share_ranks_once(index: OpenIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    open_bm25 = Bm25.open

    def counted(self: Bm25, index: OpenIndex, context: RetrievalContext) -> Searcher:
        return Counting(open_bm25(self, index, context), calls)

    monkeypatch.setattr(Bm25, "open", counted)
    context = RetrievalContext(memory=Memory())
    one, other = recipe(BOTH), recipe({"fuse": {**BOTH["fuse"], "rrf": {"k": 1}}})
    alone = searched(other, query("ferry"), index)
    calls.clear()
    first = Trace()
    searched(one, replace(query("ferry"), trace=first), index, context)
    assert context.clock.saved == Spent()
    again = Trace()
    shared = searched(other, replace(query("ferry"), trace=again), index, context)
    assert calls == ["ferry"]
    assert context.clock.saved.seconds > 0  # what the arms took is counted as if they had ranked again
    assert shared.rows.tolist() == alone.rows.tolist()
    assert [note.step for note in again.steps] == [note.step for note in first.steps]
    searched(other, replace(query("ferry"), allowed=np.arange(6) > 1), index, context)
    assert calls == ["ferry", "ferry"]  # another filter is another question
    searched(other, replace(query("ferry"), remembered=False), index, context)
    assert calls == ["ferry"] * 3  # nothing is taken from memory


def test_memory_is_bounded(index: OpenIndex) -> None:
    memory = Memory(limit=8)
    for text in ("ferry", "noon", "oil", "lamp", "quay"):
        SharedSearcher(Bm25(k=3), index, RetrievalContext(memory=memory)).search(query(text))
        assert memory.rows <= 8
    assert memory.held


def test_a_filter_of_an_understanding_step_reaches_the_retriever(tmp_path: Path) -> None:
    dates = ["2024-01-01", "2023-01-01"]
    dated = build_index(tmp_path, ["ferry noon", "ferry quay"], columns={"published_at": dates})
    chain = recipe([{"time_frame": {}}, {"bm25": {}}])
    found = searched(
        chain,
        replace(query("Which articles about the ferry were published in 2023?"), asked_at="2024-06-01"),
        dated,
    )
    assert found.rows.tolist() == [1]


def test_what_comes_from_memory_has_its_trace(index: OpenIndex) -> None:
    context = RetrievalContext(memory=Memory())
    graph = recipe({"graph": {"of": BOTH, "similarity": 0.1, "k": 3}})
    searched(graph, query("ferry"), index, context)
    trace = Trace()
    searched(graph, replace(query("ferry"), trace=trace), index, context)
    assert [note.step for note in trace.steps] == ["bm25", "dense", "fuse", "graph"]


class Split(QueryTransform):
    """Asks twice: once among the first rows, once among the last ones."""

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenTransform:
        rows = np.arange(len(index))
        return OpenTransform(
            lambda query: [replace(query, allowed=rows < 2), replace(query, allowed=rows > 3)]
        )


class Mute(QueryTransform):
    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenTransform:
        return OpenTransform(lambda query: [])


@pytest.mark.parametrize("retriever", [{"bm25": {}}, BOTH, [{"bm25": {}}, {"top": {"k": 2}}]])
@pytest.mark.parametrize("memory", [None, Memory()])
def test_what_any_query_of_a_question_may_find_is_allowed(
    retriever: Any, memory: Memory | None, index: OpenIndex
) -> None:
    trace = Trace()
    asked = replace(query("ferry"), trace=trace)
    chain = recipe([{"multi_query": {}}, retriever])
    split = chain.model_copy(update={"steps": (Split(), *chain.steps[1:])})
    searched(split, asked, index, RetrievalContext(memory=memory))
    assert trace.allowed is not None
    assert trace.allowed.tolist() == [True, True, False, False, True, True]


def test_a_question_of_which_nothing_is_left_finds_nothing(index: OpenIndex) -> None:
    chain = recipe([{"multi_query": {}}, {"bm25": {}}, {"top": {}}])
    silent = chain.model_copy(update={"steps": (Mute(), *chain.steps[1:])})
    assert not len(searched(silent, query("ferry"), index))


WIDE: list[dict[str, Any]] = [{"bm25": {}}, {"neighbours": {"n": 1}}]


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        ({"fuse": {"of": [{"bm25": {}}, WIDE]}}, "retriever 2 delivers passages wider than chunks"),
        ({"fuse": {"of": [[WIDE, {"top": {"k": 3}}], {"bm25": {}}]}}, "retriever 1 delivers"),
        ({"graph": {"of": WIDE}}, "would undo `neighbours` in its `of`"),
        ([*WIDE, {"graph": {}}], "`graph` ranks chunks, and would undo `neighbours`"),
        ([WIDE, {"graph": {}}], "`graph` ranks chunks, and would undo `neighbours`"),
    ],
)
def test_what_would_undo_wider_passages_is_refused(recipe: Any, said: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(said)):
        read_retriever(recipe)


@pytest.mark.parametrize(
    "recipe", [[{"bm25": {}}, {"graph": {}}, {"neighbours": {"n": 1}}], [WIDE, {"document_order": {}}]]
)
def test_wider_passages_at_the_end_are_taken(recipe: Any) -> None:
    assert read_retriever(recipe).widens
