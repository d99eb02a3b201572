"""rankings: what each retriever returns for each question, one partition a study's index and retriever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from rag_assay.assets.engine.row_checks import at_most
from rag_assay.assets.engine.stage import LOCAL_MODEL, BuildContext, BuildResult, Check, PartitionRef
from rag_assay.assets.engine.table import Plot, StageTable, histogram
from rag_assay.assets.recipes.build_half import may_cost
from rag_assay.evals.pipeline.retrieval import RetrievalInputs, TuningRecord, open_retrieval, search_recipes
from rag_assay.evals.pipeline.stage_inputs import GridStage, read_questions
from rag_assay.evals.retrieval.query import Note
from rag_assay.evals.study.cells import Cell
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.processes import machine_class
from rag_assay.warehouse.schemas import HITS, MIN_COVERAGE, RETRYABLE, Status

if TYPE_CHECKING:
    from rag_assay.evals.pipeline.ranking_rows import RankingRows
    from rag_assay.evals.retrieval.query_runner import QueryRunner

EMPTY_AT_MOST = 0.1  # of the questions, without a warning
TOLERATED = 0.05  # share of latencies that a busy machine may have made too high: the p95 is none of them


def _first_scores(rows: pl.DataFrame) -> str | None:
    return histogram(rows.filter(pl.col("rank") == 1)["score"])


class Rankings(GridStage):
    """Asks every question of every retriever of every index."""

    name = "rankings"
    description = (
        "The ranked chunks of every question, for one chunking, embedder and retriever; with the seconds "
        "that each question took, the candidates of each step of the retriever, and where evidence was lost. "
        "A question that fails is a row with its status and reason."
    )
    table = StageTable(
        "hits.parquet",
        HITS,
        ("question_id", "rank", "score", "chunk_id"),
        (Plot("score of the first passage", ("rank", "score"), _first_scores, most=20_000),),
    )
    kinds: ClassVar[frozenset[str]] = frozenset({"python", "lancedb", "duckdb", "parquet"})
    code_version = "8"
    upstream = ("indexes", "questions")
    family = "retrievers"
    checks: ClassVar[dict[str, str]] = {
        "ranked": f"At least {MIN_COVERAGE:.0%} of the questions have a ranking; others count as missing.",
        "not_empty": f"At most {EMPTY_AT_MOST:.0%} of the questions are given no passage at all.",
        "quiet_machine": "Latencies were measured while the machine had processors to spare.",
    }

    def keys(self) -> list[str]:
        return sorted(self.grid.rankings)

    def needs(self, key: str) -> list[PartitionRef]:
        cell = self.grid.rankings[key]
        return [
            PartitionRef("indexes", self.grid.index_key(cell)),
            *(PartitionRef("questions", name) for name in self.grid.set_keys(cell.study)),
            *(PartitionRef("questions", name) for name in self._train_keys(cell)),
        ]

    def _train_keys(self, cell: Cell) -> list[str]:
        recipe = self.grid.studies[cell.study].retrievers[cell.retriever]
        return self.grid.train_keys(cell.study) if recipe.needs_tuning else []

    def recipes(self, key: str) -> dict[str, str]:
        """The chunking's digest is among them although the index is: each chunking is timed for itself."""
        cell = self.grid.rankings[key]
        study = self.grid.studies[cell.study]
        return {
            f"chunking.{cell.study}.{cell.chunking}": study.chunkings[cell.chunking].identity(),
            f"retriever.{cell.study}.{cell.retriever}": study.retrievers[cell.retriever].identity(),
            f"trace.{cell.study}": digest(study.trace),
            **search_recipes(study, cell),
        }

    def pool(self) -> str:
        return LOCAL_MODEL

    def spends(self, key: str) -> bool:
        cell = self.grid.rankings[key]
        study = self.grid.studies[cell.study]
        retriever = study.retrievers[cell.retriever]
        return may_cost(retriever, study.embedders[cell.embedder] if retriever.needs_vector else None)

    def build(self, key: str, folder: Path, work: BuildContext) -> BuildResult:
        from rag_assay.evals.pipeline.ranking_rows import RankingRows

        cell = self.grid.rankings[key]
        study = self.grid.studies[cell.study]
        index, *sets = self.inputs(key, work.store)
        n_test = len(sets) - len(self._train_keys(cell))
        inputs = RetrievalInputs(index, sets[:n_test], sets[n_test:])
        questions = read_questions(inputs.test, work)
        retrieval = open_retrieval(study, cell, inputs, work)
        resources = retrieval.resources
        texts = questions["question"].to_list()
        embedder = study.embedders[cell.embedder]
        vectors = resources.query_vectors(texts, embedder) if retrieval.embedder else {}
        rows = RankingRows(resources.index(index), study.trace)
        runner = retrieval.runner(vectors)
        _ask(runner, questions, rows, lambda done, of: work.progress(f"ranking {key}", done, of))
        retrieval.close()
        rows.write(folder)
        return _with_tuning(_built(rows), retrieval.tuning, rows.notes)


def _with_tuning(built: BuildResult, tuning: TuningRecord | None, notes: Sequence[Note]) -> BuildResult:
    """Say what was chosen, and count the notes: those on train questions decided the weights."""
    if tuning is None:
        return _with_notes(built, notes)
    chosen = {
        "tuned": [one._asdict() for one in tuning.chosen],
        "train_questions_left_out": tuning.left_out,
    }
    return _with_notes(replace(built, meta={**built.meta, **chosen}), [*tuning.notes, *notes])


def _with_notes(built: BuildResult, notes: Sequence[Note]) -> BuildResult:
    """Count what understanding had to say; a model's passing failure is tried again by the next run."""
    if not notes:
        return built
    counts = Counter(f"{note.kind}: {note.status}" for note in notes)
    meta = {**built.meta, "understanding": dict(sorted(counts.items()))}
    again = [note for note in notes if note.status in RETRYABLE]
    if again:
        reason = f"{len(again)} calls of a model failed and rules stood in, first: {again[0].reason}"
        meta["incomplete"] = "; ".join(filter(None, [meta.get("incomplete"), reason]))
    return replace(built, meta=meta, complete=built.complete and not again)


def _ask(
    runner: QueryRunner,
    questions: pl.DataFrame,
    rows: RankingRows,
    progress: Callable[[int, int], None],
) -> None:
    from rag_assay.evals.retrieval.query_runner import warm_up

    len(runner.index)  # opened before the clock runs
    warm_up(runner, questions)
    for number, question in enumerate(questions.iter_rows(named=True), 1):
        rows.add(question, runner.ask(question))
        if number % 25 == 0 or number == len(questions):
            progress(number, len(questions))


def _built(rows: RankingRows) -> BuildResult:
    ranked = rows.ranked
    failed = [row for row in ranked if row["status"] != Status.OK]
    spent = rows.spent
    seconds = pl.Series([one.seconds for one in spent], dtype=pl.Float64)
    busy = sum(one.busy for one in spent)
    content = [
        [h["question_id"], h["rank"], h["chunk_id"], h["start"], h["end"], round(h["score"], 6)]
        for h in rows.hits
    ]
    meta: dict[str, Any] = {
        "questions": len(ranked),
        "failed": len(failed),
        "empty": sum(row["n_hits"] == 0 for row in ranked),
        "latency_p50_ms": _milliseconds(seconds, 0.5),
        "latency_p95_ms": _milliseconds(seconds, 0.95),
        "latency_busy": busy,
    }
    if failed:
        meta["incomplete"] = f"{len(failed)} of {len(ranked)} questions failed, first: {failed[0]['reason']}"
    version = digest([content, [[row["question_id"], row["status"]] for row in ranked]])
    quiet = Check(
        "quiet_machine",
        busy <= TOLERATED * len(spent),
        f"{busy} of {len(spent)} latencies were measured while other work held the processors: too high",
        {"count": busy, "of": len(spent), "threshold": TOLERATED},
        severe=False,
    )
    measured = digest([[row["reason"], row["seconds"]] for row in ranked])
    machines = (machine_class(),) if spent else ()
    return BuildResult(
        version, meta, (*_checks(ranked), quiet), complete=not failed, measured=measured, machines=machines
    )


def _checks(ranked: Sequence[Mapping[str, Any]]) -> tuple[Check, ...]:
    failed = [f"{row['question_id']}: {row['reason']}" for row in ranked if row["status"] != Status.OK]
    empty = [row["question_id"] for row in ranked if row["status"] == Status.OK and row["n_hits"] == 0]
    return (
        at_most("ranked", round(1 - MIN_COVERAGE, 6), failed, len(ranked), "questions could not be ranked"),
        at_most("not_empty", EMPTY_AT_MOST, empty, len(ranked), "questions were given no passage"),
    )


def _milliseconds(seconds: pl.Series, share: float) -> float | None:
    value = seconds.quantile(share, interpolation="linear") if len(seconds) else None
    return round(1000 * float(value), 2) if value is not None else None
