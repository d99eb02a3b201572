"""The judges of this folder in a whole study: their numbers are scores of its cells, and are paid once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest

from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.evals.judging.similarity import Similarity
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.schemas import Status
from tests.fakes.openai_server import FakeOpenAI, Received, Scripted, answer
from tests.fakes.town import PLAIN, Town, Variant

pytestmark = pytest.mark.models
QUOTE, SHORT = "tiny.t16.minilm.bm25.quote", "tiny.t16.minilm.bm25.short"


def respond(received: Received) -> Scripted:
    """Judge by the length of the answer: a short one is unsure, a long one is wordy and better."""
    user = str(received.body["messages"][-1]["content"])
    if received.body.get("logprobs"):
        yes = 0.25 if len(between(user, "answer")) < 40 else 0.75
        return answer("Yes", "length", tops={"Yes": yes, "No": 0.75 - yes + 0.25})
    if received.body["response_format"]["json_schema"]["name"] == "met":
        return answer(json.dumps({"reason": "Its length.", "met": len(between(user, "answer")) < 40}))
    sizes = [len(between(user, f"answer_{place}")) for place in (1, 2)]
    return answer(json.dumps({"reason": "It says more.", "better": "1" if sizes[0] > sizes[1] else "2"}))


def between(user: str, tag: str) -> str:
    (text,) = re.findall(rf"<{tag}>\n(.*?)\n</{tag}>", user, re.DOTALL)
    return str(text)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOpenAI]:
    with FakeOpenAI(respond=respond) as running:
        yield running


def study(server: FakeOpenAI, **more: Any) -> Variant:
    model = {"model": "openai/judge", "api_base": server.api_base}
    judges = {
        "sure": {"yes_no": {**model, "metrics": ["supported", "correct"]}},
        "style": {"criteria": {**model, "metrics": ["conciseness"], "scale": "binary", **more}},
        "duel": {"pairwise": {**model, "against": "t16.minilm.bm25.short"}},
        "near": {"similarity": {}},
    }
    generators = {
        "quote": {"extractive": {"passages": 2, "max_tokens": 40, "min_score": None}},
        "short": {"extractive": {"passages": 1, "max_tokens": 8, "min_score": None}},
    }
    cards = {name: {"mutations": 0} for name in judges}
    metrics = ["duel.win", "ndcg@10"]
    return {**PLAIN, "generators": generators, "judges": judges, "judge_cards": cards, "metrics": metrics}


def answers(town: Town, cell: str) -> dict[str, Any]:
    rows = read_parquet(town.bench.folder("answers", cell) / "answers.parquet")
    return {row["question_id"]: row for row in rows.iter_rows(named=True)}


def values(town: Town, metric: str, cell: str) -> dict[str, float]:
    rows = read_parquet(town.bench.folder("scores", cell) / "scores.parquet").filter(metric=metric)
    assert set(rows["status"]) <= {Status.OK}, rows
    return dict(rows.select("question_id", "value").iter_rows())


def test_their_numbers_are_scores_of_the_cells(town: Town, server: FakeOpenAI) -> None:
    data = town.run(study(server), "home")
    quoted, short = answers(town, QUOTE), answers(town, SHORT)
    texts = {cell: {name: row["answer"] for name, row in found.items()} for cell, found in
             ((QUOTE, quoted), (SHORT, short))}  # fmt: skip
    for cell, found in texts.items():
        unsure = {name: 0.25 if len(text) < 40 else 0.75 for name, text in found.items()}
        assert values(town, "sure.supported", cell) == pytest.approx(unsure)
        assert values(town, "sure.correct", cell) == pytest.approx(unsure)
        assert values(town, "style.conciseness", cell) == {n: float(v < 0.5) for n, v in unsure.items()}
    wins = {
        name: 0.5
        if text.split() == texts[SHORT][name].split()
        else float(len(text) > len(texts[SHORT][name]))
        for name, text in texts[QUOTE].items()
    }
    differing = sum(win == 1.0 for win in wins.values())
    assert differing, "the questions are such that answers differ"
    assert values(town, "duel.win", QUOTE) == wins
    assert set(values(town, "duel.win", SHORT).values()) == {0.5}, "the other cell against itself"
    board = data.leaderboard.filter(metric="duel.win")
    assert dict(board.select("cell", "rank").iter_rows()) == {QUOTE: 1, SHORT: 2}
    calls = {
        judge: [sum(judged(town, cell, judge)["calls"].drop_nulls()) for cell in (QUOTE, SHORT)]
        for judge in ("sure", "style", "duel", "near")
    }
    n = len(wins)
    assert calls == {"sure": [2 * n, 2 * n], "style": [n, n], "duel": [2 * differing, 0], "near": [0, 0]}


def judged(town: Town, cell: str, judge: str) -> pl.DataFrame:
    return read_parquet(town.bench.folder("judgements", f"{cell}.by.{judge}") / "judgements.parquet")


def test_the_similarities_are_those_of_the_embedder(town: Town, server: FakeOpenAI) -> None:
    data = town.run(study(server), "home")
    chunks = read_parquet(town.bench.folder("chunks", "ferries.t16") / "chunks.parquet")
    of_chunk = dict(chunks.select("chunk_id", "text").iter_rows())
    asked = dict(data.questions.select("question_id", "question").iter_rows())
    embedder = CachedEmbedder(Similarity().embeds_with, town.bench.home)
    found = answers(town, QUOTE)
    passage, baseline = (values(town, f"near.{name}", QUOTE) for name in ("passage", "passage_baseline"))
    assert set(passage) == set(baseline) == set(found)
    for name, row in found.items():
        passages = [of_chunk[one] for one in row["chunk_ids"]]
        vectors = embedder.passages([asked[name], row["answer"], *passages]).vectors
        near = vectors[2:] @ vectors[0]
        assert baseline[name] == pytest.approx(float(near.max()), abs=1e-5)
        assert passage[name] == pytest.approx(float(vectors[2:][int(np.argmax(near))] @ vectors[1]), abs=1e-5)


def test_a_second_run_asks_nothing_and_a_further_criterion_for_itself(town: Town, server: FakeOpenAI) -> None:
    town.build(study(server), "home")
    server.requests.clear()
    town.build(study(server), "home")
    assert (server.requests, town.built) == ([], set())
    town.build(study(server, criteria={"tone": "Is it polite?"}), "home")
    users = [str(one.body["messages"][-1]["content"]) for one in server.requests]
    assert users
    assert all(user.endswith("Criterion: Is it polite?") for user in users)
    rows = judged(town, QUOTE, "style")
    assert set(rows.filter(metric="tone")["cached"]) == {False}
    assert set(rows.filter(metric="conciseness")["cached"]) == {True}
