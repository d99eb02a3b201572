"""Gates: what a metric of the leader, or of a named cell, must reach for a run to pass."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from rag_assay.evals.metrics.contract import Metric
from rag_assay.evals.reporting.display import number, percent, quantity, truncate
from rag_assay.evals.rubrics.human_rating_metrics import PeopleScores
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.schemas import MIN_COVERAGE
from rag_assay.warehouse.suggestions import did_you_mean

OPTION = "--fail-under"
ENDS = (":low", ":high")
REASON = 300  # characters of a reason that are passed on
On = Literal["value", "low", "high"]


@dataclass(frozen=True)
class MetricGate:
    """A limit on a metric.

    limit: the least value that passes; the most where lower values are better
    cell: None: the leader
    on: the value itself, or the worse end of its interval
    whole: whether (nearly) all questions need a value; not so for human ratings of a sample
    """

    metric: str
    limit: float
    higher_is_better: bool = True
    unit: str = ""
    cell: str | None = None
    on: On = "value"
    whole: bool = True

    @property
    def name(self) -> str:
        """
        >>> MetricGate("ndcg@10", 0.7, on="low").name
        'ndcg@10 (lower end) of the leader is at least 0.700'
        """
        end = {"value": "", "low": " (lower end)", "high": " (upper end)"}[self.on]
        bound = "at least" if self.higher_is_better else "at most"
        limit = quantity(self.limit, self.unit)
        return f"{self.metric}{end} of {self.cell or 'the leader'} is {bound} {limit}"

    def holds(self, value: float) -> bool:
        return value >= self.limit if self.higher_is_better else value <= self.limit


@dataclass(frozen=True)
class GateResult:
    """cell, value: compared with the limit, if any; reason: why it failed"""

    gate: MetricGate
    cell: str | None = None
    value: float | None = None
    reason: str = ""

    @property
    def passed(self) -> bool:
        return not self.reason

    @property
    def sentence(self) -> str:
        if self.passed:
            whose = "" if self.gate.cell else f" ({self.cell})"
            return f"gate passed: {self.gate.name}: {number(self.value, self.gate.unit)}{whose}"
        return f"gate failed: {self.gate.name}: {self.reason}"


def read_gates(written: Sequence[str], study: Study) -> tuple[MetricGate, ...]:
    """Read `METRIC=VALUE` or `METRIC@CELL:low=VALUE`; InputError: all that cannot be read or is unknown."""
    findings: list[str] = []
    gates = []
    for text in dict.fromkeys(written):
        try:
            gates.append(_read(text, study))
        except InputError as error:
            findings += error.findings
    if findings:
        raise InputError(*findings)
    return tuple(gates)


def _read(text: str, study: Study) -> MetricGate:
    left, equals, right = text.rpartition("=")
    if not equals or not left:
        raise _wrong(text, "write METRIC=VALUE, METRIC:low=VALUE or METRIC@CELL=VALUE")
    try:
        limit = float(right)
    except ValueError:
        limit = math.nan
    if not math.isfinite(limit):
        raise _wrong(text, f"{right.strip()!r} is not a number")
    end = next((one for one in ENDS if left.strip().endswith(one)), "")
    named = left.strip().removesuffix(end)
    name = _metric_in(named, study.measured)
    if name is None:
        meant = named if named.count("@") < 2 else named.rpartition("@")[0]
        raise _wrong(text, f"unknown metric {meant!r}; {did_you_mean(meant, study.measured)}")
    metric = study.metric(name)
    cell = named.removeprefix(name).removeprefix("@")
    return MetricGate(
        name,
        limit,
        metric.higher_is_better,
        metric.unit,
        _cell(text, cell, study) if named != name else None,
        _end(text, end, metric),
        whole=not isinstance(metric, PeopleScores),
    )


def _metric_in(named: str, known: Collection[str]) -> str | None:
    """Return the metric before `@CELL`; the longest match, since metric names contain `@`."""
    fitting = [name for name in known if named == name or named.startswith(f"{name}@")]
    return max(fitting, key=len, default=None)


def _cell(text: str, name: str, study: Study) -> str:
    cells = {cell.name for cell in study.cells()}
    if name in cells:
        return name
    if f"{study.study}.{name}" in cells:
        return f"{study.study}.{name}"
    short = sorted(cell.partition(".")[2] for cell in cells)
    raise _wrong(text, f"unknown cell {name!r}; {did_you_mean(name, short)}")


def _end(text: str, end: str, metric: Metric) -> On:
    worse: On = "low" if metric.higher_is_better else "high"
    if end and end != f":{worse}":
        better = "higher" if metric.higher_is_better else "lower"
        raise _wrong(text, f"{better} values of {metric.name} are better, so its worse end is `:{worse}`")
    return worse if end else "value"


def _wrong(text: str, what: str) -> InputError:
    return InputError(f"{OPTION} {truncate(text, REASON)}: {what}")


def gate_results(
    gates: Sequence[MetricGate], board: pl.DataFrame, scores: pl.DataFrame, leader: str | None
) -> list[GateResult]:
    """board: schemas.LEADERBOARD; scores: schemas.SCORES with `cell`, for the reasons of missing values"""
    return [_result(gate, board, scores, leader) for gate in gates]


def not_measured(gates: Sequence[MetricGate], why: str) -> list[GateResult]:
    """Return gates as failed because there is no leaderboard."""
    return [GateResult(gate, gate.cell, None, why) for gate in gates]


def _result(gate: MetricGate, board: pl.DataFrame, scores: pl.DataFrame, leader: str | None) -> GateResult:
    cell = gate.cell or leader
    if cell is None:
        return GateResult(gate, None, None, "no cell leads: none has a rank")
    rows = board.filter((pl.col("cell") == cell) & (pl.col("metric") == gate.metric))
    if rows.is_empty():
        return GateResult(gate, cell, None, f"{cell} is not measured by {gate.metric}")
    row = rows.sort(pl.col("subset") != "all", maintain_order=True).row(0, named=True)
    value: float | None = row[gate.on]
    if row["value"] is None:
        return GateResult(gate, cell, None, f"{cell} has no value{_why(cell, gate.metric, scores)}")
    if gate.whole and row["coverage"] < MIN_COVERAGE:
        missing = f"{cell} has a value for {percent(row['coverage'])} of the questions only"
        return GateResult(gate, cell, value, missing + _why(cell, gate.metric, scores))
    if value is None:
        return GateResult(gate, cell, None, f"{cell} has no interval: there are too few questions")
    whose = "it" if gate.cell else cell
    reason = "" if gate.holds(value) else f"{whose} has {quantity(value, gate.unit)}"
    return GateResult(gate, cell, value, reason)


def _why(cell: str, metric: str, scores: pl.DataFrame) -> str:
    missing = scores.filter(pl.col("value").is_null(), cell=cell, metric=metric)
    if missing.is_empty():
        return ": it was not run, for what it needs failed"
    counts = missing.group_by("status", "reason").len()
    order = counts.sort(["len", "status", "reason"], descending=[True, False, False])
    found: Mapping[str, Any] = order.row(0, named=True)
    reason = f": {truncate(found['reason'], REASON)}" if found["reason"] else ""
    return f" ({found['len']} × {found['status']}{reason})"
