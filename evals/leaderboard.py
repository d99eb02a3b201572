"""leaderboard: the cells of a study compared, one partition a study."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from rag_assay.assets.engine.stage import BuildContext, BuildResult, Check, Headline, PartitionRef
from rag_assay.assets.engine.table import Plot, PlotInterval, StageTable, intervals
from rag_assay.evals.judging.judge_metrics import JudgedScores
from rag_assay.evals.metrics.costs import running_costs
from rag_assay.evals.pipeline.stage_inputs import GridStage, read_questions, read_rows
from rag_assay.evals.statistics.bootstrap import CONFIDENCE, RESAMPLES
from rag_assay.evals.statistics.comparison import answered_share, primary_of
from rag_assay.evals.statistics.verdict import Verdict, VerdictInputs, labels_of, verdict_on
from rag_assay.evals.study.cells import NO_GENERATOR, Cell
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.parquet import frame, write_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import ANSWERS, LEADERBOARD, QUESTIONS, SCORES, VERDICTS

if TYPE_CHECKING:
    from rag_assay.evals.statistics.board import Answered
    from rag_assay.evals.statistics.question_clusters import Clustering

_PRICES = ("usd", "prompt_tokens", "completion_tokens")
NOT_RUN = "not_run"
"""Where the meta of a leaderboard says which replicates could not be run."""


_PLOTTED = ("subset", "cell", "metric", "value", "low", "high", "rank")


def _best_first(rows: pl.LazyFrame) -> pl.LazyFrame:
    first = pl.col("metric") == pl.col("metric").first()
    return rows.filter(first & (pl.col("subset") == pl.col("subset").first())).sort("rank", nulls_last=True)


def _intervals(rows: pl.DataFrame) -> str | None:
    ranked = _best_first(rows.lazy()).drop_nulls("value").select("cell", "value", "low", "high").collect()
    return intervals([PlotInterval(*row) for row in ranked.iter_rows()])


class Leaderboard(GridStage):
    """Means with intervals for every cell and metric; cells are compared on the same questions only."""

    name = "leaderboard"
    description = (
        "Value, number of questions, coverage and interval of every cell and metric, and the verdict: which "
        "pipeline to use. Every question counts in every cell; below 98 % coverage, of values or of answers, "
        "a cell has no rank, and its best and worst case are shown. A paired permutation test over clusters "
        "of questions that share documents finds the cells that are significantly worse than the leader. "
        "Cells that were asked a sample are compared on that sample."
    )
    table = StageTable(
        "leaderboard.parquet",
        LEADERBOARD,
        ("rank", "cell", "value", "low", "high", "coverage", "tie_group"),
        (Plot("intervals of the first metric", _PLOTTED, _intervals, most=100_000),),
        chosen=_best_first,
    )
    code_version = "6"
    upstream = ("scores", "answers", "questions")
    headline = Headline(
        "verdict",
        "Which pipeline of a study to use, in a sentence, computed with its leaderboard. A check fails where "
        "another pipeline is recommended than before.",
        text="verdict",
        value="recommended",
        check="best_cell_unchanged",
    )
    family = "comparisons"
    lineage = ("scores",)
    tolerates_gaps = True
    blocking: ClassVar[frozenset[str]] = frozenset({"equal_questions"})
    checks: ClassVar[dict[str, str]] = {
        "equal_questions": "Every cell of a subset is measured on the same questions: else they cannot be "
        "compared.",
        "covered": "Every cell has a value and an answer for at least 98 % of the questions, in each metric.",
    }

    def keys(self) -> list[str]:
        return sorted(self.grid.studies)

    def needs(self, key: str) -> list[PartitionRef]:
        run = [cell for cell in self.grid.studies[key].runs() if self._is_run(cell)]
        answers = [PartitionRef("answers", cell.key) for cell in run if cell.generator != NO_GENERATOR]
        sets = [PartitionRef("questions", name) for name in self.grid.set_keys(key)] if run else []
        return [*(PartitionRef("scores", cell.key) for cell in run), *answers, *sets]

    def _is_run(self, cell: Cell) -> bool:
        return PartitionRef("scores", cell.key) not in self.without

    def recipes(self, key: str) -> dict[str, str]:
        """The names are part of every row, so that another name is another leaderboard."""
        study = self.grid.studies[key]
        named = [[*cell.key.split("."), cell.sample] for cell in study.runs()]
        gaps = self._gaps(study)
        return {
            f"comparison.{key}": digest(
                [
                    [*study.measured, study.seed, RESAMPLES, CONFIDENCE],
                    [study.clusters, study.margin, study.prefer, len(study.chunkings)],
                ]
            ),
            f"cells.{key}": digest(named),
            **({f"gaps.{key}": digest(gaps)} if gaps else {}),
        }

    def _gaps(self, study: Study) -> list[str]:
        return [cell.key for cell in study.runs() if not self._is_run(cell)]

    def cache_key_of(self, artifact: Artifact) -> list[str]:
        """Return also which scores they are: a row says of which cell, by the identity of its answers."""
        return [*super().cache_key_of(artifact), artifact.identity]

    def links(self, key: str, home: Home) -> dict[str, Path]:
        return {"report": home.report(key)}

    def build(self, key: str, folder: Path, work: BuildContext) -> BuildResult:
        from rag_assay.evals.statistics.board import board_rows, not_run
        from rag_assay.evals.statistics.question_clusters import clustering
        from rag_assay.evals.study.complexity import below_gate, coverages, lowest_and_highest, unmeasured

        study = self.grid.studies[key]
        run = {cell: _read("scores", cell, work) for cell in study.runs() if self._is_run(cell)}
        scores = {cell: run[cell] if cell in run else not_run(cell, run) for cell in study.runs()}
        questions = read_questions(self.inputs(key, work.store), work) if run else frame([], QUESTIONS)
        clusters = clustering(questions, study.clusters)
        rows = board_rows(study, scores, self._answered(key, run, work, questions), clusters)
        uneven = _uneven(rows)
        rows = _with_cell_ids(rows, run, work)
        board = frame(rows, LEADERBOARD)
        write_parquet(board, folder / "leaderboard.parquet")
        covered = coverages(board, unmeasured(study))
        verdict = replace(
            self._verdict(study, rows, run, clusters, work), coverage=lowest_and_highest(covered)[0]
        )
        write_parquet(frame([verdict.row()], VERDICTS), folder / "verdicts.parquet")
        meta: dict[str, Any] = {
            "cells": len(study.cells()),
            "cells_not_run": len({cell.name for cell in scores} - {cell.name for cell in run}),
            "replicates": len(scores),
            NOT_RUN: self._gaps(study),
            "metrics": len(study.measured),
            "rows": len(rows),
        }
        if verdict.leader and verdict.recommended:
            meta["verdict"] = " ".join(verdict.sentences)
            meta["leader"], meta["leader_value"] = verdict.leader.cell, verdict.leader.value
            meta["recommended"] = verdict.recommended.cell
            meta["expected_loss"] = verdict.recommended.expected_loss
        version = digest([[*row.values()] for row in [*rows, verdict.row()]])
        return BuildResult(version, meta, _checks(below_gate(covered), uneven))

    def _verdict(
        self,
        study: Study,
        rows: list[dict[str, Any]],
        run: dict[Cell, pl.DataFrame],
        clusters: Clustering,
        work: BuildContext,
    ) -> Verdict:
        from rag_assay.evals.study.complexity import chunk_counts, simplicities, unpriced

        primary = primary_of(study.measured, (row["metric"] for row in rows))
        metrics = sorted(map(study.metric, study.measured), key=lambda metric: metric.name != primary)
        seconds = [one.name for one in metrics if one.kind == "cost" and one.unit == "s"]
        names = {cell: {"cell": pl.lit(cell.name), "replicate": pl.lit(cell.replicate)} for cell in run}
        scores = [found.with_columns(**names[cell]) for cell, found in run.items()]
        answers = [
            _read("answers", cell, work, _PRICES).with_columns(cell=names[cell]["cell"])
            for cell in run
            if cell.generator != NO_GENERATOR
        ]
        prices = {"cell": pl.String, **{name: ANSWERS[name] for name in _PRICES}}
        costs = running_costs(
            pl.concat(scores) if scores else pl.DataFrame(schema={**SCORES, "cell": pl.String}),
            pl.concat(answers) if answers else pl.DataFrame(schema=prices),
            seconds,
            unpriced(study),
        )
        facts = VerdictInputs(
            labels_of(rows),
            simplicities(study, chunk_counts(study, work.store)),
            costs,
            clusters,
            study.prefer,
            study.margin,
            chunks_differ=len(study.chunkings) > 1,
            judged=metrics[0].judged_by if isinstance(metrics[0], JudgedScores) else None,
        )
        return verdict_on(study.study, rows, metrics, facts)

    def _answered(
        self, key: str, run: Container[Cell], work: BuildContext, questions: pl.DataFrame
    ) -> Answered:
        from rag_assay.evals.study.complexity import has_answers

        answerable = dict(questions.select("question_id", "answerable").iter_rows())
        shares: dict[str, list[pl.DataFrame | None]] = {}
        for cell in self.grid.studies[key].runs():
            if cell.generator != NO_GENERATOR:
                found = _read("answers", cell, work) if cell in run else None
                shares.setdefault(cell.name, []).append(found)

        def share(cell: Cell, ids: Iterable[str]) -> float | None:
            if cell.generator == NO_GENERATOR or not has_answers(self.grid.studies[key], cell):
                return None
            known = list(ids)
            asked = [_asked(cell, rows, n, known) for n, rows in enumerate(shares[cell.name])]
            of = [
                0.0 if rows is None else answered_share(rows, answerable, ids, said_nothing=cell.imported)
                for rows, ids in zip(shares[cell.name], asked, strict=True)
            ]
            return sum(of) / len(of)

        return share


def _asked(cell: Cell, answers: pl.DataFrame | None, n: int, questions: list[str]) -> list[str]:
    """Return which questions a replicate was asked, the first being of all: a sheet has further rows of some.

    n: number of the replicate, from 0
    """
    known = set(answers["question_id"]) if answers is not None and cell.imported and n else None
    return questions if known is None else [one for one in questions if one in known]


def _uneven(rows: list[dict[str, Any]]) -> list[str]:
    counts: dict[str, set[int]] = {}
    for row in rows:
        counts.setdefault(f"{row['metric']} on {row['subset']}", set()).add(row["n"])
    return [name for name, found in counts.items() if len(found) > 1]


def _checks(thin: pl.DataFrame, uneven: list[str]) -> tuple[Check, ...]:
    cells = thin["cell"].to_list()
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


def _read(stage: str, cell: Cell, work: BuildContext, columns: Iterable[str] | None = None) -> pl.DataFrame:
    artifact = work.store.current(stage, cell.key)
    assert artifact is not None  # noqa: S101 -- `Stage.inputs` has seen it
    return read_rows(artifact, work.store, None if columns is None else list(columns))


def _with_cell_ids(
    rows: list[dict[str, Any]], run: Iterable[Cell], work: BuildContext
) -> list[dict[str, Any]]:
    """Add the identity of each cell that was run: of its answers or, where it has none, its scores.

    Of a cell with several replicates it is the digest of theirs.
    """
    ids: dict[str, list[str]] = {}
    for one in run:
        artifact = work.store.current("answers", one.key) or work.store.current("scores", one.key)
        if artifact:
            ids.setdefault(one.name, []).append(artifact.identity)
    of_cell = {name: found[0] if len(found) == 1 else digest(found) for name, found in ids.items()}
    return [{**row, "cell_id": of_cell.get(row["cell"])} for row in rows]
