"""Scores of the real stages: a broken metric fails only itself, and every question counts in every cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from rag_assay.evals.metrics.contract import Case, MetricContext, Score, score_rows
from rag_assay.evals.metrics.ranking_metrics import Ndcg
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.schemas import SCORES, Status
from tests.fakes.cases import CONTEXT, case, question, ranked
from tests.fakes.tiny import Bench

MakeBench = Callable[..., Bench]
CELL = "tiny.t16.minilm.bm25.extractive"


class Breaks(Ndcg):
    """Raises on whatever it is given."""

    def measure(self, cases: Any, context: Any) -> list[Score]:
        raise RuntimeError("no weights")


def test_a_metric_that_raises_fails_all_of_its_rows_and_says_why() -> None:
    cases = [case(), case(ranked=ranked(Status.TIMEOUT)), case(question=question(gold="none"))]
    rows, broke = score_rows(Breaks(10), cases, CONTEXT)
    assert broke == "ndcg@10: RuntimeError: no weights"
    assert len(rows) == 2  # it does not apply to the third
    assert all((row["status"], row["value"], row["reason"]) == (Status.ERROR, None, broke) for row in rows)


def test_a_sound_metric_gives_a_row_a_question() -> None:
    rows, broke = score_rows(Ndcg(10), [case(), case(ranked=ranked(Status.TIMEOUT))], CONTEXT)
    assert broke is None
    assert [(row["status"], row["value"]) for row in rows] == [(Status.OK, 1.0), (Status.TIMEOUT, None)]


def test_a_metric_that_loses_a_case_is_noticed() -> None:
    class Loses(Ndcg):
        def measure(self, cases: Any, context: Any) -> list[Score]:
            return super().measure(cases, context)[1:]

    with pytest.raises(ValueError, match="shorter"):
        score_rows(Loses(10), [case(), case()], CONTEXT)


def rows(bench: Bench, key: str = CELL) -> pl.DataFrame:
    found = read_parquet(bench.folder("scores", key) / "scores.parquet")
    assert found.schema == pl.Schema(SCORES)
    return found


def value(found: pl.DataFrame, metric: str, question_id: str) -> Any:
    return found.row(
        by_predicate=(pl.col("metric") == metric) & (pl.col("question_id") == question_id), named=True
    )


@pytest.mark.models
def test_the_whole_way_from_documents_to_the_leaderboard(make_bench: MakeBench) -> None:
    bench = make_bench()
    outcomes = bench.build()
    assert all(found.ok for stage in outcomes.values() for found in stage), outcomes
    found = rows(bench)
    by_metric = {name: group.height for (name,), group in found.group_by("metric")}
    # Two questions have evidence, all three can be refused or answered and take time.
    assert by_metric == {"ndcg@10": 2, "evidence_coverage@5": 2, "abstention": 3, "retrieval_latency": 3}
    assert value(found, "ndcg@10", "noon")["value"] == 1.0
    assert value(found, "evidence_coverage@5", "noon")["value"] == 1.0
    assert (
        value(found, "ndcg@10", "tickets")["value"] == 1.0
    )  # one piece of its evidence is lost, any suffices
    board = read_parquet(bench.folder("leaderboard", "tiny") / "leaderboard.parquet")
    assert {(row["metric"], row["n"]) for row in board.iter_rows(named=True)} == {
        ("ndcg@10", 2),
        ("evidence_coverage@5", 2),
        ("abstention", 3),
        ("retrieval_latency", 3),
    }
    assert all(check.passed for found_ in outcomes["leaderboard"] for check in found_.checks)
    assert board.filter(pl.col("metric") == "ndcg@10")["rank"].to_list() == [1, 1]
    again = bench.build()
    assert not any(found_.computed for stage in again.values() for found_ in stage)


@pytest.mark.models
def test_a_broken_metric_leaves_the_cell_incomplete_and_is_tried_again(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench()
    bench.build("chunks", "embeddings", "indexes", "questions", "rankings", "answers")

    def breaks(self: Ndcg, cases: list[Case], context: MetricContext) -> list[Score]:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Ndcg, "measure", breaks)
        outcome = next(found for found in bench.build("scores")["scores"] if found.key == CELL)
    assert not outcome.ok
    assert outcome.error == "ndcg@10: OSError: the disk is full"
    found = rows(bench)
    assert found.filter(pl.col("metric") == "ndcg@10")["status"].to_list() == ["error", "error"]
    assert found.filter(pl.col("metric") == "abstention")["value"].null_count() == 0
    (board,) = bench.build("leaderboard")["leaderboard"]
    assert board.ok
    assert not next(check for check in board.checks if check.name == "covered").passed

    mended = next(found for found in bench.build("scores")["scores"] if found.key == CELL)
    assert mended.ok
    assert mended.computed
    assert value(rows(bench), "ndcg@10", "noon")["value"] == 1.0


@pytest.mark.models
def test_a_failed_ranking_row_is_a_row_of_every_retrieval_metric(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.build("chunks", "embeddings", "indexes", "questions", "rankings", "answers")

    def failed(frame: pl.DataFrame) -> pl.DataFrame:
        hit = pl.col("question_id") == "noon"
        return frame.with_columns(
            pl.when(hit).then(pl.lit("error")).otherwise(pl.col("status")).alias("status"),
            pl.when(hit).then(pl.lit("it broke")).otherwise(pl.col("reason")).alias("reason"),
            pl.when(hit).then(None).otherwise(pl.col("seconds")).alias("seconds"),
        )

    bench.edit("rankings", "tiny.t16.minilm.bm25", "ranked.parquet", failed)
    bench.build("scores")
    found = rows(bench)
    for metric in ("ndcg@10", "evidence_coverage@5", "retrieval_latency"):
        row = value(found, metric, "noon")
        assert (row["status"], row["value"], row["reason"]) == ("error", None, "it broke")
