"""Exports rankings as TREC run and qrels files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rag_assay.assets.engine.stage import is_of_now
from rag_assay.evals.metrics.contract import Gold
from rag_assay.evals.question_sets.evidence import gold_of
from rag_assay.evals.rankings import Rankings
from rag_assay.evals.reporting.trec import counts_alike, qrels_lines, run_lines
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.study_records import pinned_artifacts
from rag_assay.warehouse.tables import on_whole_database

if TYPE_CHECKING:
    import duckdb


class TrecRuns(NamedTuple):
    """What was written and what was not.

    written: a run file a ranking
    missing: the rankings that have not been run as they are now
    qrels: what is relevant
    differing: questions that trec_eval counts otherwise: any one of several documents suffices
    """

    written: list[Path]
    missing: list[str]
    qrels: Path
    differing: list[str]


@on_whole_database
def trec_runs(study: Study, home: Home, folder: Path) -> TrecRuns:
    """Write a TREC run file a ranking, documents at their best chunk, and a qrels file beside them.

    trec_eval ranks and scores them as we do (`evals.reporting.trec`). A question whose ranking
    failed has no line.

    Raises:
        InputError: none of the study's rankings has been run.
    """
    grid = Grid([study])
    prefix = _beir_prefix(study)
    written, missing = [], []
    stage, store = Rankings(grid), pinned_artifacts(home, study.study)
    with store.connect() as connection:
        known = dict(
            connection.execute("SELECT key, artifact_id FROM pointers WHERE stage = 'rankings'").fetchall()
        )
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
            raise InputError(
                f"the study {study.study} has no rankings yet; run `assay run {study.path}` first"
            )
        gold = _gold(connection, grid.set_keys(study.study), prefix)
    qrels = folder / f"{study.study}.qrels"
    lines = [line for question, one in gold.items() for line in qrels_lines(question, one)]
    qrels.write_text("".join(lines), encoding="utf-8")
    return TrecRuns(written, missing, qrels, [name for name, one in gold.items() if not counts_alike(one)])


def _beir_prefix(study: Study) -> str:
    """Return what stands before the ids of a corpus that is one BEIR folder: its own qrels know them bare."""
    names = study.corpus.sources
    return f"{names[0]}:" if len(names) == 1 and study.sources[names[0]].reader == "beir" else ""


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
    """Return question id -> gold, of the questions that have any."""
    rows = connection.execute(
        "SELECT q.question_id, q.evidence, q.needs FROM questions q JOIN pointers p "
        "ON p.stage = 'questions' AND p.artifact_id = q.artifact_id "
        "WHERE list_contains(?, p.key) AND q.gold != 'none' ORDER BY q.question_id",
        [sets],
    ).fetchall()
    found = {name: gold_of({"evidence": evidence, "needs": needs}) for name, evidence, needs in rows}
    return {
        name: replace(gold, documents={doc.removeprefix(prefix): n for doc, n in gold.documents.items()})
        for name, gold in found.items()
    }
