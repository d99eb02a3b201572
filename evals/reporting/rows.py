"""Reads the current rows of one study from DuckDB for a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import polars as pl

from rag_assay.evals.leaderboard import NOT_RUN
from rag_assay.evals.metrics.contract import OF_RANKING
from rag_assay.evals.pipeline.passages import contexts_of
from rag_assay.evals.question_sets.evidence import gold_of
from rag_assay.evals.reporting import stored_rows
from rag_assay.evals.reporting.caveats import interval_words, unit_phrase
from rag_assay.evals.reporting.contexts import curves_of, seconds_metrics
from rag_assay.evals.reporting.data import GeneratorFacts, MetricInfo, ReportData
from rag_assay.evals.reporting.journey_rows import journey_rows
from rag_assay.evals.reporting.stale_results import StoredResult, stored_result
from rag_assay.evals.reporting.study_facts import StudyFacts, provenance, study_facts, weight_digests
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.statistics import significance
from rag_assay.evals.statistics.comparison import primary_of
from rag_assay.evals.statistics.question_clusters import clustering
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.complexity import unmeasured, unpriced
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.evals.successive_halving.records import stored_record
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.inference import models
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import HITS
from rag_assay.warehouse.tables import on_whole_database

if TYPE_CHECKING:
    import duckdb

SHOWN_RANKS = 3  # cells whose hits the report can show
SHOWN_HITS = 5  # of a question
LIBRARIES = (
    "dagster",
    "duckdb",
    "lancedb",
    "litellm",
    "ragas",
    "rank-bm25",
    "scrapy",
    "sentence-transformers",
    "torch",
    "trafilatura",
)


@on_whole_database
def board_data(study: Study, home: Home) -> ReportData:
    """Gather verdict and leaderboard; of scores the first metric and seconds, of answers status and price.

    Raises InputError where the study has not been run, or its files have changed since then.
    """
    result = stored_result(study, home, as_run=True)
    study, store, board = result.study, result.store, result.board
    primary = primary_of(study.measured, board["metric"])
    wanted = list(dict.fromkeys([primary, *seconds_metrics(map(study.metric, study.measured))]))
    with store.connect() as connection:
        scores, answers = stored_rows.running_rows(connection, _run_cells(board), wanted)
        frames = {
            "scores": scores,
            "answers": answers,
            "questions": stored_rows.stored_questions(connection, Grid([study]).set_keys(study.study)),
            "judge_cards": stored_rows.cards_of(connection, study),
        }
    return ReportData(
        **_common(result, study_facts(study, store), home, frames),
        hits=pl.DataFrame(schema={**HITS, **dict.fromkeys(("cell", "text", "url", "title"), pl.String)}),
    )


@on_whole_database
def report_data(
    study: Study,
    home: Home,
    notes: tuple[str, ...] = (),
    *,
    with_hits: bool = True,
    is_current: bool = False,
) -> ReportData:
    """Gather all that the report shows. Errors are `board_data`'s.

    with_hits: also what rankings found
    is_current: a run has just found that everything is up to date; do not look again
    """
    result = stored_result(study, home, as_run=True, is_current=is_current)
    study, store, board = result.study, result.store, result.board
    grid, cells = Grid([study]), _run_cells(board)
    with store.connect() as connection:
        frames = _frames(connection, study, grid, cells)
        hits = _hits(connection, study, grid, board if with_hits else board.clear(), store)
        asked = frames["questions"]
        journey = journey_rows(connection, study, store, cells, asked) if with_hits else None
    people = stored_rows.stored_people(study, store)
    facts = study_facts(study, store)
    common = _common(result, facts, home, frames)
    judged = frames["judgements"]
    pairs = stored_rows.stored_pairs(study, people, judged, store) if study.judges else None
    return ReportData(
        **{**common, "notes": (*common["notes"], *notes)},
        hits=hits,
        corpus=facts.corpus,
        recipes=facts.recipes,
        versions=_versions(study),
        journey=journey,
        people=people,
        judge_pairs=pairs,
        provenance=provenance(study, [one.digest for one in facts.corpus], board),
    )


def _run_cells(board: pl.DataFrame) -> list[str]:
    """Return the cells that could be run now: what older runs left of others is not mixed in."""
    cells: list[str] = board.filter(pl.col("cell_id").is_not_null())["cell"].unique().to_list()
    return cells


def _frames(
    connection: duckdb.DuckDBPyConnection, study: Study, grid: Grid, cells: list[str]
) -> dict[str, Any]:
    """Return the frames that are read from DuckDB alone, by their names in `ReportData`."""
    questions = stored_rows.stored_questions(connection, grid.set_keys(study.study))
    golds = {row["question_id"]: gold_of(row) for row in questions.iter_rows(named=True) if row["evidence"]}
    first, cards = first_cells(grid, cells), stored_rows.cards_of(connection, study)
    open_metrics = stored_rows.uncalibrated_metrics(study, cards)
    return {
        "questions": questions,
        "scores": stored_rows.stored_scores(connection, cells),
        "answers": stored_rows.stored_answers(connection, cells),
        "losses": stored_rows.stored_losses(connection, first),
        "contexts": curves_of(connection, first, golds),
        "judgements": stored_rows.stored_judgements(connection, list(study.judges), cells, open_metrics),
        "judge_cards": cards,
        "human_estimates": stored_rows.estimates_of(connection, study),
    }


def _common(result: StoredResult, facts: StudyFacts, home: Home, frames: Mapping[str, Any]) -> dict[str, Any]:
    """Return what any report shows, by its names in `ReportData`; frames: read from DuckDB"""
    study, store = result.study, result.store
    gone = not_run_replicates(study, store)
    run = {
        name: frames[name].join(gone, on=["cell", "replicate"], how="anti") for name in ("scores", "answers")
    }
    clusters = clustering(frames["questions"], study.clusters)
    primary = primary_of(study.measured, result.board["metric"])
    open_metrics = stored_rows.uncalibrated_metrics(study, frames["judge_cards"])
    return {
        **frames,
        **run,
        "study": study.study,
        "description": study.description,
        "seed": study.seed,
        "created_at": datetime.now(UTC),
        "metrics": _metric_infos(study, primary, open_metrics),
        "leaderboard": result.board,
        "verdict": result.verdict,
        "part": study.slice.sentence if study.slice else "",
        "judges": {
            name: (f"{judge.kind}, {judge.chat.model}" if judge.chat else judge.kind)
            for name, judge in study.judges.items()
        },
        "generators": {
            name: GeneratorFacts(one.reads, one.chat.model if one.chat else None)
            for name, one in study.generators.items()
        },
        "search": stored_record(study, home) if study.search and not study.slice else None,
        "clusters": clusters,
        "interval": interval_words(clusters, study.seed),
        "comparison": f"paired permutation test over {unit_phrase(clusters)} "
        f"({significance.RESAMPLES:,} sign flips, seed {study.seed}; p adjusted for the number of pipelines, "
        f"significant below {significance.ALPHA})",
        "chunkings": facts.chunkings,
        "unpriced": unpriced(study),
        "unmeasured": unmeasured(study),
        "duplicates": facts.duplicates,
        "planned": facts.planned,
        "notes": (*result.notes, *_not_applied(study, primary), *facts.warnings),
    }


def not_run_replicates(study: Study, store: ArtifactStore) -> pl.DataFrame:
    artifact = store.current("leaderboard", study.study)
    keys = set(artifact.meta.get(NOT_RUN, ())) if artifact else set()
    gone = [(cell.name, cell.replicate) for cell in study.runs() if cell.key in keys]
    return pl.DataFrame(gone, schema=stored_rows.OF_CELL, orient="row")


def _hits(
    connection: duckdb.DuckDBPyConnection, study: Study, grid: Grid, board: pl.DataFrame, store: ArtifactStore
) -> pl.DataFrame:
    leading = board.filter(pl.col("rank") <= SHOWN_RANKS)["cell"].unique().to_list()
    indexes: dict[str, OpenIndex] = {}
    frames = [_contexts(grid.cells[key], store) for key in sorted(leading) if grid.cells[key].has_contexts]
    for key in sorted(key for key in leading if grid.cells[key].reads_ranking):
        cell = grid.cells[key]
        sql = "SELECT * FROM current_hits WHERE ranking = ? AND rank <= ?"
        hits = stored_rows.select_rows(connection, sql, [cell.ranking, SHOWN_HITS], HITS)
        index = store.current("indexes", grid.index_key(cell))
        assert index is not None  # noqa: S101 -- the cell was scored
        folder = store.folder("indexes", index.identity)
        opened = indexes.setdefault(index.identity, OpenIndex(folder))
        known = opened.spans.rows if len(hits) else {}
        texts = [
            opened.passage(doc_id, start, end) if doc_id in known else None
            for doc_id, start, end in hits.select("doc_id", "start", "end").iter_rows()
        ]
        frames.append(hits.with_columns(pl.Series("text", texts, pl.String), cell=pl.lit(key)))
    schema = {**HITS, "text": pl.String, "cell": pl.String}
    hits = pl.concat(frames) if frames else pl.DataFrame(schema=schema)
    titles = stored_rows.stored_documents(study, store, set(hits["doc_id"]), ("doc_id", "url", "title"))
    return hits.join(titles, on="doc_id", how="left")


def _contexts(cell: Cell, store: ArtifactStore) -> pl.DataFrame:
    answers = store.current("answers", cell.key)
    assert answers is not None  # noqa: S101 -- the cell was scored
    rows = [
        [question, rank, one.chunk, one.document or one.chunk, one.start, one.end, None, one.text, cell.key]
        for question, passages in contexts_of(store, answers).items()
        for rank, one in enumerate(passages[:SHOWN_HITS], 1)
    ]
    return pl.DataFrame(rows, schema={**HITS, "text": pl.String, "cell": pl.String}, orient="row")


def first_cells(grid: Grid, cells: Iterable[str]) -> dict[str, str]:
    """Return ranking -> the first of its cells."""
    first: dict[str, str] = {}
    for key in sorted(key for key in cells if key in grid.cells):
        if grid.cells[key].reads_ranking:
            first.setdefault(grid.cells[key].ranking, key)
    return first


def _metric_infos(study: Study, primary: str, open_metrics: frozenset[str]) -> tuple[MetricInfo, ...]:
    """The metric that ranks comes first; uncalibrated ones say so in their title."""
    found = []
    for metric in map(study.metric, study.measured):
        names = ("name", "title", "kind", "higher_is_better", "bounds", "unit", "explanation", "sees")
        facts: dict[str, Any] = {name: getattr(metric, name) for name in names}
        if metric.name in open_metrics:
            facts["title"] += f" ({stored_rows.UNCALIBRATED})"
        found.append(MetricInfo(**facts, of_rankings=metric.reads <= OF_RANKING))
    return tuple(sorted(found, key=lambda metric: metric.name != primary))


@cache
def _installed(name: str) -> str:
    return version(name)  # stays what it is while a process has the package loaded


def _versions(study: Study) -> dict[str, str]:
    found = {name: _installed(name) for name in ("rag-assay", *LIBRARIES)}
    generators = [one.chat.model for one in study.generators.values() if one.chat]
    names = {name.removeprefix("local/") for name in generators if name.startswith("local/")}
    return found | {name: models.digest(name) for name in sorted(names)} | weight_digests(study)


def _not_applied(study: Study, primary: str) -> list[str]:
    """Say that the intended primary metric applies to no question."""
    if primary == study.metrics[0]:
        return []
    first, other = study.metric(study.metrics[0]).title, study.metric(primary).title
    return [f"{first} applies to none of the questions: the cells are ranked by {other}"]
