"""A study that never ran, of any size, as a home's database holds it: what `benchmarks.report` measures.

By default 1,000 questions x 100 cells x 10 metrics: a million scores. Texts are made of words as often as
words of a language are; passages are spans of documents; of a question all rankings find much the same, and
half of the cells give much the same answer. One value of a hundred is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl

from benchmarks.report_rows import (
    CHUNKINGS,
    GENERATORS,
    METRICS,
    RETRIEVERS,
    STUDY,
    Size,
    Texts,
    answers_of,
    cross,
    documents_of,
    hits_of,
    judgements_of,
    losses_of,
    questions_of,
    ranked_of,
    scores_of,
)
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.rating_scores import CELLS, ScoresOfPeople
from rag_assay.evals.rubrics.points import Points
from rag_assay.evals.statistics.question_clusters import ALONE
from rag_assay.evals.statistics.verdict import Verdict, VerdictInputs, labels_of, verdict_on
from rag_assay.warehouse.schemas import (
    AGREEMENT,
    ANNOTATIONS,
    HUMAN_SCORES,
    LEADERBOARD,
)


@dataclass(frozen=True)
class Made:
    """The rows of the study, by table, and its documents.

    rows: with `cell` (and `replicate`) or `ranking`
    documents: doc_id, url, title, text
    """

    size: Size
    rows: dict[str, pl.DataFrame]
    documents: pl.DataFrame
    cells: list[dict[str, Any]]
    people: ScoresOfPeople

    @property
    def rankings(self) -> dict[str, str]:
        """Each ranking, and the cell that stands for it."""
        found: dict[str, str] = {}
        for cell in self.cells:
            found.setdefault(ranking_of(cell), cell["cell"])
        return found


def ranking_of(cell: dict[str, Any]) -> str:
    """Return the key of the ranking that a cell reads."""
    return ".".join([STUDY, cell["chunking"], cell["embedder"], cell["retriever"]])


def made(size: Size, seed: int = 7) -> Made:
    """Make a study of a size."""
    draw = np.random.default_rng(seed)
    texts = Texts(draw)
    documents = documents_of(size, texts)
    cells = [
        {
            "cell": f"{STUDY}.{c}.minilm.{r}.{g}",
            "chunking": c,
            "embedder": "minilm",
            "retriever": r,
            "generator": g,
        }
        for c in CHUNKINGS[: size.chunkings]
        for r in RETRIEVERS[: size.retrievers]
        for g in GENERATORS
    ]
    questions = questions_of(size, texts, draw, documents)
    rankings = list(dict.fromkeys(map(ranking_of, cells)))
    hits = hits_of(size, rankings, draw)
    answers = answers_of(size, cells, texts, draw)
    rows = {
        "questions": questions,
        "hits": hits,
        "ranked": ranked_of(size, rankings, draw),
        "losses": losses_of(size, rankings, draw),
        "answers": answers,
        "scores": scores_of(size, cells, draw),
        "judgements": judgements_of(size, cells, texts, draw),
    }
    rows["leaderboard"] = _board(rows["scores"], cells)
    return Made(size, rows, documents, cells, _people(size, cells, draw))


def data_of(study: Made, rows: dict[str, pl.DataFrame]) -> ReportData:
    """Return the report's data; `rows` as they were read, by table, `hits` with their texts."""
    return ReportData(
        study=STUDY,
        description="A study that never ran",
        seed=7,
        created_at=datetime.now(UTC),
        metrics=METRICS,
        leaderboard=rows["leaderboard"],
        verdict=_verdict(rows["leaderboard"]),
        questions=rows["questions"],
        scores=rows["scores"],
        answers=rows["answers"],
        hits=rows["hits"],
        losses=rows["losses"],
        contexts=rows["contexts"],
        judgements=rows["judgements"],
        judges={"model": "llm, openai/some-model"},
        people=study.people,
    )


def _verdict(board: pl.DataFrame) -> Verdict:
    rows = board.to_dicts()
    return verdict_on(STUDY, rows, METRICS, VerdictInputs(labels_of(rows), {}, {}, ALONE))


def _board(scores: pl.DataFrame, cells: list[dict[str, Any]]) -> pl.DataFrame:
    """Return rows as wide as those of a leaderboard, their tests by a rule of thumb."""
    value = pl.col("value")
    means = scores.group_by("cell", "metric", maintain_order=True).agg(
        value=value.mean(), n=pl.len(), coverage=value.is_not_null().mean(), sd=value.std()
    )
    primary = METRICS[0].name
    first = means.filter(pl.col("metric") == primary).sort("value", descending=True)
    ranks = first.with_row_index("rank", 1).select("cell", "rank")
    leader = str(first["cell"][0])
    led = means.filter(pl.col("cell") == leader).select("metric", led="value")
    half = 1.96 * pl.col("sd") / pl.col("n").sqrt()
    found = (
        means.join(pl.DataFrame(cells), on="cell")
        .join(ranks, on="cell")
        .join(led, on="metric")
        .with_columns(
            study=pl.lit(STUDY),
            subset=pl.lit("all"),
            cell_id=pl.col("cell"),
            low=value - half,
            high=value + half,
            worst=value - 0.01,
            best=value + 0.01,
            leader=pl.lit(leader),
            difference=value - pl.col("led"),
            tied=(value - pl.col("led")).abs() < half,
            p=pl.lit(0.04),
            coverage=pl.lit(1.0),
            answered=pl.lit(1.0),
            replicates=pl.lit(1),
            tie_group=pl.col("rank") // 10 + 1,
            p_best=1 / pl.col("rank") / 6,
        )
    )
    missing = [
        pl.lit(None, kind).alias(name) for name, kind in LEADERBOARD.items() if name not in found.columns
    ]
    return found.with_columns(*missing).select(pl.col(name).cast(kind) for name, kind in LEADERBOARD.items())


def _people(size: Size, cells: list[dict[str, Any]], draw: np.random.Generator) -> ScoresOfPeople:
    keys = [one["cell"] for one in cells]
    rows = cross(size, keys, "cell")
    drawn = pl.Series(draw.permutation(len(rows)) < size.scored)
    value = pl.Series(draw.choice([0.0, 3.0, 5.0], len(rows)))
    values = rows.with_columns(
        rubric=pl.lit("points"),
        criterion=pl.lit(None, pl.String),
        value=pl.when(drawn).then(value),
        annotators=pl.when(drawn).then(2).otherwise(0),
        low=pl.when(drawn).then(value * 0.6),
        high=pl.when(drawn).then(value),
        skipped=pl.lit(0),
        item_id=pl.concat_str("cell", "question_id"),
        probability=pl.lit(size.scored / len(rows)),
    ).cast(pl.Schema(ANNOTATIONS))
    scored = values.filter(pl.col("value").is_not_null())
    filled: dict[str, Any] = {name: pl.lit(None, kind) for name, kind in HUMAN_SCORES.items()}
    scores = [
        scored.with_columns(
            **filled
            | {
                "score_id": pl.concat_str("item_id", pl.lit(who)),
                "study": pl.lit(STUDY),
                "annotator": pl.lit(who),
                "item_id": "item_id",
                "rubric": "rubric",
                "value": "value",
                "status": pl.lit("ok"),
                "showing": pl.lit(1, pl.Int64),
                "position": pl.int_range(1, pl.len() + 1),
                "seconds": pl.lit(30.0),
                "comment": pl.lit("it says half of it"),
                "scored_at": pl.lit(datetime(2026, 11, 2, tzinfo=UTC)),
            }
        ).select(*HUMAN_SCORES)
        for who in ("ada", "ben")
    ]
    places = pl.DataFrame([{"key": one["cell"], "replicate": 1, **one} for one in cells]).select(*CELLS)
    agreement = pl.DataFrame(schema=AGREEMENT)
    return ScoresOfPeople(
        {"points": Points()},
        places,
        values.select(*ANNOTATIONS),
        pl.concat(scores),
        agreement,
        {},
        "assay ui --page review",
    )
