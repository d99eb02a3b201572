"""The matrix of questions and pipelines, and journeys: read from DuckDB when they are shown."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from rag_assay.evals.question_sets.losses import Loss
from rag_assay.evals.reporting import stored_rows
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.journey import (
    Dispute,
    catalogue,
    disputes,
    one_block,
    rankings_of,
    runs_of,
    sources_of,
    tables_of,
)
from rag_assay.evals.reporting.journey_rows import evidence_documents, journey_rows
from rag_assay.evals.reporting.retrieval_funnel import depth, fates_of
from rag_assay.evals.reporting.rows import board_data, first_cells, not_run_replicates
from rag_assay.evals.reporting.stale_results import StoredResult, stored_result
from rag_assay.evals.reporting.standings import cell_labels, group_of, main_subset
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import SCORES, Status
from rag_assay.warehouse.study_records import PinnedArtifacts
from rag_assay.warehouse.tables import on_whole_database

if TYPE_CHECKING:
    import duckdb

T = TypeVar("T")
ANSWER_CHARACTERS = 200  # of an answer that a cell of the matrix shows
FOUND = "found"  # in place of a step that lost the question: the ranking holds the evidence that it needs


@dataclass(frozen=True)
class MatrixFilter:
    """Which questions a matrix shows, and in which order; search: words of the question or its id.

    lost: a step (`Loss`) at which the first pipeline lost the question, or FOUND
    is_regression: only questions that are wrong in the first pipeline and right in the second
    by_dispute: the most disputed first, and none without a dispute
    """

    metric: str
    pipelines: tuple[str, ...]
    search: str = ""
    type: str = ""
    source: str = ""
    lost: str = ""
    is_regression: bool = False
    by_dispute: bool = False


@dataclass(frozen=True)
class MatrixCell:
    """What one pipeline made of one question; value: mean over the replicates; None: `why` says why.

    answer: its beginning, of the first replicate; status: of the answer, if it is not `ok`
    lost: the step that lost the question, FOUND, or ""
    """

    value: float | None
    why: str
    answer: str | None
    status: str
    lost: str


@dataclass(frozen=True)
class MatrixRow:
    """A question in each pipeline; type: by which questions are grouped."""

    question_id: str
    question: str
    language: str | None
    type: str
    dispute: Dispute | None
    cells: tuple[MatrixCell, ...]


class QuestionMatrix:
    """The questions of a study as it was run; scores, answers and losses are read on demand.

    Raises InputError where the study was not run, or its files changed since then.
    """

    def __init__(self, study: Study, home: Home) -> None:
        self.home = home
        self.data: ReportData = board_data(study, home)
        self.result: StoredResult = stored_result(study, home, as_run=True)
        self.study = self.result.study
        labels = cell_labels(self.data)
        ranked = [one.cell.key for one in main_subset(self.data).standings]
        picks = [one.cell for one in (self.data.verdict.recommended, self.data.verdict.leader) if one]
        self.labels = {key: labels[key] for key in dict.fromkeys([*picks, *ranked, *labels]) if key in labels}
        self.questions = self._with_sources(self.data.questions)
        gone = not_run_replicates(self.study, self.result.store)
        self.not_run = [f"{cell}.{n}" for cell, n in gone.iter_rows()]
        """Replicates that the last run could not compute: of them, rows of an older run are no results."""
        self._lost: dict[str, Mapping[str, str]] = {}

    @property
    def metrics(self) -> Mapping[str, MetricInfo]:
        return {one.name: one for one in self.data.metrics}

    def _with_sources(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Add `kind`, by which questions are grouped, and the `sources` of their evidence."""
        wanted = evidence_documents(rows)
        documents = stored_rows.stored_documents(self.study, self.result.store, wanted, ("doc_id", "source"))
        sources, asked = sources_of(rows, documents), rows.with_columns(kind=group_of("type"))
        return asked.join(sources, on="question_id", how="left", maintain_order="left")

    def _read(self, read: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        return _on_database(self.result.store, self.home, read)

    def _rows(self, sql: str, parameters: list[Any]) -> list[Any]:
        return self._read(lambda connection: connection.execute(sql, parameters).fetchall())

    @cached_property
    def disputes(self) -> Mapping[str, Dispute]:
        return disputes(self._read(self._dispute_data))

    def lost(self, pipelines: Sequence[str]) -> list[Mapping[str, str]]:
        """Return for each pipeline question -> the step that lost it in its ranking, or FOUND."""
        if unread := [one for one in pipelines if one not in self._lost]:
            self._lost.update(self._read_lost(unread))
        return [self._lost[one] for one in pipelines]

    def values(self, metric: str, pipelines: Sequence[str]) -> Mapping[tuple[str, str], float]:
        """Return (question, pipeline) -> value."""
        rows = self._rows(_VALUES, [metric, list(pipelines), self.not_run])
        return {(question, cell): value for question, cell, value in rows if math.isfinite(value)}

    def matching(self, wanted: MatrixFilter) -> list[str]:
        """Return ids in the order of the study or of their disputes."""
        rows = self.questions
        text = pl.concat_str("question", pl.lit(" "), "question_id").str.to_lowercase()
        for word in wanted.search.lower().split():
            rows = rows.filter(text.str.contains(word, literal=True))
        if wanted.type:
            rows = rows.filter(pl.col("kind") == wanted.type)
        if wanted.source:
            rows = rows.filter(pl.col("sources").list.contains(wanted.source))
        ids: list[str] = rows["question_id"].to_list()
        if wanted.lost and wanted.pipelines:
            (lost,) = self.lost(wanted.pipelines[:1])
            ids = [one for one in ids if lost.get(one) == wanted.lost]
        if wanted.is_regression and len(wanted.pipelines) > 1:
            ids = self._regressions(ids, wanted)
        if wanted.by_dispute:
            found = self.disputes
            known = [one for one in ids if one in found and found[one].value > 0]
            ids = sorted(known, key=lambda one: -found[one].value)
        return ids

    def _regressions(self, ids: Sequence[str], wanted: MatrixFilter) -> list[str]:
        metric, (first, second) = self.metrics[wanted.metric], wanted.pipelines[:2]
        values = self.values(wanted.metric, (first, second))
        pairs = {one: (values.get((one, first)), values.get((one, second))) for one in ids}
        return [one for one, (a, b) in pairs.items() if is_regression(metric, a, b)]

    def rows(self, wanted: MatrixFilter, ids: Sequence[str]) -> list[MatrixRow]:
        cells = self._read_cells(wanted, list(ids))
        lost = dict(zip(wanted.pipelines, self.lost(wanted.pipelines), strict=True))
        own = pl.DataFrame({"question_id": list(ids)}, schema={"question_id": pl.String})
        asked = own.join(self.questions, on="question_id", maintain_order="left")
        found = self.disputes if wanted.by_dispute else {}
        rows = []
        for one, question, language, kind in asked.select(_SHOWN).iter_rows():
            of_pipelines = tuple(
                replace(cells.get((one, key), NO_CELL), lost=lost[key].get(one, "")) for key in lost
            )
            rows.append(MatrixRow(one, question, language, kind, found.get(one), of_pipelines))
        return rows

    def journey(self, question_id: str, pipelines: Sequence[str]) -> dict[str, Any]:
        """Return for `journey_view.js`: `known`, a catalogue of this question; `block`, its rows;
        `measured`, for each pipeline `values` by metric, and `why`: (replicate, status, reason)
        """
        return self._read(lambda connection: self._read_journey(connection, question_id, list(pipelines)))

    def _read_lost(self, pipelines: Sequence[str]) -> dict[str, Mapping[str, str]]:
        cells = Grid([self.study]).cells
        read = {one: cells[one].ranking for one in pipelines if one in cells and cells[one].reads_ranking}
        found: dict[str, dict[str, str]] = {ranking: {} for ranking in read.values()}
        rankings = {one: one for one in found}
        losses = self._read(partial(stored_rows.stored_losses, first=rankings)) if found else None
        fates = fates_of(losses, self.questions, depth(self.data.primary))
        for ranking, question, lost in fates.iter_rows():
            found[ranking][question] = lost or FOUND
        return {one: found[read[one]] if one in read else {} for one in pipelines}

    def _read_cells(self, wanted: MatrixFilter, ids: list[str]) -> dict[tuple[str, str], MatrixCell]:
        of = [list(wanted.pipelines), ids, self.not_run]
        scored = self._rows(_SCORED, [wanted.metric, *of])
        answered = self._rows(_ANSWERED, of)
        found: dict[tuple[str, str], MatrixCell] = {}
        for question, cell, value, status, reason in scored:
            why = "" if value is not None else ": ".join(filter(None, (status, reason)))
            found[question, cell] = replace(NO_CELL, value=value, why=why)
        for question, cell, status, answer, reason in answered:
            known = found.get((question, cell), NO_CELL)
            failed = "" if status == Status.OK else ": ".join(filter(None, (status, reason)))
            found[question, cell] = replace(known, answer=answer, status=failed)
        return found

    def _dispute_data(self, connection: duckdb.DuckDBPyConnection) -> ReportData:
        cells = list(self.labels)
        people = stored_rows.stored_people(self.study, self.result.store)
        sql = f"SELECT * FROM current_scores WHERE metric = ? AND list_contains(?, cell) AND {_IS_RUN}"  # noqa: S608
        wanted = [self.data.primary.name, cells, self.not_run]
        scores = stored_rows.select_rows(connection, sql, wanted, {**SCORES, **stored_rows.OF_CELL})
        judgements = self._judgements(connection, cells) if people is not None else None
        return replace(
            self.data, questions=self.questions, scores=scores, people=people, judgements=judgements
        )

    def _judgements(
        self, connection: duckdb.DuckDBPyConnection, cells: list[str], question: str | None = None
    ) -> pl.DataFrame:
        cards = stored_rows.cards_of(connection, self.study)
        open_metrics = stored_rows.uncalibrated_metrics(self.study, cards)
        return stored_rows.stored_judgements(
            connection, list(self.study.judges), cells, open_metrics, question
        )

    def _that_ran(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.filter(~pl.format("{}.{}", "cell", "replicate").is_in(self.not_run))

    def _read_journey(
        self, connection: duckdb.DuckDBPyConnection, question_id: str, pipelines: list[str]
    ) -> dict[str, Any]:
        store, asked = self.result.store, self.questions.filter(pl.col("question_id") == question_id)
        journey = journey_rows(connection, self.study, store, pipelines, asked, question_id)
        data = replace(
            self.data,
            questions=asked,
            scores=self._that_ran(stored_rows.stored_scores(connection, pipelines, question_id)),
            answers=self._that_ran(stored_rows.stored_answers(connection, pipelines, question_id)),
            judgements=self._judgements(connection, pipelines, question_id),
            losses=stored_rows.stored_losses(connection, first_cells(Grid([self.study]), pipelines)),
            people=stored_rows.stored_people(self.study, store),
            journey=journey,
        )
        runs = runs_of(data, pipelines)
        labels = {key: self.labels[key] for key in pipelines}
        tables = tables_of(data, journey, runs, rankings_of(journey, pipelines))
        return {
            "known": catalogue(data, journey, labels, runs, {}),
            "block": json.loads(one_block(tables)),
            "measured": [_measured(data, key) for key in pipelines],
        }


@on_whole_database
def _on_database(store: PinnedArtifacts, home: Home, read: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
    del home  # by which `on_whole_database` finds the database
    with store.connect() as connection:
        return read(connection)


_SHOWN = ("question_id", "question", "language", "kind")
NO_CELL = MatrixCell(None, "not measured", None, "", "")


def is_regression(metric: MetricInfo, first: float | None, second: float | None) -> bool:
    """Return whether the first value is below and the second above the middle of the range.

    Of a metric without bounds: whether the second is better.
    """
    if first is None or second is None:
        return False
    sign = 1.0 if metric.higher_is_better else -1.0
    if metric.worst is None or metric.ideal is None:
        return sign * (second - first) > 0
    middle = (metric.worst + metric.ideal) / 2
    return sign * (first - middle) < 0 <= sign * (second - middle)


_IS_RUN = "NOT list_contains(?, cell || '.' || replicate)"


_VALUES = f"""
SELECT question_id, cell, avg(value) FROM current_scores
WHERE metric = ? AND list_contains(?, cell) AND status = 'ok' AND value IS NOT NULL AND {_IS_RUN} GROUP BY ALL
"""  # noqa: S608 -- a condition of ours


_SCORED = f"""
SELECT question_id, cell, avg(value) FILTER (status = 'ok') AS value, first(status ORDER BY replicate)
    FILTER (status <> 'ok') AS status, first(reason ORDER BY replicate) FILTER (status <> 'ok') AS reason
FROM current_scores WHERE metric = ? AND list_contains(?, cell) AND list_contains(?, question_id)
AND {_IS_RUN} GROUP BY ALL
"""  # noqa: S608 -- a condition of ours
_ANSWERED = f"""
SELECT question_id, cell, status, left(answer, {ANSWER_CHARACTERS + 1}), reason FROM current_answers
WHERE replicate = 1 AND list_contains(?, cell) AND list_contains(?, question_id) AND {_IS_RUN}
"""  # noqa: S608 -- a number and a condition of ours


def _measured(data: ReportData, pipeline: str) -> dict[str, Any]:
    own = data.scores.filter(pl.col("cell") == pipeline)
    means = dict(data.values.filter(pl.col("cell") == pipeline).select("metric", "value").iter_rows())
    bad = own.filter((pl.col("status") != "ok") | pl.col("value").is_null())
    why: dict[str, list[list[Any]]] = {}
    for metric, *reason in bad.select("metric", "replicate", "status", "reason").iter_rows():
        why.setdefault(metric, []).append(reason)
    names = [one.name for one in data.metrics]
    return {"values": [means.get(name) for name in names], "why": [why.get(name, []) for name in names]}


LOST_WORDS: Mapping[str, str] = {str(loss): loss.label for loss in Loss} | {FOUND: FOUND}
"""Names of the steps at which questions are lost, for readers."""
