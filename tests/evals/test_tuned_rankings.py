"""Weights chosen on the train questions of a study, through the real stages of a tiny corpus."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from rag_assay.evals.pipeline.ranking_rows import RankingRows
from rag_assay.evals.reporting.rows import report_data
from rag_assay.evals.study.grid import Grid, read_questions_of
from rag_assay.evals.study.study_file import read_study
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.tables import sync
from tests.evals.conftest import MakeBench
from tests.fakes.tiny import Bench, write_study

KEY = "tiny.t16.minilm.tuned"
TUNED = "{fuse: {rrf: {}, of: [{bm25: {k: 20}}, {dense: {k: 20}}], weights: tuned, k: 5}}"
BM25, SETS = "  bm25: {bm25: {k: 5}}\n", "  - file: ferry.questions.yaml\n"
RETRIEVERS = {
    BM25: f"  tuned: {TUNED}\n",
    SETS: f"{SETS}  - {{file: train.questions.yaml, use: train}}\n",
}
# The words of these questions stand in no document: only the dense arm can find what they ask for.
TRAIN = """\
question_set: train
language: en
questions:
  - id: train-1
    question: Whence comes heating for workplaces beside boats?
    evidence: [{url: "https://x.example/heat", quote: "heated by a pump that draws warmth"}]
  - id: train-2
    question: Who switches on illumination at dusk?
    evidence: [{url: "https://x.example/lamp", quote: "The lamp is lit at sunset"}]
  - id: train-3
    question: Nobody knows what?
    answerable: false
"""


def tuned_bench(make_bench: MakeBench, tmp_path: Path, train: str = TRAIN) -> Bench:
    (tmp_path / "study").mkdir(exist_ok=True)
    (tmp_path / "study" / "train.questions.yaml").write_text(train)
    return make_bench(RETRIEVERS)


@pytest.mark.models
def test_weights_are_chosen_on_train_questions_and_test_questions_alone_are_measured(
    make_bench: MakeBench, tmp_path: Path
) -> None:
    bench = tuned_bench(make_bench, tmp_path)
    built = bench.build()
    assert all(outcome.ok for outcomes in built.values() for outcome in outcomes)
    (chosen,) = bench.artifact("rankings", KEY).meta["tuned"]
    assert chosen["questions"] == 2, "the one without evidence tells nothing"
    assert chosen["arms"] == ["bm25", "dense"]
    assert sum(chosen["weights"]) == pytest.approx(1)
    assert chosen["weights"][1] > chosen["weights"][0], "only the dense arm found anything"
    assert chosen["metric"] == "ndcg@10"
    ranked = read_parquet(bench.folder("rankings", KEY) / "ranked.parquet")
    asked = {row["question_id"] for row in read_questions_of(bench.study)}
    assert set(ranked["question_id"]) == asked
    assert not any(question.startswith("train") for question in asked)
    scores = read_parquet(bench.folder("scores", f"{KEY}.extractive") / "scores.parquet")
    assert set(scores["question_id"]) <= asked
    with connect(bench.home.database) as connection:
        for stage in ("questions", "rankings", "answers", "scores", "leaderboard"):
            sync(connection, bench.store, stage, bench.stages[stage].keys())
    data = report_data(bench.study, bench.home)
    assert "were chosen on 2 train questions, by ndcg@10" in (data.recipes or {})["tuned"]
    assert "left out" not in (data.recipes or {})["tuned"]
    assert data.losses is not None
    assert set(data.losses["question_id"]) <= asked


@pytest.mark.models
def test_a_ranking_that_fails_after_tuning_leaves_nothing_to_the_next(
    make_bench: MakeBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both rankings are built by one run; the plain one comes after the tuned one that failed."""
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "train.questions.yaml").write_text(TRAIN)
    bench = make_bench({**RETRIEVERS, BM25: f"  atuned: {TUNED}\n  btuned: {TUNED}\n{BM25}"})
    write = RankingRows.write

    def fails_once(*given: object) -> None:
        monkeypatch.setattr(RankingRows, "write", write)
        raise OSError("the disk is full")

    monkeypatch.setattr(RankingRows, "write", fails_once)
    built = bench.build("chunks", "embeddings", "indexes", "questions", "rankings")
    failed = {outcome.key for outcome in built["rankings"] if not outcome.ok}
    assert failed == {"tiny.t16.minilm.atuned"}
    plain = bench.artifact("rankings", "tiny.t16.minilm.bm25").meta
    assert "tuned" not in plain
    assert "train_questions_left_out" not in plain
    assert len(bench.artifact("rankings", "tiny.t16.minilm.btuned").meta["tuned"]) == 1


@pytest.mark.models
@pytest.mark.parametrize("primary", ["evidence_coverage@3", "mrr@5"])
def test_what_is_told_of_tuning_is_what_would_be_reported(
    make_bench: MakeBench, tmp_path: Path, primary: str
) -> None:
    """The same questions as train and as test questions: the chosen weights, asked, give what was told."""
    bench = tuned_bench(make_bench, tmp_path)
    metrics = next(line for line in bench.study.path.read_text().splitlines() if line.startswith("metrics:"))
    changes = {**RETRIEVERS, metrics: f"metrics: [{primary}]"}
    bench = make_bench(changes)
    bench.build("chunks", "embeddings", "indexes", "questions", "rankings")
    (chosen,) = bench.artifact("rankings", KEY).meta["tuned"]
    assert chosen["metric"] == primary
    weights = f"weights: [{chosen['weights'][0]}, {chosen['weights'][1]}]"
    asked = {
        BM25: RETRIEVERS[BM25].replace("weights: tuned", weights),
        SETS: "  - file: train.questions.yaml\n",
    }
    bench = make_bench({**asked, metrics: changes[metrics]})
    bench.build()
    scores = read_parquet(bench.folder("scores", f"{KEY}.extractive") / "scores.parquet")
    assert scores.filter(metric=primary)["value"].mean() == pytest.approx(chosen["value"], abs=1e-9)


@pytest.mark.models
def test_another_train_question_makes_just_the_tuned_ranking_stale(
    make_bench: MakeBench, tmp_path: Path
) -> None:
    bench = tuned_bench(make_bench, tmp_path)
    bench.build()
    again = tuned_bench(make_bench, tmp_path, TRAIN.replace("at dusk", "in the evening"))
    built = again.build("chunks", "embeddings", "indexes", "questions", "rankings")
    assert {o.key for o in built["rankings"] if o.computed} == {KEY}


@pytest.mark.models
def test_a_test_question_under_another_id_is_not_tuned_on(make_bench: MakeBench, tmp_path: Path) -> None:
    leaking = """\
  - id: train-4
    question: when does the ferry leave the harbour
    evidence: [{url: "https://x.example/ferry", quote: "The ferry leaves the harbour at noon."}]
"""
    bench = tuned_bench(make_bench, tmp_path, TRAIN + leaking)
    bench.build("chunks", "embeddings", "indexes", "questions", "rankings")
    (chosen,) = bench.artifact("rankings", KEY).meta["tuned"]
    assert chosen["questions"] == 2, "and not the fourth, which is a test question"
    assert bench.artifact("rankings", KEY).meta["train_questions_left_out"] == 1


@pytest.mark.models
def test_losses_are_stored_for_every_piece_of_evidence(make_bench: MakeBench, tmp_path: Path) -> None:
    bench = make_bench()
    bench.build()
    losses = read_parquet(bench.folder("rankings", "tiny.t16.minilm.dense") / "losses.parquet")
    by_question = dict(losses.group_by("question_id").agg(pl.col("lost_at")).iter_rows())
    assert by_question["noon"] == [None], "found"
    assert sorted(map(str, by_question["tickets"])) == ["None", "corpus"], "the other page was never there"
    assert "captain" not in by_question, "nothing to lose"


def test_tuning_needs_train_questions(tmp_path: Path) -> None:
    changes = {BM25: RETRIEVERS[BM25]}
    with pytest.raises(InputError, match=r"tuned.*needs train questions: add a set with `use: train`"):
        read_study(write_study(tmp_path, changes))


def test_a_study_asks_at_least_one_set(tmp_path: Path) -> None:
    changes = {"  - file: ferry.questions.yaml": "  - {file: ferry.questions.yaml, use: train}"}
    with pytest.raises(InputError, match="all questions are for training"):
        read_study(write_study(tmp_path, changes))


def test_a_question_is_asked_or_trained_on(tmp_path: Path) -> None:
    path = write_study(tmp_path, RETRIEVERS)
    (tmp_path / "train.questions.yaml").write_text(TRAIN.replace("train-1", "noon"))
    with pytest.raises(InputError, match="the question id noon stands in"):
        read_questions_of(read_study(path))
    (tmp_path / "train.questions.yaml").write_text(TRAIN)
    study = read_study(path)
    assert len(read_questions_of(study)) == 3
    grid = Grid([study])
    assert grid.set_keys("tiny") == ["ferries.ferry"]
    assert grid.train_keys("tiny") == ["ferries.train"]
