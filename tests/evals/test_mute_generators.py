"""A generator without answers cannot win by the ranking that it was given, whatever the study measures."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from rag_assay.evals import answers
from rag_assay.evals.reporting.display import percent
from rag_assay.evals.reporting.rows import report_data
from rag_assay.evals.reporting.trust import trust_lines
from rag_assay.evals.study.complexity import below_gate, coverages
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.tables import rebuild
from tests.fakes.tiny import QUESTIONS, Bench

MakeBench = Callable[..., Bench]
MUTE = "tiny.t16.minilm.bm25.extractive"
BEFORE = ("chunks", "embeddings", "indexes", "questions", "rankings", "answers")
METRICS = "metrics: [ndcg@10, evidence_coverage@5, abstention, retrieval_latency]"

pytestmark = pytest.mark.models


def with_status(status: str, *questions: str) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Let the answers to these questions (all, unless named) have ended so."""
    chosen = pl.col("question_id").is_in(questions) if questions else pl.lit(True)
    reason = pl.when(chosen).then(pl.lit("Incorrect API key")).otherwise("reason")
    text = pl.when(chosen & pl.lit(status != "refused")).then(None).otherwise("answer")
    return lambda rows: rows.with_columns(
        status=pl.when(chosen).then(pl.lit(status)).otherwise("status"), reason=reason, answer=text
    )


@pytest.mark.parametrize("metrics", [METRICS, "metrics: [ndcg@10]"], ids=["all", "no answer metric"])
@pytest.mark.parametrize(
    ("change", "answered"),
    [
        (with_status("error"), 0.0),
        (with_status("timeout", "noon"), None),
        (with_status("refused"), 0.0),
    ],
    ids=["all failed", "some failed", "all refused"],
)
def test_a_cell_is_ranked_by_what_it_is_for(
    make_bench: MakeBench,
    metrics: str,
    change: Callable[[pl.DataFrame], pl.DataFrame],
    answered: float | None,
) -> None:
    bench = make_bench({METRICS: metrics})
    bench.build(*BEFORE)
    bench.edit("answers", MUTE, "answers.parquet", change)
    bench.build("scores", "leaderboard")
    board = read_parquet(bench.folder("leaderboard", "tiny") / "leaderboard.parquet")
    mute = board.filter((pl.col("cell") == MUTE) & (pl.col("metric") == "ndcg@10")).row(0, named=True)
    other = board.filter((pl.col("cell") != MUTE) & (pl.col("metric") == "ndcg@10")).row(0, named=True)
    assert (mute["rank"], other["rank"]) == (None, 1)
    assert mute["coverage"] == 1, "the ranking of its questions is there"
    assert mute["answered"] < 0.98
    assert answered is None or mute["answered"] == answered
    assert other["answered"] == 1
    checks = {check["name"]: check for check in bench.artifact("leaderboard", "tiny").meta["checks"]}
    assert not checks["covered"]["passed"]
    assert checks["covered"]["metadata"]["cells"] == [MUTE]
    rebuild(bench.home)
    data = report_data(bench.study, bench.home, with_hits=False)
    assert data.verdict.sentences[1].startswith("It is the only pipeline with a rank: nDCG @ 10")
    below = below_gate(coverages(data.leaderboard, data.unmeasured))
    assert below["cell"].to_list() == checks["covered"]["metadata"]["cells"]
    assert below["share"].item() <= mute["answered"]
    (trusted,) = [one for one in trust_lines(data) if one.name == "Coverage"]
    assert trusted.state == "look"
    assert f"below 98 %: bm25 {percent(below['share'].item())} (" in trusted.text


@pytest.mark.parametrize(("status", "told"), [("parse_failed", "gave no text"), ("truncated", "were cut")])
def test_answers_that_no_further_run_will_mend_are_told(
    make_bench: MakeBench, status: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = answers._row

    def cut(question: dict[str, Any], *others: Any) -> dict[str, Any]:
        return made(question, *others) | {"status": status, "reason": "why"}

    monkeypatch.setattr(answers, "_row", cut)
    bench = make_bench()
    bench.build()
    rebuild(bench.home)
    notes = report_data(bench.study, bench.home, with_hits=False).notes
    number = bench.artifact("answers", MUTE).meta["questions"]
    assert f"answers of {MUTE}: {number} {told}, of {number}" in notes


def test_without_generators_a_cell_needs_no_answers(make_bench: MakeBench) -> None:
    generators = "generators:\n  extractive: {extractive: {passages: 2, max_tokens: 40}}\n"
    bench = make_bench({generators: "", METRICS: "metrics: [ndcg@10, evidence_coverage@5]"})
    bench.build()
    board = read_parquet(bench.folder("leaderboard", "tiny") / "leaderboard.parquet")
    assert board["answered"].null_count() == len(board)
    assert board["rank"].null_count() == 0


def test_a_database_of_an_earlier_version_gets_the_columns(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.build()
    rebuild(bench.home)
    with connect(bench.home.database) as connection:  # as it was before
        connection.execute("DELETE FROM migrations WHERE name = 'm005_comparison.sql'")
        for column in ("leader", "difference", "difference_low", "difference_high", "p", "tied", "answered"):
            connection.execute(f"ALTER TABLE leaderboard DROP COLUMN {column}")
        connection.execute("CREATE OR REPLACE VIEW current_leaderboard AS SELECT * FROM leaderboard")
    with connect(bench.home.database) as connection:
        rows = connection.execute("SELECT leader, tied, answered FROM current_leaderboard").fetchall()
    assert set(rows) == {(None, None, None)}


def test_where_no_evidence_is_quoted_the_next_metric_ranks(make_bench: MakeBench) -> None:
    quoted = re.compile(r', quote: "[^"]*"')
    first = "metrics: [evidence_coverage@5, ndcg@10, abstention, retrieval_latency]"
    bench = make_bench({METRICS: first}, quoted.sub("", QUESTIONS))
    bench.build()
    rebuild(bench.home)
    data = report_data(bench.study, bench.home, with_hits=False)
    assert data.primary.name == "ndcg@10"
    assert "It leads by nDCG @ 10" in data.verdict.sentences[1]
    assert data.notes[0] == (
        "Evidence coverage @ 5 applies to none of the questions: the cells are ranked by nDCG @ 10"
    )
    assert "verdict" in bench.artifact("leaderboard", "tiny").meta
