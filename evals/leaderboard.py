"""leaderboard: the cells of a study compared, one partition a study."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl

from assets.engine.stage import Built, Check, Need, Stage, Work
from evals.measuring import get_metric
from evals.measuring.bootstrap import CONFIDENCE, RESAMPLES, bootstrap
from evals.measuring.comparison import (
    UNCOMPARED,
    Valued,
    answered,
    compared,
    leader_of,
    primary_of,
    with_ranks,
)
from evals.measuring.contract import Metric
from evals.pipeline.stage_inputs import read_questions
from evals.study.cells import NO_GENERATOR, Cell
from evals.study.grid import Grid
from evals.study.study import Study
from warehouse.artifacts import Artifact
from warehouse.identity import digest
from warehouse.parquet import frame, read_parquet, write_parquet
from warehouse.schemas import LEADERBOARD, MIN_COVERAGE, SCORES, Status

Answered = Callable[[Cell, Iterable[str]], float | None]


class Leaderboard(Stage):
    """Means with intervals for every cell and metric; cells are compared on the same questions only."""

    name = "leaderboard"
    group = "grid"
    description = (
        "Value, number of questions, coverage and bootstrap interval of every cell and metric. Every "
        "question counts in every cell; below 98 % coverage, of values or of answers, a cell has no rank, "
        "and its best and worst case are shown. A paired bootstrap with Holm's correction says which cells "
        "cannot be told apart from the leader. Cells that were asked a sample are compared on that sample."
    )
    code_version = "3"
    upstream = ("scores", "answers", "questions")
    tolerates_gaps = True
    checks: ClassVar[dict[str, str]] = {
        "equal_questions": "Every cell of a subset is measured on the same questions.",
        "covered": "Every cell has a value and an answer for at least 98 % of the questions, in each metric.",
    }

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    def keys(self) -> list[str]:
        """Return the names of the studies."""
        return sorted(self.grid.studies)

    def needs(self, key: str) -> list[Need]:
        """Return scores and answers of every cell of the study that could be run, and the questions."""
        run = [cell for cell in self.grid.studies[key].cells() if self._is_run(cell)]
        answers = [Need("answers", cell.key) for cell in run if cell.generator != NO_GENERATOR]
        sets = [Need("questions", name) for name in self.grid.set_keys(key)] if run else []
        return [*(Need("scores", cell.key) for cell in run), *answers, *sets]

    def _is_run(self, cell: Cell) -> bool:
        return Need("scores", cell.key) not in self.without

    def recipes(self, key: str) -> dict[str, str]:
        """Return the digests of what compares the cells, of their names, and of those that were not run.

        Compared by metrics in their order, seed, interval. The names are part of every row, so that another
        name is another leaderboard, however equal the scores.
        """
        study = self.grid.studies[key]
        named = [[*cell.key.split("."), cell.sample] for cell in study.cells()]
        gaps = [cell.key for cell in study.cells() if Need("scores", cell.key) in self.without]
        return {
            f"comparison.{key}": digest([list(study.metrics), study.seed, RESAMPLES, CONFIDENCE]),
            f"cells.{key}": digest(named),
            **({f"gaps.{key}": digest(gaps)} if gaps else {}),
        }

    def regarded(self, artifact: Artifact) -> list[str]:
        """Return also which scores they are: a row says of which cell, by the identity of its answers."""
        return [*super().regarded(artifact), artifact.identity]

    def build(self, key: str, folder: Path, work: Work) -> Built:
        """Compare the cells of one study."""
        study = self.grid.studies[key]
        run = {cell: read_scores(cell, work) for cell in study.cells() if self._is_run(cell)}
        scores = {cell: run[cell] if cell in run else not_run(cell, run) for cell in study.cells()}
        rows = board_rows(study, scores, self._answered(key, run, work))
        uneven = _uneven(rows)
        rows = _with_cell_ids(rows, run, work)
        board = frame(rows, LEADERBOARD)
        write_parquet(board, folder / "leaderboard.parquet")
        primary = primary_of(study.metrics, board["metric"])
        best = board.filter(
            (pl.col("rank") == 1) & (pl.col("subset") == "all") & (pl.col("metric") == primary)
        )
        meta: dict[str, Any] = {
            "cells": len(scores),
            "cells_not_run": len(scores) - len(run),
            "metrics": len(study.metrics),
            "rows": len(rows),
        }
        if len(best):
            top = best.row(0, named=True)
            meta["highest"] = (
                f"{top['cell']}: {primary} {top['value']:.3f} [{top['low']:.3f}, {top['high']:.3f}]"
            )
        return Built(digest([[*row.values()] for row in rows]), meta, _checks(board, uneven))

    def _answered(self, key: str, run: Iterable[Cell], work: Work) -> Answered:
        """Return the share of questions that a cell answered; None for cells without a generator."""
        questions = read_questions(self.inputs(key, work.store), work)
        answerable = dict(questions.select("question_id", "answerable").iter_rows())
        answers = {cell: read_answers(cell, work) for cell in run if cell.generator != NO_GENERATOR}

        def share(cell: Cell, ids: Iterable[str]) -> float | None:
            if cell.generator == NO_GENERATOR:
                return None
            return answered(answers[cell], answerable, ids) if cell in answers else 0.0

        return share


def board_rows(study: Study, scores: dict[Cell, pl.DataFrame], share: Answered) -> list[dict[str, Any]]:
    """Return the rows of a study's leaderboard (schemas.LEADERBOARD), ranked and compared.

    Args:
        scores: of each cell, schemas.SCORES.
        share: (cell, question ids) -> the share of them that the cell answered; None without a generator.
    """
    metrics = [get_metric(name) for name in study.metrics]
    primary = get_metric(primary_of(study.metrics, (n for rows in scores.values() for n in rows["metric"])))
    rows: list[dict[str, Any]] = []
    for subset, ids in subsets(study, scores).items():
        dealt = {cell.key: share(cell, ids) for cell in scores if _is_of(cell, subset)}
        valued = {metric.name: _compare(study, metric, subset, ids, scores, dealt) for metric in metrics}
        ranked = with_ranks([row for found in valued.values() for row, _ in found], primary)
        ranks = {row["cell"]: row["rank"] for row in ranked}
        leader = leader_of(ranked, primary)
        able = {cell for cell, rank in ranks.items() if rank is not None}
        for metric in metrics:
            with_rank = [({**row, "rank": ranks[row["cell"]]}, values) for row, values in valued[metric.name]]
            rows += compared(with_rank, leader, able, study.seed)
    return rows


def _uneven(rows: list[dict[str, Any]]) -> list[str]:
    counts: dict[str, set[int]] = {}
    for row in rows:
        counts.setdefault(f"{row['metric']} on {row['subset']}", set()).add(row["n"])
    return [name for name, found in counts.items() if len(found) > 1]


def _checks(board: pl.DataFrame, uneven: list[str]) -> tuple[Check, ...]:
    thin = board.filter((pl.col("coverage") < MIN_COVERAGE) | (pl.col("answered") < MIN_COVERAGE))
    cells = sorted(set(thin["cell"]))
    return (
        Check(
            "equal_questions",
            not uneven,
            f"{len(uneven)} metrics with unequal numbers of questions",
            {"uneven": uneven},
        ),
        Check(
            "covered",
            not cells,
            f"{len(cells)} cells lack values" + (f", first {cells[0]}" if cells else ""),
            {"cells": cells[:50]},
            severe=False,
        ),
    )


def read_scores(cell: Cell, work: Work) -> pl.DataFrame:
    """Read the current scores of a cell (schemas.SCORES)."""
    artifact = work.store.current("scores", cell.key)
    assert artifact is not None  # noqa: S101 -- `Stage.inputs` has seen it
    return read_parquet(work.store.folder("scores", artifact.identity) / "scores.parquet")


def read_answers(cell: Cell, work: Work) -> pl.DataFrame:
    """Read the current answers of a cell (schemas.ANSWERS)."""
    artifact = work.store.current("answers", cell.key)
    assert artifact is not None  # noqa: S101 -- `Stage.inputs` has seen it
    return read_parquet(work.store.folder("answers", artifact.identity) / "answers.parquet")


def not_run(cell: Cell, run: dict[Cell, pl.DataFrame]) -> pl.DataFrame:
    """Return scores without values for a cell that could not be run: the questions and metrics of its like.

    So it stays on the leaderboard, with coverage 0 and the same denominator, and is not silently absent.
    """
    like = [rows for other, rows in run.items() if other.sample == cell.sample]
    asked = pl.concat(like) if like else frame([], SCORES)
    return asked.unique(["question_id", "metric"]).with_columns(
        pl.lit(str(Status.NOT_RUN)).alias("status"),
        pl.lit(None, pl.Float64).alias("value"),
        pl.lit("what the cell needs failed").alias("reason"),
    )


def subsets(study: Study, scores: dict[Cell, pl.DataFrame]) -> dict[str, list[str]]:
    """Return subset name -> question ids: all questions, and every sample that some cell was asked."""
    everything: dict[str, None] = {}
    found: dict[str, list[str]] = {}
    for cell, rows in scores.items():
        ids = list(dict.fromkeys(rows["question_id"]))
        if cell.sample is None:
            everything.update(dict.fromkeys(ids))
        else:
            found[cell.subset] = sorted(set(found.get(cell.subset, [])) | set(ids))
    return ({"all": sorted(everything)} if everything else {}) | found


def _is_of(cell: Cell, subset: str) -> bool:
    return cell.sample is None or (subset != "all" and cell.subset == subset)


def _compare(
    study: Study,
    metric: Metric,
    subset: str,
    ids: list[str],
    scores: dict[Cell, pl.DataFrame],
    dealt: Mapping[str, float | None],
) -> Valued:
    found: Valued = []
    for cell, frame_ in scores.items():
        if not _is_of(cell, subset):
            continue
        mine = frame_.filter((pl.col("metric") == metric.name) & pl.col("question_id").is_in(ids)).sort(
            "question_id"
        )
        if len(mine):
            values = dict(mine.drop_nulls("value").select("question_id", "value").iter_rows())
            found.append((_row(study, cell, metric, subset, mine) | {"answered": dealt[cell.key]}, values))
    return found


def _row(study: Study, cell: Cell, metric: Metric, subset: str, scores: pl.DataFrame) -> dict[str, Any]:
    values = scores["value"].drop_nulls().to_numpy().astype(np.float64)
    interval = bootstrap(values, study.seed)
    missing = len(scores) - len(values)
    lowest, highest = (_bounded(values, missing, bound) for bound in metric.bounds)
    return {
        "study": study.study,
        "subset": subset,
        "cell": cell.key,
        "cell_id": None,
        "chunking": cell.chunking,
        "embedder": cell.embedder,
        "retriever": cell.retriever,
        "generator": cell.generator,
        "metric": metric.name,
        "value": interval.mean if interval else None,
        "n": len(scores),
        "coverage": len(values) / len(scores),
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
        "worst": lowest if metric.higher_is_better else highest,
        "best": highest if metric.higher_is_better else lowest,
        "rank": None,
        **UNCOMPARED,
        "answered": None,
    }


def _bounded(values: np.ndarray, missing: int, bound: float | None) -> float | None:
    """Return the mean if every missing value were at the metric's bound; None where there is no bound."""
    if missing and bound is None:
        return None
    if not missing:
        return float(values.mean()) if len(values) else None
    return float((values.sum() + missing * float(bound or 0.0)) / (len(values) + missing))


def _with_cell_ids(
    rows: list[dict[str, Any]], run: dict[Cell, pl.DataFrame], work: Work
) -> list[dict[str, Any]]:
    """Add the identity of each cell that was run: of its answers or, where it has none, its scores."""
    ids: dict[str, str] = {}
    for key in (cell.key for cell in run):
        artifact = work.store.current("answers", key) or work.store.current("scores", key)
        if artifact:
            ids[key] = artifact.identity
    return [{**row, "cell_id": ids.get(row["cell"])} for row in rows]
