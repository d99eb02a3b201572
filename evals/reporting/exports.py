"""Exports of a study: TREC files, question sets, and the leaderboard as a table."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import numpy as np
import polars as pl

from rag_assay.assets.cleaning.corpus import corpus_documents
from rag_assay.assets.engine.stage import BuildContext, is_of_now
from rag_assay.evals.human.spreadsheets.formula_escaping import CSV
from rag_assay.evals.metrics.contract import Gold
from rag_assay.evals.pipeline.stage_inputs import read_questions
from rag_assay.evals.question_sets.evidence import gold_of
from rag_assay.evals.question_sets.exporters import FORMS, ExportInput
from rag_assay.evals.questions import Questions
from rag_assay.evals.rankings import Rankings
from rag_assay.evals.reporting.contexts import running
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.stored_rows import stored_questions
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.atomic_write import atomic_write, write_file
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.parquet import write_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import LEADERBOARD
from rag_assay.warehouse.study_records import pinned_artifacts
from rag_assay.warehouse.tables import on_whole_database

if TYPE_CHECKING:
    import duckdb


NOTHING = "nothing-found"
"""The document of a question without hits: without a line, trec_eval would leave it out of its means."""

_LARGEST = 1e38  # less than the largest 32-bit float, with room below
_NORMAL = np.finfo(np.float32).tiny  # smaller ones are read as 0 by some
_UNFIT = re.compile(r"[\s%\x00-\x1f\x7f]")


def trec_id(name: str) -> str:
    """Return a name as one word, injectively: white space, controls and `%` as in URLs."""
    return _UNFIT.sub(lambda sign: quote(sign[0], safe=""), name)


def falling(scores: Iterable[float | None]) -> list[float]:
    """Return strictly falling 32-bit floats, each as close to its score as can be.

    >>> [f"{score:.9g}" for score in falling([0.5, 0.5, None, -1.0])]
    ['0.5', '0.49999997', '0.49999994', '-1']
    """
    found: list[float] = []
    before = np.float32(np.inf)
    for score in scores:
        below = _below(before)
        known = score is not None and not math.isnan(score)
        single = np.float32(min(max(score, -_LARGEST), _LARGEST)) if score is not None and known else below
        before = min(single, below)
        found.append(float(before))
    return found


def _below(number: np.float32) -> np.float32:
    if number == np.inf:
        return np.float32(_LARGEST)
    less = np.nextafter(number, np.float32(-np.inf))
    return less if abs(less) >= _NORMAL else (np.float32(0) if number > 0 else -_NORMAL)


def run_lines(question_id: str, found: Sequence[tuple[str, float | None]], tag: str) -> list[str]:
    """Return `query Q0 document rank score tag`; found: (document, score), best first, repeats ignored."""
    first: dict[str, float | None] = {}
    for doc, score in found:
        first.setdefault(doc, score)
    first = first or {NOTHING: 0.0}
    scores = falling(first.values())
    return [
        f"{trec_id(question_id)} Q0 {trec_id(doc)} {rank} {score:.9g} {trec_id(tag)}\n"
        for rank, (doc, score) in enumerate(zip(first, scores, strict=True), 1)
    ]


def qrels_lines(question_id: str, gold: Gold) -> list[str]:
    """Return `query 0 document grade`, what no ranking can hold included."""
    return [f"{trec_id(question_id)} 0 {trec_id(doc)} {grade}\n" for doc, grade in gold.documents.items()]


def counts_alike(gold: Gold) -> bool:
    """Return whether trec_eval scores a question as we do: it does not know "any of several suffices"."""
    return gold.needs_all or len(gold.documents) == 1


class TrecRuns(NamedTuple):
    """written: a run file a ranking; missing: rankings that have not been run as they are now
    differing: questions that trec_eval scores otherwise (`counts_alike`)
    """

    written: list[Path]
    missing: list[str]
    qrels: Path
    differing: list[str]


@on_whole_database
def trec_runs(study: Study, home: Home, folder: Path) -> TrecRuns:
    """Write a TREC run file a ranking, documents at their best chunk, and a qrels file.

    A question whose ranking failed has no line.

    Raises:
        InputError: the study has no rankings, or no ranking was run.
    """
    grid = Grid([study])
    names = study.corpus.sources
    prefix = f"{names[0]}:" if len(names) == 1 and study.sources[names[0]].reader == "beir" else ""
    written, missing = [], []
    stage, store = Rankings(grid), pinned_artifacts(home, study.study)
    with store.connect() as connection:
        pointers = "SELECT key, artifact_id FROM pointers WHERE stage = 'rankings'"
        known = dict(connection.execute(pointers).fetchall())
        for ranking in study.rankings():
            if ranking not in known or not is_of_now(stage, ranking, store):
                missing.append(ranking)
                continue
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{ranking}.trec"
            lines = _run(connection, known[ranking], grid.rankings[ranking].retriever, prefix)
            path.write_text("".join(lines), encoding="utf-8")
            written.append(path)
        if not study.rankings():
            raise InputError(f"the study {study.study} has no rankings: its answers come from sheets")
        if not written:
            first = f"run `assay run {study.path}` first"
            raise InputError(f"the study {study.study} has no rankings yet; {first}")
        gold = _gold(connection, grid.set_keys(study.study), prefix)
    qrels = folder / f"{study.study}.qrels"
    lines = [line for question, one in gold.items() for line in qrels_lines(question, one)]
    qrels.write_text("".join(lines), encoding="utf-8")
    return TrecRuns(written, missing, qrels, [name for name, one in gold.items() if not counts_alike(one)])


def _run(connection: duckdb.DuckDBPyConnection, artifact_id: str, tag: str, prefix: str) -> list[str]:
    question_rows = connection.execute(
        "SELECT question_id FROM ranked WHERE artifact_id = ? AND status = 'ok' ORDER BY question_id",
        [artifact_id],
    ).fetchall()
    found: dict[str, list[tuple[str, float | None]]] = {question: [] for (question,) in question_rows}
    hits = connection.execute(
        "SELECT question_id, doc_id, score FROM hits WHERE artifact_id = ? ORDER BY question_id, rank",
        [artifact_id],
    ).fetchall()
    for question, doc, score in hits:
        if question in found:
            found[question].append((doc.removeprefix(prefix), score))
    return [line for question, docs in found.items() for line in run_lines(question, docs, tag)]


def _gold(connection: duckdb.DuckDBPyConnection, sets: list[str], prefix: str) -> dict[str, Gold]:
    rows = stored_questions(connection, sets).filter(pl.col("gold") != "none").sort("question_id")
    found = {row["question_id"]: gold_of(row) for row in rows.iter_rows(named=True)}
    return {
        name: replace(gold, documents={doc.removeprefix(prefix): n for doc, n in gold.documents.items()})
        for name, gold in found.items()
    }


class Written(NamedTuple):
    """counts: contents -> how many; notes: sentences about what the form cannot express"""

    paths: list[Path]
    counts: dict[str, int]
    notes: list[str]


def export_questions(study: Study, form: str, folder: Path, work: BuildContext) -> Written:
    """Write the questions of a study with the evidence of the last run; form: one of `exporters.FORMS`.

    Raises:
        InputError: the questions have not been looked up in the documents as both are now.
    """
    export = FORMS[form](_material(study, work))
    paths = []
    for name, lines in export.files.items():
        path = folder / name
        with atomic_write(path) as new, new.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(lines)
        paths.append(path)
    return Written(paths, export.counts, export.notes)


def _material(study: Study, work: BuildContext) -> ExportInput:
    grid = Grid([study])
    stage = Questions(grid)
    found: dict[str, list[Artifact]] = {"test": [], "train": []}
    for use, keys in (("test", grid.set_keys(study.study)), ("train", grid.train_keys(study.study))):
        for key in keys:
            artifact = work.store.current("questions", key)
            if artifact is None or not is_of_now(stage, key, work.store):
                raise InputError(
                    f"the questions of {key} have not been looked up in the documents as both are now; "
                    f"run `assay run {study.path}` first"
                )
            found[use].append(artifact)
    sources = [work.store.current("documents", name) for name in study.corpus.sources]
    documents = corpus_documents([one for one in sources if one is not None], work)
    columns = documents.select("doc_id", "url", "title", "text").iter_rows(named=True)
    return ExportInput(
        study.study,
        {use: read_questions(some, work).to_dicts() if some else [] for use, some in found.items()},
        {row["doc_id"]: row for row in columns},
    )


@on_whole_database
def export_tables(study: Study, home: Home, folder: Path) -> list[Path]:
    """Write all rows of a study that was run as Parquet: a file a view of the database, and its questions."""
    store, paths = pinned_artifacts(home, study.study), []
    with store.connect() as connection:
        views = "SELECT view_name FROM duckdb_views() WHERE database_name = current_database() "
        views += "AND (view_name LIKE 'current_%' OR view_name = 'cells')"
        names = [name for (name,) in connection.execute(views).fetchall()]
        frames = {name: _rows_of(connection, name, study.study) for name in names}
        questions = stored_questions(connection, Grid([study]).set_keys(study.study))
        frames["questions"] = questions.sort("question_id")
    if frames["current_leaderboard"].is_empty():
        raise InputError(f"the study {study.study} has no result yet; run `assay run {study.path}` first")
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in sorted(frames.items()):
        paths.append(folder / f"{name.removeprefix('current_')}.parquet")
        write_parquet(rows, paths[-1])
    return paths


def _rows_of(connection: duckdb.DuckDBPyConnection, view: str, study: str) -> pl.DataFrame:
    """Return the rows of a study in a view, which has a column of studies, cells or rankings."""
    columns = [name for name, *_ in connection.execute(f"DESCRIBE {view}").fetchall()]
    key = next(one for one in ("study", "cell", "ranking") if one in columns)
    belongs = "study = ?" if key == "study" else f"starts_with({key}, ? || '.')"
    query = f"SELECT * FROM {view} WHERE {belongs} ORDER BY ALL"  # noqa: S608 -- names of our own views
    return pl.DataFrame(connection.sql(query, params=[study]).to_arrow_table())


COSTS = {"usd_per_1000": pl.Float64, "seconds_p50": pl.Float64, "seconds_p95": pl.Float64}


def export_table(data: ReportData) -> pl.DataFrame:
    """One row a cell, metric and subset, with costs and the recommendation."""
    taken, costs = data.verdict.recommended, running(data)
    found = [(cell, one.usd, one.p50, one.p95) for cell, one in costs.items()]
    priced = pl.DataFrame(found, schema={"cell": pl.String, **COSTS}, orient="row")
    is_taken = (pl.col("cell") == (taken.cell if taken else "")) & (pl.col("subset") == data.verdict.subset)
    board = data.leaderboard.select(list(LEADERBOARD)).with_columns(recommended=is_taken)
    rows = board.join(priced, on="cell", how="left", maintain_order="left")
    return rows.select(*LEADERBOARD, *COSTS, "recommended")


def csv_text(table: pl.DataFrame) -> str:
    """Texts that a spreadsheet might run as a formula begin with an apostrophe."""
    into = io.StringIO(newline="")
    writer = csv.writer(into, lineterminator="\r\n")
    writer.writerow(table.columns)
    writer.writerows([_cell(value) for value in row] for row in table.iter_rows())
    return into.getvalue()


def write_csv(table: pl.DataFrame, path: Path) -> Path:
    """Write CSV with a byte order mark for spreadsheets."""
    return write_file(path, csv_text(table).encode("utf-8-sig"))


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return CSV.written(value) if isinstance(value, str) else value
