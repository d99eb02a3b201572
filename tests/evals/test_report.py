"""The report as a stage: written where people look for it, anew only where it would show something else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import dagster as dg
import polars as pl
import pytest

from rag_assay.assets.engine.definition import sync_all
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.reporting.figures.planes import risk_rows
from rag_assay.evals.reporting.page import other_rows
from rag_assay.evals.reporting.rows import report_data
from rag_assay.orchestration.study_definitions import definitions_of
from tests.fakes.tiny import TEXTS, Bench

MakeBench = Callable[..., Bench]
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}

pytestmark = pytest.mark.models


@pytest.fixture
def bench(make_bench: MakeBench) -> Bench:
    found = make_bench()
    found.build()
    return found


def test_a_report_is_a_page_and_the_rows_of_its_leaderboard(bench: Bench) -> None:
    outcome = bench.write_report()
    assert outcome.ok
    assert outcome.artifact is not None
    page, rows = bench.home.report("tiny"), bench.home.report_rows("tiny")
    data = report_data(bench.study, bench.home)
    assert outcome.artifact.meta["path"] == str(page)
    assert outcome.artifact.meta["verdict"] == " ".join(data.verdict.sentences)
    assert "Which retriever finds the ferry?" in page.read_text()
    shown = {
        (row["cell"], row["metric"]): row["value"] for row in json.loads(rows.read_text()) if row["cell"]
    }
    risks = {(row["cell"], row["metric"]): row["value"] for row in risk_rows(data)}
    assert {metric for _, metric in risks} == {"risk_coverage:abstention"}, (
        "the study's only metric of answers"
    )
    others = {(row["cell"], row["metric"]): row["value"] for row in other_rows(data) if row.get("cell")}
    assert shown == others | {
        (row["cell"], row["metric"]): row["value"] for row in data.leaderboard.iter_rows(named=True)
    }


def test_rankings_are_read_as_curves_of_context(bench: Bench) -> None:
    bench.write_report()
    data = report_data(bench.study, bench.home)
    assert data.contexts is not None
    assert data.contexts.height == 2 * 2, "two rankings, two questions with evidence"
    noon = data.contexts.filter((pl.col("question_id") == "noon") & (pl.col("cell").str.contains("bm25")))
    coverage = data.values.filter(
        (pl.col("metric") == "evidence_coverage@5")
        & (pl.col("question_id") == "noon")
        & pl.col("cell").is_in(noon["cell"].implode())
    )
    assert noon["value_5"].to_list() == coverage["value"].to_list()
    assert noon["at_4000"].to_list() == noon["value_10"].to_list()
    assert 0 < noon["characters_1"].item() <= noon["characters_10"].item()


def test_it_is_written_anew_only_where_it_would_show_something_else(
    bench: Bench, make_bench: MakeBench
) -> None:
    assert bench.write_report().computed
    page, rows = bench.home.report("tiny"), bench.home.report_rows("tiny")
    first = page.stat()
    again = bench.write_report()
    assert (again.ok, again.computed, page.stat().st_mtime_ns) == (True, False, first.st_mtime_ns)
    for lost in (page, rows):
        lost.unlink()
        assert bench.write_report().computed
        assert lost.exists()
    os.truncate(page, 100)
    assert bench.write_report().computed
    assert page.read_text().rstrip().endswith("</html>")
    described = make_bench({"Which retriever finds the ferry?": "Who finds the quay?"})
    assert described.write_report().computed
    assert "Who finds the quay?" in page.read_text()
    assert bench.write_report().computed, "what was described first is shown again"
    assert "Which retriever finds the ferry?" in page.read_text()


def test_what_failed_before_it_stands_in_it_and_then_no_longer(bench: Bench) -> None:
    stage = bench.stages["report"]
    stage.failures = ("1 of 2 embeddings failed, first a.b: no memory",)
    assert bench.write_report().computed
    assert "no memory" in bench.home.report("tiny").read_text()
    stage.failures = ()
    assert bench.write_report().computed
    assert "no memory" not in bench.home.report("tiny").read_text()


def test_a_warning_of_the_corpus_is_told_though_no_score_moved(bench: Bench) -> None:
    bench.write_report()
    documents = bench.artifact("documents", "docs")
    documents.meta["dropped_by_reason"] = {"too short": 3}
    bench.store.commit(documents)
    assert bench.write_report().computed
    assert "too short" in bench.home.report("tiny").read_text()


def test_one_that_is_not_of_now_is_not_written(bench: Bench) -> None:
    bench.give({**TEXTS, "ferry": "The ferry leaves at six."})
    bench.build("chunks", "embeddings", "indexes", "questions")
    outcome = bench.write_report()
    assert outcome.error is not None
    assert "`assay run" not in (outcome.error.partition("; run ")[0])
    assert "made of other documents or questions than the current ones" in outcome.error
    assert not bench.home.report("tiny").exists()


def test_a_run_from_the_dagster_ui_writes_it(bench: Bench) -> None:
    """A backfill of all gives each stage a run of its own; these are its last two."""
    sync_all({name: stage.keys() for name, stage in bench.stages.items()}, BuildContext(bench.home))
    job = definitions_of([bench.study]).resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        for name in ("leaderboard", "report"):
            done = job.execute_in_process(
                instance=instance,
                partition_key="tiny",
                asset_selection=[dg.AssetKey(name)],
                run_config=QUIET,
            )
            assert done.success
        found = instance.get_latest_materialization_event(dg.AssetKey("report"))
    assert found is not None
    assert found.asset_materialization is not None
    shown = found.asset_materialization.metadata
    assert shown["path"].value == str(bench.home.report("tiny"))
    assert str(shown["verdict"].value).endswith(".")
    assert "</html>" in bench.home.report("tiny").read_text()
