"""Reads everything stored about one question: gold, hits, answers, scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from rag_assay.evals.pipeline.passages import contexts_of
from rag_assay.evals.reporting.stale_results import stored_result
from rag_assay.evals.reporting.stored_rows import (
    cards_of,
    stored_documents,
    stored_questions,
    uncalibrated_metrics,
)
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.suggestions import did_you_mean, near_names
from rag_assay.warehouse.tables import on_whole_database

if TYPE_CHECKING:
    import duckdb

Row = dict[str, Any]


@dataclass(frozen=True)
class DeliveredHit:
    """text: None: the document is gone; gold: whether it overlaps evidence, or its document is evidence"""

    rank: int
    score: float | None
    url: str
    start: int
    end: int
    text: str | None
    gold: bool


@dataclass(frozen=True)
class Answered:
    """A question in one replicate of a cell; answer: a row of `schemas.ANSWERS`; None without a generator.

    scores: of `schemas.SCORES`, in the order of the study's metrics; judgements: of `schemas.JUDGEMENTS` with
    `judge` and `uncalibrated`; people: of `schemas.HUMAN_SCORES`, by the current wording of the rubrics
    """

    cell: Cell
    answer: Row | None
    scores: list[Row]
    judgements: list[Row]
    people: list[Row]


@dataclass(frozen=True)
class RankingResult:
    """A question in one ranking, and the cells that read it; status, reason: as `schemas.RANKED`, if it was
    run.

    losses: rows of `schemas.LOSSES`, one a piece of evidence
    """

    ranking: str
    status: str | None
    reason: str | None
    hits: list[DeliveredHit]
    losses: list[Row]
    cells: list[Answered]


@dataclass(frozen=True)
class QuestionRows:
    """A question (a row of `schemas.QUESTIONS`) in every ranking of the study; note: on the run shown."""

    question: Row
    found: list[RankingResult]
    note: str = ""


@on_whole_database
def question_rows(study: Study, question_id: str, home: Home) -> QuestionRows:
    """Gather the stored rows of one question.

    Raises:
        InputError: the study has not been run, its files changed since then, or it asks no such question.
    """
    result = stored_result(study, home, as_run=True)
    study, store = result.study, result.store
    grid = Grid([study])
    with store.connect() as connection:
        question = _question(connection, grid, study, question_id)
        runs = study.runs()
        rankings = [*study.rankings(), *dict.fromkeys(one.ranking for one in runs if not one.reads_ranking)]
        cells = [cell.key for cell in study.cells()]
        stored = {"ranked": rankings, "hits": rankings, "losses": rankings}
        stored |= dict.fromkeys(("answers", "scores", "judgements"), cells)
        of_cells = {
            name: _dicts(connection, f"{_CURRENT[name]} AND question_id = ?", [keys, question_id])
            for name, keys in stored.items()
        }
        ranked, hits, losses = (of_cells[name] for name in ("ranked", "hits", "losses"))
        open_metrics = uncalibrated_metrics(study, cards_of(connection, study))
        for row in of_cells["judgements"]:
            row["uncalibrated"] = f"{row['judge']}.{row['metric']}" in open_metrics
        of_cells["people"] = _people(connection, study, question_id)
    contexts = _contexts(store, runs, question)
    documents = stored_documents(study, store, {row["doc_id"] for row in hits}, ("doc_id", "url", "text"))
    texts = {row["doc_id"]: row for row in documents.iter_rows(named=True)}
    found = []
    for ranking in rankings:
        status = next((row for row in ranked if row["ranking"] == ranking), {})
        of_hits = (_hit(row, question, texts) for row in hits if row["ranking"] == ranking)
        known = sorted(of_hits, key=lambda hit: hit.rank)
        lost = sorted((row for row in losses if row["ranking"] == ranking), key=lambda row: row["evidence"])
        alike: dict[tuple[DeliveredHit, ...], list[Cell]] = {}
        for cell in runs:
            if cell.ranking == ranking:
                alike.setdefault(tuple(contexts[cell.key]), []).append(cell)
        for shown, own in alike.items():
            answered = [_answered(study, cell, of_cells) for cell in own]
            ended = (status.get("status"), status.get("reason"))
            found.append(RankingResult(ranking, *ended, known or list(shown), lost, answered))
    return QuestionRows(question, found, result.note)


def _contexts(store: ArtifactStore, cells: Iterable[Cell], question: Row) -> dict[str, list[DeliveredHit]]:
    found: dict[str, list[DeliveredHit]] = {}
    for cell in cells:
        answers = store.current("answers", cell.key) if cell.has_contexts else None
        passages = contexts_of(store, answers).get(question["question_id"], ()) if answers else ()
        hits = found[cell.key] = []
        for rank, one in enumerate(passages, 1):
            gold = _is_gold(question, one.document, one.start, one.end)
            hits.append(DeliveredHit(rank, None, one.url or one.chunk, one.start, one.end, one.text, gold))
    return found


def _answered(study: Study, cell: Cell, of_cells: Mapping[str, list[Row]]) -> Answered:
    """of_cells: name of a table -> its rows, of all cells"""
    order = {name: place for place, name in enumerate(study.measured)}

    def own(table: str, replicate: str = "replicate") -> list[Row]:
        mine = (cell.name, cell.replicate)
        return [row for row in of_cells[table] if (row["cell"], row[replicate]) == mine]

    judged = [
        (order[name], row["replicate"], row)
        for row in own("judgements", "cell_replicate")
        if row["judge"] in study.judged_by(cell) and (name := f"{row['judge']}.{row['metric']}") in order
    ]
    return Answered(
        cell,
        next(iter(own("answers")), None),
        sorted(own("scores"), key=lambda row: order.get(row["metric"], len(order))),
        [row for *_, row in sorted(judged, key=lambda one: one[:2])],
        [row for row in of_cells["people"] if row["of"] == cell.key],
    )


def _people(connection: duckdb.DuckDBPyConnection, study: Study, question_id: str) -> list[Row]:
    """Return ratings of the answers; `of`: key of the cell's replicate."""
    rows = _dicts(connection, _PEOPLE, [study.study, question_id, study.whole])
    versions = {name: rubric.version for name, rubric in study.rubrics.items()}
    return [row for row in rows if versions.get(row["rubric"]) == row["rubric_version"]]


def _question(connection: duckdb.DuckDBPyConnection, grid: Grid, study: Study, question_id: str) -> Row:
    rows = stored_questions(connection, grid.set_keys(study.study)).iter_rows(named=True)
    by_id = {row["question_id"]: row for row in rows}
    if question_id not in by_id:
        known = sorted(by_id)
        hint = did_you_mean(question_id, known)
        if len(known) > 20:
            near = near_names(question_id, known, most=3, like=0.5) or known[:3]
            hint = f"it asks {len(known)}, such as {', '.join(near)}"
        raise InputError(f"the study {study.study} asks no question {question_id!r}; {hint}")
    return by_id[question_id]


_CURRENT = {
    "ranked": "SELECT p.key AS ranking, r.* EXCLUDE (artifact_id) FROM ranked r JOIN pointers p "
    "ON p.stage = 'rankings' AND p.artifact_id = r.artifact_id WHERE list_contains(?, p.key)",
    "hits": "SELECT * FROM current_hits WHERE list_contains(?, ranking)",
    "losses": "SELECT * FROM current_losses WHERE list_contains(?, ranking)",
    "answers": "SELECT * FROM current_answers WHERE list_contains(?, cell)",
    "judgements": "SELECT * FROM current_judgements WHERE list_contains(?, cell)",
    "scores": "SELECT * FROM current_scores WHERE list_contains(?, cell)",
}


_PEOPLE = """
    SELECT a."of", h.* FROM current_human_scores h JOIN (
        SELECT *, cell || CASE WHEN cell_replicate > 1 THEN '.' || cell_replicate ELSE '' END AS "of"
        FROM current_annotations WHERE study = ? AND question_id = ?
    ) a ON h.study = ? AND h.item_id = a.item_id AND h.rubric = a.rubric
        AND h.criterion IS NOT DISTINCT FROM a.criterion
        AND (h.cell IS NULL OR (h.cell = a."of" AND h.question_id = a.question_id))
    ORDER BY h."ordinal"
"""


def _dicts(connection: duckdb.DuckDBPyConnection, sql: str, parameters: list[Any]) -> list[Row]:
    return pl.DataFrame(connection.sql(sql, params=parameters).to_arrow_table()).to_dicts()


def _hit(row: Row, question: Row, texts: dict[str, Row]) -> DeliveredHit:
    document = texts.get(row["doc_id"])
    start, end = row["start"], row["end"]
    text = document["text"][start:end] if document else None
    url = document["url"] if document else row["doc_id"]
    gold = _is_gold(question, row["doc_id"], start, end)
    return DeliveredHit(row["rank"], row["score"], url, start, end, text, gold)


def _is_gold(question: Row, document: str, start: int, end: int) -> bool:
    return any(
        piece["doc_id"] == document
        and (None in (piece["start"], piece["end"]) or (start < piece["end"] and piece["start"] < end))
        for piece in (question["evidence"] or () if document else ())
    )
