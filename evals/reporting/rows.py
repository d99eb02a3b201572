"""Reads the current rows of one study from DuckDB for a report."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import polars as pl

from rag_assay.evals.judging.contract import Judge
from rag_assay.evals.leaderboard import NOT_RUN
from rag_assay.evals.metrics.contract import OF_RANKING, Metric
from rag_assay.evals.pipeline.imported_answers import contexts_of
from rag_assay.evals.reporting.context_curves import context_curves
from rag_assay.evals.reporting.data import GeneratorFacts, MetricInfo, ReportData
from rag_assay.evals.reporting.journey.rows import journey_rows
from rag_assay.evals.reporting.power import unit_phrase
from rag_assay.evals.reporting.provenance import provenance
from rag_assay.evals.reporting.stale_results import stored_result
from rag_assay.evals.reporting.stored_cards import UNCALIBRATED, cards_of, estimates_of, uncalibrated_metrics
from rag_assay.evals.reporting.stored_costs import running_rows
from rag_assay.evals.reporting.stored_pairs import stored_pairs
from rag_assay.evals.reporting.stored_ratings import stored_people
from rag_assay.evals.reporting.stored_rows import (
    OF_CELL,
    select_rows,
    stored_answers,
    stored_judgements,
    stored_losses,
    stored_questions,
    stored_scores,
)
from rag_assay.evals.reporting.study_facts import StudyFacts, study_facts
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.statistics import significance
from rag_assay.evals.statistics.bootstrap import CONFIDENCE, RESAMPLES
from rag_assay.evals.statistics.comparison import primary_of
from rag_assay.evals.statistics.question_clusters import Clustering, clustering
from rag_assay.evals.statistics.verdict import Verdict
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.complexity import unpriced
from rag_assay.evals.study.coverage import unmeasured
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.evals.successive_halving.records import stored_record
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.inference import models
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import ANSWERS, HITS, QUESTIONS, SCORES, Schema
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
def leaderboard_rows(study: Study, home: Home) -> pl.DataFrame:
    """Return the current leaderboard of a study (schemas.LEADERBOARD).

    Raises:
        InputError: the study has not been run, or not as its file is now.
    """
    return stored_result(study, home).board


@on_whole_database
def stored_verdict(study: Study, home: Home, *, as_run: bool = False) -> Verdict:
    """Return the verdict of a study as its leaderboard was made (`stored_result`).

    Raises:
        InputError: the study has not been run, or (not ``as_run``) not as its file is now.
    """
    return stored_result(study, home, as_run=as_run).verdict


@on_whole_database
def board_data(study: Study, home: Home) -> ReportData:
    """Gather what the leaderboard of a study says, and what its cells cost: much less, and much sooner.

    Of scores there are only the seconds, and of answers only the prices; of questions and hits nothing.

    Raises:
        InputError: the study has not been run, or the files that it names have changed since then.
    """
    result = stored_result(study, home, as_run=True)
    study, store, board = result.study, result.store, result.board
    with store.connect() as connection:
        cards = cards_of(connection, study)
    metrics = _metric_infos(
        study, primary_of(study.measured, board["metric"]), uncalibrated_metrics(study, cards)
    )
    seconds = [one.name for one in metrics if one.kind == "cost" and one.unit == "s"]
    scores, answers = running_rows(study, home, seconds)
    return ReportData(
        **_named(study, home),
        created_at=datetime.now(UTC),
        metrics=metrics,
        leaderboard=board,
        verdict=result.verdict,
        questions=pl.DataFrame(schema=QUESTIONS),
        scores=_widened(scores, {**SCORES, **OF_CELL}),
        answers=_widened(answers, {**ANSWERS, **OF_CELL}),
        hits=pl.DataFrame(schema={**HITS, **dict.fromkeys(("cell", "text", "url", "title"), pl.String)}),
        unpriced=unpriced(study),
        notes=result.notes,
    )


def _widened(rows: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Return rows with the columns of a schema, NULL where they had none."""
    return pl.concat([pl.DataFrame(schema=schema), rows], how="diagonal")


@on_whole_database
def report_data(
    study: Study, home: Home, notes: tuple[str, ...] = (), *, with_hits: bool = True
) -> ReportData:
    """Gather all that the report of a study shows.

    with_hits: also what rankings found, with texts: leading cells' hits from their indexes, all others
        from the documents

    Raises:
        InputError: the study has not been run, or the files that it names have changed since then.
    """
    result = stored_result(study, home, as_run=True)
    study, store, board = result.study, result.store, result.board
    grid = Grid([study])
    with store.connect() as connection:
        # Without the cells that could not be run now: what older runs left of them is not mixed in.
        cells = board.filter(pl.col("cell_id").is_not_null())["cell"].unique().to_list()
        questions = stored_questions(connection, grid.set_keys(study.study))
        scores = stored_scores(connection, cells)
        answers = stored_answers(connection, cells)
        hits = _hits(connection, study, grid, board if with_hits else board.clear(), store)
        journey = journey_rows(connection, study, store, cells, questions) if with_hits else None
        losses = stored_losses(connection, _first_cells(grid, cells))
        contexts = context_curves(connection, grid, cells, questions)
        judged = _judged(connection, study, cells)
    primary = primary_of(study.measured, board["metric"])
    facts = study_facts(study, store)
    gone = _not_run(study, store)
    clusters = clustering(questions, study.clusters)
    people = stored_people(study, store)
    return ReportData(
        **_named(study, home),
        created_at=datetime.now(UTC),
        metrics=_metric_infos(study, primary, uncalibrated_metrics(study, judged["judge_cards"])),
        leaderboard=board,
        verdict=result.verdict,
        questions=questions,
        scores=scores.join(gone, on=["cell", "replicate"], how="anti"),
        answers=answers.join(gone, on=["cell", "replicate"], how="anti"),
        hits=hits,
        corpus=facts.corpus,
        chunkings=facts.chunkings,
        recipes=facts.recipes,
        versions=_versions(study),
        notes=(*result.notes, *_not_applied(study, primary), *facts.warnings, *notes),
        interval=_interval(study, clusters),
        comparison=_comparison(study, clusters),
        clusters=clusters,
        losses=losses,
        contexts=contexts,
        **judged,
        journey=journey,
        people=people,
        judge_pairs=stored_pairs(study, people, judged["judgements"], store) if study.judges else None,
        **_of_grid(study, store, facts, board),
    )


def _of_grid(study: Study, store: ArtifactStore, facts: StudyFacts, board: pl.DataFrame) -> dict[str, Any]:
    """Return what is known of the cells and the corpus beside their figures."""
    return {
        "unpriced": unpriced(study),
        "unmeasured": unmeasured(study),
        "duplicates": facts.duplicates,
        "planned": facts.planned,
        "provenance": provenance(study, store, board),
    }


def _judged(connection: duckdb.DuckDBPyConnection, study: Study, cells: list[str]) -> dict[str, Any]:
    """Return what judges said, their cards, and estimates of what people would say."""
    cards = cards_of(connection, study)
    said = stored_judgements(connection, list(study.judges), cells, uncalibrated_metrics(study, cards))
    return {"judgements": said, "judge_cards": cards, "human_estimates": estimates_of(connection, study)}


def _named(study: Study, home: Home) -> dict[str, Any]:
    """Return what a study says of itself, and which part of its grid was run."""
    part = study.slice.sentence if study.slice else ""
    found = stored_record(study, home) if study.search and not study.slice else None
    return {
        "study": study.study,
        "description": study.description,
        "seed": study.seed,
        "part": part,
        "judges": {name: _what(judge) for name, judge in study.judges.items()},
        "generators": _generator_facts(study),
        "search": found,
    }


def _not_run(study: Study, store: ArtifactStore) -> pl.DataFrame:
    """Return the replicates without values on the leaderboard: what older runs left of them is not shown."""
    artifact = store.current("leaderboard", study.study)
    keys = set(artifact.meta.get(NOT_RUN, ())) if artifact else set()
    gone = [(cell.name, cell.replicate) for cell in study.runs() if cell.key in keys]
    return pl.DataFrame(gone, schema=OF_CELL, orient="row")


def _hits(
    connection: duckdb.DuckDBPyConnection, study: Study, grid: Grid, board: pl.DataFrame, store: ArtifactStore
) -> pl.DataFrame:
    """Return the first hits of the leading cells, with the delivered text, the URL and the title."""
    leading = board.filter(pl.col("rank") <= SHOWN_RANKS)["cell"].unique().to_list()
    indexes: dict[str, OpenIndex] = {}
    frames = [_contexts(grid.cells[key], store) for key in sorted(leading) if grid.cells[key].imported]
    for key in sorted(key for key in leading if grid.cells[key].reads_ranking):
        cell = grid.cells[key]
        hits = select_rows(
            connection,
            "SELECT * FROM current_hits WHERE ranking = ? AND rank <= ?",
            [cell.ranking, SHOWN_HITS],
            HITS,
        )
        index = store.current("indexes", grid.index_key(cell))
        assert index is not None  # noqa: S101 -- the cell was scored
        folder = store.folder("indexes", index.identity)
        opened = indexes.setdefault(index.identity, OpenIndex(folder))
        texts = pl.Series("text", _passages(hits, opened), dtype=pl.String)
        frames.append(hits.with_columns(texts, pl.lit(key).alias("cell")))
    schema = {**HITS, "text": pl.String, "cell": pl.String}
    hits = pl.concat(frames) if frames else pl.DataFrame(schema=schema)
    return hits.join(_titles(study, store, hits["doc_id"].unique()), on="doc_id", how="left")


def _contexts(cell: Cell, store: ArtifactStore) -> pl.DataFrame:
    """Return the first contexts of an imported cell as its hits: each is a document by itself."""
    answers = store.current("answers", cell.key)
    assert answers is not None  # noqa: S101 -- the cell was scored
    rows = [
        [question, rank, one.chunk, one.chunk, one.start, one.end, None, one.text, cell.key]
        for question, passages in contexts_of(store, answers).items()
        for rank, one in enumerate(passages[:SHOWN_HITS], 1)
    ]
    return pl.DataFrame(rows, schema={**HITS, "text": pl.String, "cell": pl.String}, orient="row")


def _passages(hits: pl.DataFrame, index: OpenIndex) -> list[str | None]:
    """Return what each hit delivers: its span of the document, which may be wider than its chunk.

    None where the index as it is now has no such document.
    """
    known = index.spans.rows if len(hits) else {}
    return [
        index.passage(doc_id, start, end) if doc_id in known else None
        for doc_id, start, end in hits.select("doc_id", "start", "end").iter_rows()
    ]


def _first_cells(grid: Grid, cells: list[str]) -> dict[str, str]:
    """Return ranking -> the first of the cells that read it; a study may have lost some since it was run."""
    first: dict[str, str] = {}
    for key in sorted(key for key in cells if key in grid.cells):
        if grid.cells[key].reads_ranking:
            first.setdefault(grid.cells[key].ranking, key)
    return first


def _titles(study: Study, store: ArtifactStore, documents: pl.Series) -> pl.DataFrame:
    """Return URL and title of these documents; nothing is read where there are none."""
    if documents.is_empty() or not study.corpus.sources:
        return pl.DataFrame(schema={"doc_id": pl.String, "url": pl.String, "title": pl.String})
    frames = [
        read_parquet(store.folder("documents", a.identity) / "documents.parquet", ["doc_id", "url", "title"])
        for a in (store.current("documents", source) for source in study.corpus.sources)
        if a
    ]
    titles = pl.concat(frames)
    return titles.filter(titles["doc_id"].is_in(documents.implode()))


def _metric_infos(study: Study, primary: str, open_metrics: frozenset[str]) -> tuple[MetricInfo, ...]:
    """Return what is measured, first what ranks the cells; what is uncalibrated says so in its title."""
    infos = (_metric_info(study.metric(name)) for name in study.measured)
    found = [
        replace(one, title=f"{one.title} ({UNCALIBRATED})") if one.name in open_metrics else one
        for one in infos
    ]
    return tuple(sorted(found, key=lambda metric: metric.name != primary))


def _generator_facts(study: Study) -> dict[str, GeneratorFacts]:
    return {
        name: GeneratorFacts(one.reads, one.chat.model if one.chat else None)
        for name, one in study.generators.items()
    }


def _what(judge: Judge) -> str:
    return f"{judge.kind}, {judge.chat.model}" if judge.chat else judge.kind


def _metric_info(metric: Metric) -> MetricInfo:
    return MetricInfo(
        name=metric.name,
        title=metric.title,
        kind=metric.kind,
        higher_is_better=metric.higher_is_better,
        bounds=metric.bounds,
        unit=metric.unit,
        explanation=metric.explanation,
        sees=metric.sees,
        of_rankings=metric.reads <= OF_RANKING,
    )


@cache
def _installed(name: str) -> str:
    """Return the version of a package, which stays what it is while a process has it loaded."""
    return version(name)


def _versions(study: Study) -> dict[str, str]:
    found = {name: _installed(name) for name in ("rag-assay", *LIBRARIES)}
    local = {r.model: r.weights_identity() for r in study.embedders.values() if r.api is None}
    generators = [one.chat.model for one in study.generators.values() if one.chat]
    names = {name.removeprefix("local/") for name in generators if name.startswith("local/")}
    return found | {name: models.digest(name) for name in sorted(names)} | dict(sorted(local.items()))


def _interval(study: Study, clusters: Clustering) -> str:
    return (
        f"{CONFIDENCE:.0%} interval over {unit_phrase(clusters)}: of bounded metrics Wilson's with "
        f"the design effect, else the studentised bootstrap's ({RESAMPLES:,} resamples, seed {study.seed})"
    )


def _comparison(study: Study, clusters: Clustering) -> str:
    return (
        f"paired permutation test over {unit_phrase(clusters)} ({significance.RESAMPLES:,} sign flips, seed "
        f"{study.seed}; p adjusted for the number of pipelines, significant below {significance.ALPHA})"
    )


def _not_applied(study: Study, primary: str) -> list[str]:
    """Say so where the metric that was to rank the cells applies to no question, and another one does."""
    if primary == study.metrics[0]:
        return []
    first, other = study.metric(study.metrics[0]).title, study.metric(primary).title
    return [f"{first} applies to none of the questions: the cells are ranked by {other}"]
