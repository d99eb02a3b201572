"""Gates: how they are written, and what they hold of a leaderboard."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import polars as pl
import pytest

from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.thresholds import MetricGate, gate_results, not_measured, read_gates
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.warehouse.errors import InputError
from tests.fakes.report_data import report_data

STUDY = Path(__file__).parents[3] / "evals/studies/demo.yaml"


@cache
def data() -> ReportData:
    return report_data(n_questions=20, chunkings=2, retrievers=2, generators=1)


def leader() -> str:
    return str(data().leaderboard.filter(pl.col("subset") == "all")["leader"][0])


@pytest.fixture(scope="module")
def study() -> Study:
    return read_study(STUDY)


def value(metric: str, cell: str | None = None, column: str = "value") -> float:
    rows = data().leaderboard.filter((pl.col("metric") == metric) & (pl.col("cell") == (cell or leader())))
    return float(rows[column][0])


def held(*gates: MetricGate, board: pl.DataFrame | None = None) -> list[tuple[bool, str]]:
    found = gate_results(gates, data().leaderboard if board is None else board, data().scores, leader())
    return [(one.passed, one.sentence) for one in found]


def test_gates_are_read_with_the_metrics_and_cells_of_the_study(study: Study) -> None:
    first = study.metrics[0]
    cell = study.cells()[0].name
    short = cell.partition(".")[2]
    gates = read_gates(
        [f"{first}=0.5", f"{first}:low=0.4", f"{first}@{short}=0.3", f"{first}@{cell}:low=0.2"], study
    )
    assert [(one.metric, one.cell, one.on, one.limit) for one in gates] == [
        (first, None, "value", 0.5),
        (first, None, "low", 0.4),
        (first, cell, "value", 0.3),
        (first, cell, "low", 0.2),
    ]
    latency = next(name for name in study.measured if not study.metric(name).higher_is_better)
    (gate,) = read_gates([f"{latency}:high=3"], study)
    assert (gate.on, gate.higher_is_better) == ("high", False)
    with pytest.raises(InputError, match="its worse end is `:high`"):
        read_gates([f"{latency}:low=3"], study)


def test_all_that_is_wrong_with_gates_is_said_at_once(study: Study) -> None:
    first = study.metrics[0]
    swapped = first[1] + first[0] + first[2:]
    wrong = [swapped + "=0.5", f"{first}", "=3", f"{first}=high", f"{first}=nan", f"{first}@nowhere=0.1"]
    with pytest.raises(InputError) as caught:
        read_gates(wrong, study)
    findings = caught.value.findings
    assert len(findings) == len(wrong)
    assert f"did you mean `{first}`?" in findings[0]
    assert "'high' is not a number" in findings[3]
    assert "'nan' is not a number" in findings[4]
    assert "unknown cell 'nowhere'" in findings[5]


def test_a_gate_is_held_against_the_leader_or_a_cell_at_the_value_or_the_worse_end() -> None:
    found = value("ndcg@10")
    low = value("ndcg@10", column="low")
    assert low < found
    assert held(MetricGate("ndcg@10", found), MetricGate("ndcg@10", found + 1e-9)) == [
        (True, f"gate passed: ndcg@10 of the leader is at least {found:.3f}: {found:.3f} ({leader()})"),
        (False, f"gate failed: ndcg@10 of the leader is at least {found:.3f}: {leader()} has {found:.3f}"),
    ]
    assert [
        ok for ok, _ in held(MetricGate("ndcg@10", found, on="low"), MetricGate("ndcg@10", low, on="low"))
    ] == [
        False,
        True,
    ]
    other = next(cell for cell in data().leaderboard["cell"] if cell != leader())
    slow = value("latency", other)
    gates = [MetricGate("latency", slow * factor, False, "s", other) for factor in (0.5, 2.0)]
    assert [ok for ok, _ in held(*gates)] == [False, True]
    high = MetricGate("latency", value("latency", other, "high"), False, "s", other, "high")
    assert held(high)[0][0]


def test_what_has_no_value_fails_with_its_reason_and_never_as_a_zero() -> None:
    none = pl.col("metric") == "hit_rate@5"
    empty = data().leaderboard.with_columns(
        pl.when(none).then(None).otherwise(pl.col(name)).alias(name) for name in ("value", "low", "high")
    )
    passed, sentence = held(MetricGate("hit_rate@5", 0.0), board=empty)[0]
    assert not passed
    assert sentence.endswith(f"{leader()} has no value: it was not run, for what it needs failed")
    thin = data().leaderboard.with_columns(coverage=pl.lit(0.5))
    assert "50 % of the questions only" in held(MetricGate("hit_rate@5", 0.0), board=thin)[0][1]
    assert held(MetricGate("hit_rate@5", 0.0, whole=False), board=thin)[0][0], "people score a sample"
    (unled,) = gate_results([MetricGate("hit_rate@5", 0.0)], data().leaderboard, data().scores, None)
    assert "no cell leads" in unled.sentence
    assert "is not measured by mrr@3" in held(MetricGate("mrr@3", 0.0))[0][1]
    uncertain = data().leaderboard.with_columns(low=pl.lit(None, pl.Float64))
    assert "has no interval" in held(MetricGate("hit_rate@5", 0.0, on="low"), board=uncertain)[0][1]
    assert not not_measured([MetricGate("hit_rate@5", 0.0)], "gone")[0].passed


def test_the_reason_of_a_missing_value_is_the_most_frequent_one() -> None:
    of = (pl.col("cell") == leader()) & (pl.col("metric") == "ndcg@10")
    row = pl.int_range(pl.len()).over("cell", "metric")
    status = pl.when(row < 3).then(pl.lit("timeout")).otherwise(pl.lit("error"))
    broken = data().scores.with_columns(
        value=pl.when(of & (row < 5)).then(None).otherwise(pl.col("value")),
        status=pl.when(of & (row < 5)).then(status).otherwise(pl.col("status")),
        reason=pl.when(of & (row < 3)).then(pl.lit("60 s")).otherwise(pl.col("reason")),
    )
    board = data().leaderboard.with_columns(coverage=pl.lit(0.75))
    (found,) = gate_results([MetricGate("ndcg@10", 0.0)], board, broken, leader())
    assert found.reason == f"{leader()} has a value for 75 % of the questions only (3 × timeout: 60 s)"
