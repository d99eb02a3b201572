"""Reads tables of DuckDB and artifacts as the frames of a report, each with its schema."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import polars as pl

from rag_assay.evals.annotations import AGREED, COUNTED, FILE
from rag_assay.evals.judging.contract import Judge
from rag_assay.evals.judging.judge_metrics import JudgedScores
from rag_assay.evals.reporting.limits import BIN_CHARACTERS, STATEMENTS
from rag_assay.evals.reporting.rating_scores import CELLS, ScoresOfPeople
from rag_assay.evals.spreadsheet_import.bundle import axis_words
from rag_assay.evals.study.cells import AXES, UNREAD, Cell
from rag_assay.evals.study.imported_study import ImportedStudy
from rag_assay.evals.study.study import Study
from rag_assay.warehouse import schemas
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.lazy_imports import is_put_off
from rag_assay.warehouse.parquet import conform_rows, frame, read_parquet

if TYPE_CHECKING:
    import duckdb

    from rag_assay.evals.judge_calibration.card import Rated


OF_CELL: schemas.Schema = {"cell": pl.String, "replicate": pl.Int64}
"""What rows of cells have beside their own schema."""


def select_rows(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: list[Any], schema: schemas.Schema
) -> pl.DataFrame:
    """Return the rows of a query with the columns of a schema, NULL where it has none."""
    found = connection.sql(sql, params=parameters)
    # Importing pyarrow takes 0.1 s; without it, DuckDB prints reports of leaks where Python ends.
    rows = pl.DataFrame(found if is_put_off("pyarrow") else found.to_arrow_table())
    columns = {name: pl.col(name) if name in rows.columns else pl.lit(None) for name in schema}
    return rows.select(**{name: columns[name].cast(kind) for name, kind in schema.items()})


def stored_questions(connection: duckdb.DuckDBPyConnection, sets: list[str]) -> pl.DataFrame:
    sql = "SELECT q.* EXCLUDE (artifact_id) FROM questions q JOIN pointers p ON p.stage = 'questions' "
    sql += "AND p.artifact_id = q.artifact_id WHERE list_contains(?, p.key) ORDER BY p.key, q.question_id"
    return select_rows(connection, sql, [sets], schemas.QUESTIONS)


_SHORT_BINS = (  # whole, they are the context once more
    f" REPLACE ([{{'text': left(b.text, {BIN_CHARACTERS + 1}), 'chunk_ids': b.chunk_ids, 'status': b.status, "
    "'reason': b.reason, 'answer': b.answer} FOR b IN bins] AS bins)"
)


def only_question(sql: str, parameters: list[Any], question: str | None) -> tuple[str, list[Any]]:
    """Restrict a query to one question; None: all."""
    return (sql, parameters) if question is None else (f"{sql} AND question_id = ?", [*parameters, question])


def stored_scores(
    connection: duckdb.DuckDBPyConnection, cells: list[str], question: str | None = None
) -> pl.DataFrame:
    """Return schemas.SCORES with OF_CELL."""
    sql = "SELECT * FROM current_scores WHERE list_contains(?, cell)"
    return select_rows(connection, *only_question(sql, [cells], question), {**schemas.SCORES, **OF_CELL})


def stored_answers(
    connection: duckdb.DuckDBPyConnection, cells: list[str], question: str | None = None
) -> pl.DataFrame:
    """Return schemas.ANSWERS with OF_CELL; of bins the first words."""
    sql = f"SELECT *{_SHORT_BINS} FROM current_answers WHERE list_contains(?, cell)"  # noqa: S608 -- our own names
    return select_rows(connection, *only_question(sql, [cells], question), {**schemas.ANSWERS, **OF_CELL})


def stored_judgements(
    connection: duckdb.DuckDBPyConnection,
    judges: list[str],
    cells: list[str],
    open_metrics: frozenset[str],
    question: str | None = None,
) -> pl.DataFrame:
    """Return judgements with their first statements; open_metrics: uncalibrated `JUDGE.METRIC`"""
    sql = (
        f"SELECT * REPLACE (NULL AS raw, list_slice(statements, 1, {STATEMENTS + 1}) AS statements) "  # noqa: S608
        "FROM current_judgements WHERE list_contains(?, cell) AND list_contains(?, judge)"
    )
    sql, parameters = only_question(sql, [cells, judges], question)
    order = " ORDER BY cell, cell_replicate, question_id, judge, metric, replicate"
    schema = {**schemas.JUDGEMENTS, "cell": pl.String, "cell_replicate": pl.Int64, "judge": pl.String}
    rows = select_rows(connection, sql + order, parameters, schema)
    name = pl.concat_str("judge", "metric", separator=".")
    return rows.with_columns(name.is_in(list(open_metrics)).alias("uncalibrated"))


def stored_losses(connection: duckdb.DuckDBPyConnection, first: dict[str, str]) -> pl.DataFrame:
    """Return schemas.LOSSES with `cell`; first: ranking -> the cell that stands for it"""
    sql = "SELECT * FROM current_losses WHERE list_contains(?, ranking) ORDER BY ALL"
    rows = select_rows(connection, sql, [list(first)], {**schemas.LOSSES, "ranking": pl.String})
    return rows.with_columns(cell=pl.col("ranking").replace(first)).drop("ranking")


UNCALIBRATED = "uncalibrated"
AGREEMENT_MEASURES = ("auc", "kappa", "tau")
"""What tells whether people agree with a judge: a metric without any of these is uncalibrated."""


def cards_of(connection: duckdb.DuckDBPyConnection, study: Study) -> pl.DataFrame:
    """Return schemas.JUDGE_CARDS."""
    sql = "SELECT * FROM current_judge_cards WHERE study = ? AND list_contains(?, judge)"
    return select_rows(connection, sql, [study.study, list(study.judges)], schemas.JUDGE_CARDS)


def estimates_of(connection: duckdb.DuckDBPyConnection, study: Study) -> pl.DataFrame | None:
    """Return HUMAN_ESTIMATES; None: the study has no rubrics."""
    if not study.rubrics:
        return None
    sql = "SELECT * FROM current_human_estimates WHERE study = ? AND list_contains(?, rubric)"
    return select_rows(connection, sql, [study.study, list(study.rubrics)], schemas.HUMAN_ESTIMATES)


def calibrated_metrics(cards: pl.DataFrame) -> set[str]:
    """Return `JUDGE.METRIC` that annotators have labelled."""
    known = cards.filter(pl.col("measure").is_in(AGREEMENT_MEASURES) & pl.col("value").is_not_null())
    return {f"{judge}.{metric}" for judge, metric in known.select("judge", "metric").iter_rows()}


def no_better_than_coins(cards: pl.DataFrame) -> set[str]:
    """Return labelled metrics of judges whose AUC is nowhere significantly above 0.5."""
    areas = cards.filter((pl.col("measure") == "auc") & pl.col("value").is_not_null())
    shown = areas.group_by("judge", "metric").agg((pl.col("low") > 0.5).fill_null(value=False).any())
    return {f"{judge}.{metric}" for judge, metric, is_better in shown.iter_rows() if not is_better}


def uncalibrated_metrics(study: Study, cards: pl.DataFrame) -> frozenset[str]:
    """Return judged metrics of the study without labels."""
    known = calibrated_metrics(cards)
    judged = (one for name in study.measured if isinstance(one := study.metric(name), JudgedScores))
    return frozenset(metric.name for metric in judged if metric.name not in known)


def running_rows(
    connection: duckdb.DuckDBPyConnection, cells: list[str], metrics: list[str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return SCORES of some metrics, and of ANSWERS status and costs (else NULL), with OF_CELL."""
    scores = "SELECT question_id, metric, status, value, reason, cell, replicate FROM current_scores "
    scores += "WHERE list_contains(?, cell) AND list_contains(?, metric)"
    answers = "SELECT status, usd, prompt_tokens, completion_tokens, cell, replicate FROM current_answers "
    answers += "WHERE list_contains(?, cell)"
    return (
        select_rows(connection, scores, [cells, metrics], {**schemas.SCORES, **OF_CELL}),
        select_rows(connection, answers, [cells], {**schemas.ANSWERS, **OF_CELL}),
    )


def stored_documents(
    study: Study, store: ArtifactStore, wanted: Collection[str], columns: tuple[str, ...]
) -> pl.DataFrame:
    """Return columns of the current documents with these ids; `source`: of which source."""
    frames = [pl.DataFrame(schema=dict.fromkeys(columns, pl.String))]
    for source in study.corpus.sources if wanted else ():
        if artifact := store.current("documents", source):
            path = store.folder("documents", artifact.identity) / "documents.parquet"
            rows = read_parquet(path, [one for one in columns if one != "source"])
            own = rows.filter(pl.col("doc_id").is_in(list(wanted)))
            frames.append(own.with_columns(source=pl.lit(source)).select(columns))
    return pl.concat(frames)


def stored_people(study: Study, store: ArtifactStore) -> ScoresOfPeople | None:
    if not study.rubrics:
        return None
    artifact = store.current("annotations", study.study)

    def read(file: str, schema: schemas.Schema) -> pl.DataFrame:
        path = artifact and store.folder("annotations", artifact.identity) / file
        return conform_rows(read_parquet(path), schema) if path and path.exists() else frame([], schema)

    return ScoresOfPeople(
        study.rubrics,
        frame([_of(cell) for cell in study.runs()], CELLS),
        read(FILE, schemas.ANNOTATIONS),
        read(COUNTED, schemas.HUMAN_SCORES),
        read(AGREED, schemas.AGREEMENT),
        axis_words(study.folder) if isinstance(study, ImportedStudy) else {},
        f"assay ui {study.whole} --page review",
    )


def _of(cell: Cell) -> dict[str, Any]:
    """Return a row of CELLS; `-` of a spreadsheet is a name like any other."""
    parts = {axis: getattr(cell, axis) for axis in AXES}
    read = {axis: None if part == UNREAD and not cell.imported else part for axis, part in parts.items()}
    return {"key": cell.key, "cell": cell.name, "replicate": cell.replicate, **read}


PAIRS: schemas.Schema = {
    "judge": pl.String,
    "metric": pl.String,  # the judge's own name for it
    "slice": pl.String,  # whose labels, as on the judge's card: `people.RUBRIC`; NULL: labelled cases
    "good": pl.Boolean,  # what the label says; of a rubric: in the upper half of its scale
    "value": pl.Float64,  # the judge's, turned round where less is better
}


def stored_pairs(
    study: Study, people: ScoresOfPeople | None, judgements: pl.DataFrame, store: ArtifactStore
) -> pl.DataFrame:
    """Return cases with a judge's value and a label or rating (PAIRS), where a card compares as many;
    judgements: schema JUDGEMENTS with `judge`, `cell` and `cell_replicate`
    """
    from rag_assay.evals.judge_calibration.card import scored_by

    rows: list[dict[str, Any]] = []
    rated = scored_by(people.rubrics, people.values) if people is not None and len(people.values) else []
    for name, judge in study.judges.items():
        rows += _labelled(study, name, judge, store)
        if rated and people is not None:
            own = judgements.filter(pl.col("judge") == name)
            rows += _scored(name, judge, rated, own, people)
    return frame(rows, PAIRS)


def _scored(
    name: str, judge: Judge, rated: list[Rated], judgements: pl.DataFrame, people: ScoresOfPeople
) -> Iterator[dict[str, Any]]:
    from rag_assay.evals.judge_calibration.card import FEWEST, good_side, judged_cases

    keys = people.cells.select("key", "cell", cell_replicate="replicate")
    questions = {question for one in rated for _, question in one.values}
    near = judgements.filter(pl.col("question_id").is_in(list(questions)))
    wanted = near.join(keys, on=["cell", "cell_replicate"]).drop("statements")
    of_cells: dict[str, list[dict[str, Any]]] = {}
    for row in wanted.iter_rows(named=True):
        of_cells.setdefault(row["key"], []).append(row)
    for metric, one, cases in judged_cases(judge, of_cells, rated):
        if len(cases) >= FEWEST:
            for case in cases:
                value = case.value if metric.higher_is_better else -case.value
                good = good_side(case.score, one.criterion)
                yield {"judge": name, "metric": metric.name, "slice": one.name, "good": good, "value": value}


def _labelled(study: Study, name: str, judge: Judge, store: ArtifactStore) -> Iterator[dict[str, Any]]:
    from rag_assay.evals.judge_calibration.judge_trials import labelled_pairs

    artifact = store.current("judge_cards", f"{study.study}.{name}")
    if artifact is None or not study.card_of(name).labels:
        return
    folder = store.folder("judge_cards", artifact.identity)
    trials, judged = folder / "trials.parquet", folder / "judged.parquet"
    if trials.exists() and judged.exists():
        cases = conform_rows(read_parquet(trials), schemas.JUDGE_TRIALS)
        said = conform_rows(read_parquet(judged), schemas.JUDGEMENTS)
        for metric, good, value in labelled_pairs(judge, cases, said):
            yield {"judge": name, "metric": metric.name, "slice": None, "good": good, "value": value}
