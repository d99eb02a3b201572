from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evals.retrieving import RetrieverRecipe
from evals.retrieving.bm25 import Bm25
from evals.retrieving.contract import Kit, Memory, Query, Ranking, Trace
from evals.retrieving.index import OpenIndex
from tests.fakes.indexing import build_index, query, vector_of

TEXTS = ("ferry ferry quay", "ferry noon", "quay storm", "noon noon lamp", "lamp oil", "oil ferry lamp quay")
BOTH = {"fuse": {"of": [{"bm25": {"k": 5}}, {"dense": {"k": 5}}], "k": 4}}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return build_index(tmp_path_factory.mktemp("index"), TEXTS)


def recipe(written: Any) -> Any:
    return RetrieverRecipe.model_validate(written)


def test_every_step_notes_its_candidates(index: OpenIndex) -> None:
    trace = Trace(depth=3)
    chain = recipe([BOTH, {"graph": {"similarity": 0.1}}, {"top": {"k": 3}}, {"token_budget": {"tokens": 5}}])
    chain.ranked(replace(query("ferry noon"), trace=trace), index)
    assert [(note.step, note.kind) for note in trace.steps] == [
        ("bm25", "arm"),
        ("dense", "arm"),
        ("fuse", "fuse"),
        ("graph", "rerank"),
        ("top", "cut"),
        ("token_budget", "budget"),
    ]
    assert max(len(note.rows) for note in trace.steps) == 3
    assert trace.steps[0].rows.tolist() == Bm25(k=3).rank(query("ferry noon"), index).rows.tolist()


def test_a_retriever_by_itself_is_an_arm(index: OpenIndex) -> None:
    trace = Trace()
    recipe({"bm25": {}}).ranked(replace(query("ferry"), trace=trace), index)
    assert [(note.step, note.kind) for note in trace.steps] == [("bm25", "arm")]


def test_several_queries_are_fused_by_their_ranks(index: OpenIndex) -> None:
    asked = replace(
        query("When is noon? Where is oil?"), kit=Kit(embed=lambda t: np.stack(list(map(vector_of, t))))
    )
    chain = recipe([{"multi_query": {}}, {"bm25": {"k": 5}}])
    step = chain.recipe.steps[0].recipe
    each = [Bm25(k=5).rank(one, index) for one in step.read(asked, index)]
    assert len(each) > 1
    points: dict[int, float] = {}
    for ranking in each:
        for place, row in enumerate(ranking.rows.tolist(), 1):
            points[row] = points.get(row, 0) + 1 / (60 + place)
    found = chain.recipe.rank(asked, index)
    assert dict(zip(found.rows.tolist(), found.scores.tolist(), strict=True)) == pytest.approx(
        dict(sorted(points.items(), key=lambda item: (-item[1], item[0]))[:5])
    )


def test_an_arm_that_combinations_share_ranks_once(index: OpenIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    rank = Bm25.rank

    def counted(self: Bm25, query: Query, index: OpenIndex) -> Ranking:
        calls.append(query.text)
        return rank(self, query, index)

    monkeypatch.setattr(Bm25, "rank", counted)
    kit = Kit(memory=Memory())
    one, other = recipe(BOTH), recipe({"fuse": {**BOTH["fuse"], "rrf": {"k": 1}}})
    alone = other.ranked(query("ferry"), index)
    calls.clear()
    first = Trace()
    one.ranked(replace(query("ferry"), kit=kit, trace=first), index)
    assert kit.clock.saved == 0
    again = Trace()
    shared = other.ranked(replace(query("ferry"), kit=kit, trace=again), index)
    assert calls == ["ferry"]
    assert kit.clock.saved > 0  # what the arms took is counted as if they had ranked again
    assert shared.rows.tolist() == alone.rows.tolist()
    assert [note.step for note in again.steps] == [note.step for note in first.steps]
    other.ranked(replace(query("ferry"), kit=kit, allowed=np.arange(6) > 1), index)
    assert calls == ["ferry", "ferry"]  # another filter is another question


def test_memory_is_bounded(index: OpenIndex) -> None:
    memory = Memory(limit=8)
    for text in ("ferry", "noon", "oil", "lamp", "quay"):
        Bm25(k=3).found(replace(query(text), kit=Kit(memory=memory)), index)
        assert memory.rows <= 8
    assert memory.held


def test_a_filter_of_an_understanding_step_reaches_the_retriever(tmp_path: Path) -> None:
    dates = ["2024-01-01", "2023-01-01"]
    dated = build_index(tmp_path, ["ferry noon", "ferry quay"], columns={"published_at": dates})
    chain = recipe([{"time_frame": {}}, {"bm25": {}}])
    found = chain.ranked(
        replace(query("Which articles about the ferry were published in 2023?"), asked_at="2024-06-01"), dated
    )
    assert found.rows.tolist() == [1]
