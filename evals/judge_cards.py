"""judge_cards: how far each judge of a study can be trusted, one partition a study and judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from rag_assay.assets.engine.row_checks import WITHIN_BUDGET, at_most, within_budget
from rag_assay.assets.engine.stage import LOCAL_MODEL, BuildContext, BuildResult, Check, PartitionRef
from rag_assay.assets.engine.table import StageTable
from rag_assay.assets.recipes.build_half import may_cost
from rag_assay.evals.judging.contract import Judge, JudgeContext
from rag_assay.evals.pipeline.cell_items import case_needs, judge_context, judge_digest, read_cases
from rag_assay.evals.pipeline.stage_inputs import GridStage, read_questions, read_rows
from rag_assay.evals.study.cells import JudgedCell
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.attempts import Pieces
from rag_assay.warehouse.identity import digest, sha256_file
from rag_assay.warehouse.inference.call_tags import Purpose
from rag_assay.warehouse.parquet import frame, read_parquet, write_parquet
from rag_assay.warehouse.schemas import JUDGE_CARDS, JUDGE_TRIALS, JUDGEMENTS

if TYPE_CHECKING:
    from rag_assay.evals.judge_calibration.card import CardMeasure
    from rag_assay.evals.judge_calibration.judge_trials import JudgeTrial, Trials
    from rag_assay.evals.judging.judge_runner import Row

MOST_CELLS = 4
"""Cells of which answers are drawn to be made worse."""
READABLE = 0.9
"""Share of a judge's replies that must be readable, without a warning."""
CARD, TRIALS, JUDGED = "judge_cards.parquet", "trials.parquet", "judged.parquet"


class JudgeCards(GridStage):
    """Tries every judge of a study: on answers made worse, and on cases that people have labelled."""

    name = "judge_cards"
    description = (
        "How far each judge can be trusted: how often it gives a number, changes its mind, agrees with "
        "people where cases are labelled, notices answers made worse on purpose, and minds length and "
        "position; and what it costs. What it has judged is kept: only what is new is judged."
    )
    table = StageTable(
        CARD, JUDGE_CARDS, ("metric", "measure", "slice", "value", "low", "high", "n", "reason")
    )
    kinds: ClassVar[frozenset[str]] = frozenset({"python", "llm", "duckdb", "parquet"})
    code_version = "2"
    upstream = (
        *("judgements", "annotations", "answers", "rankings", "indexes", "chunks", "documents", "questions"),
    )
    family = "judge_settings"
    lineage = ("judgements", "annotations")
    resumes: ClassVar[bool] = True
    checks: ClassVar[dict[str, str]] = {
        "readable": f"At least {READABLE:.0%} of the judge's replies could be read, in each of its metrics.",
        "within_budget": WITHIN_BUDGET,
    }
    tolerates_gaps: ClassVar[bool] = True

    def keys(self) -> list[str]:
        return sorted(key for study in self.grid.studies for key in self.grid.cards_of(study))

    def needs(self, key: str) -> list[PartitionRef]:
        judged = [one for one in self._cells(key) if PartitionRef("judgements", one.key) not in self.without]
        cases = [need for one in self._drawn(key) for need in case_needs(self.grid, one)]
        of_judge = (PartitionRef("judgements", one.key) for one in judged)
        return list(dict.fromkeys([*of_judge, *self._of_people(key), *cases]))

    def _of_people(self, key: str) -> list[PartitionRef]:
        study, _ = self._study(key)
        said = PartitionRef("annotations", study.study)
        if not study.rubrics or said in self.without:
            return []
        return [said, *(PartitionRef("questions", name) for name in self.grid.set_keys(study.study))]

    def _study(self, key: str) -> tuple[Study, str]:
        study, _, judge = key.partition(".")
        return self.grid.studies[study], judge

    def _cells(self, key: str) -> list[JudgedCell]:
        study, judge = self._study(key)
        return [
            one for one in self.grid.judged.values() if one.judge == judge and one.cell.study == study.study
        ]

    def _drawn(self, key: str) -> list[JudgedCell]:
        study, judge = self._study(key)
        if not study.card_of(judge).mutations:
            return []
        able = [
            one
            for one in self._cells(key)
            if one.cell.replicate == 1
            and not any(
                need in self.without
                for need in (PartitionRef("judgements", one.key), *case_needs(self.grid, one))
            )
        ]
        return sorted(able, key=lambda one: digest([study.seed, one.cell.key]))[:MOST_CELLS]

    def recipes(self, key: str) -> dict[str, str]:
        study, name = self._study(key)
        judge, card = study.judges[name], study.card_of(name)
        labels = None
        if card.labels:
            meaning = card.labels.model_dump(exclude={"file"})
            labels = [sha256_file(study.resolve(card.labels.file)), meaning]
        samples = [[one.key, one.cell.sample] for one in self._cells(key) if one.cell.sample is not None]
        return {
            f"judge.{key}": digest([judge_digest(study, name), judge.times, judge.vote]),
            f"card.{key}": digest([labels, card.mutations, study.seed, study.judged_sample(name), samples]),
            f"named.{key}": digest([study.study, name]),
        }

    def cache_key_of(self, artifact: Artifact) -> list[str]:
        """Return also what was measured: what judging costs is on the card."""
        found = super().cache_key_of(artifact)
        return [*found, artifact.measured] if artifact.stage in {"judgements", "answers"} else found

    def pool(self) -> str:
        return LOCAL_MODEL

    def spends(self, key: str) -> bool:
        study, name = self._study(key)
        return may_cost(study.judges[name], study.judges[name].embeds_with)

    def waits_for_servers(self, key: str) -> bool:
        study, judge = self._study(key)
        chat = study.judges[judge].chat
        return chat is not None and not chat.is_local

    def build(self, key: str, folder: Path, work: BuildContext) -> BuildResult:
        from rag_assay.evals.judge_calibration.card import card_rows, stored_rows, with_people
        from rag_assay.evals.judge_calibration.judge_trials import CalibrationJudgements, trials_of
        from rag_assay.evals.judging.cards.labels import read_labels
        from rag_assay.evals.judging.judge_runner import case_id, known_rows

        study, name = self._study(key)
        judge, card = study.judges[name], study.card_of(name)
        inputs = dict(zip(self.needs(key), self.inputs(key, work.store), strict=True))
        cases = [case for one in self._drawn(key) for case in read_cases(self.grid, one, inputs, work).cases]
        labelled = []
        if card.labels:
            labelled = read_labels(study.resolve(card.labels.file), judge.judged_metrics, card.labels)
        trials = trials_of(cases, labelled, judge.judged_metrics, card.mutations, study.seed)
        judgements = [(need.key, one) for need, one in inputs.items() if need.stage == "judgements"]
        stored = {cell: read_rows(one, work.store) for cell, one in judgements}
        by = judge_digest(study, name)
        known = known_rows(self.name, key, by, folder / JUDGED, work)
        known += _as_trials(trials.trials, stored)
        of_study = {cell: _bare(rows, judge) for cell, rows in stored.items()}
        pieces = Pieces(folder)
        rows, again = _judged(judge, trials.trials, self._context(key, work), known, pieces)
        lengths = {case_id(case): len(case.answer or "") for case in cases}
        judged = CalibrationJudgements(
            judge, judge.judged_metrics, trials.trials, rows, of_study, lengths, study.seed
        )
        measured = with_people(card_rows(judged, trials.unmade), self._by_people(key, inputs, stored, work))
        write_parquet(frame(rows, JUDGEMENTS), folder / JUDGED)
        write_parquet(frame(_stored_trials(trials), JUDGE_TRIALS), folder / TRIALS)
        write_parquet(frame(stored_rows(study.study, name, measured), JUDGE_CARDS), folder / CARD)
        pieces.clear()
        return _built(measured, trials, rows, again, by)

    def _by_people(
        self,
        key: str,
        inputs: Mapping[PartitionRef, Artifact],
        stored: Mapping[str, pl.DataFrame],
        work: BuildContext,
    ) -> list[CardMeasure]:
        from rag_assay.evals.judge_calibration.card import people_rows, rated_of
        from rag_assay.evals.statistics.question_clusters import clustering

        study, name = self._study(key)
        said = inputs.get(PartitionRef("annotations", study.study))
        if said is None:
            return []
        folder = work.store.folder("annotations", said.identity)
        questions = read_questions(list(inputs.values()), work)
        clusters = clustering(questions, study.clusters)
        annotations, scores = (
            read_parquet(folder / f"{file}.parquet") for file in (said.stage, "human_scores")
        )
        rated = rated_of(study.rubrics, annotations, scores, study.seed, clusters)
        cells = {one.key: one.cell.key for one in self._cells(key)}
        judgements = {cells[place]: rows.rows(named=True) for place, rows in stored.items()}
        return list(people_rows(study.judges[name], judgements, rated, clusters))

    def _context(self, key: str, work: BuildContext) -> JudgeContext:
        study, _ = self._study(key)
        context = judge_context(study, self._cells(key)[0], work)
        return replace(context, purpose=Purpose("judging", study.study, key), progress=work.progress)


def _bare(rows: pl.DataFrame, judge: Judge) -> list[Row]:
    raw = pl.when(pl.col("raw").is_not_null()).then(pl.lit("")).alias("raw")
    compares = any("rival" in one.needs for one in judge.judged_metrics)
    statements = (
        pl.col("statements") if compares else pl.lit(None, JUDGEMENTS["statements"]).alias("statements")
    )
    return rows.with_columns(raw, statements, pl.lit(None, pl.String).alias("reason")).rows(named=True)


def _as_trials(trials: Sequence[JudgeTrial], stored: dict[str, pl.DataFrame]) -> list[Row]:
    from rag_assay.evals.judging.judge_runner import case_id

    wanted = [case_id(trial.case) for trial in trials]
    by_case: dict[str, list[Row]] = {}
    for found in stored.values():
        rows = found.filter(pl.col("case_id").is_in(wanted)).rows(named=True)
        places = {(row["case_id"], row["replicate"], row["metric"]): row for row in rows}
        for (case, _, _), row in places.items():
            by_case.setdefault(case, []).append(row)
    return [
        {**row, "question_id": trial.trial_id}
        for trial in trials
        for row in by_case.get(case_id(trial.case), ())
    ]


def _judged(
    judge: Judge, trials: Sequence[JudgeTrial], context: JudgeContext, known: Sequence[Row], pieces: Pieces
) -> tuple[list[Row], list[Row]]:
    from rag_assay.evals.judging.cards.mutations import ORIGINALS
    from rag_assay.evals.judging.judge_runner import JudgeTask, judgement_rows, may_be_mended

    often = max(ORIGINALS, judge.times) if judge.varies else 1
    rows: list[Row] = []
    again: list[Row] = []
    for times, is_original in ((often, True), (judge.times, False)):
        cases = [one.case for one in trials if (one.role == "original") == is_original]
        task = JudgeTask(judge.model_copy(update={"replicates": times}), judge.judged_metrics, cases)
        found = judgement_rows(task, context, known, pieces)
        rows += found
        again += may_be_mended(found, task)
    return rows, again


def _stored_trials(trials: Trials) -> list[dict[str, Any]]:
    return [
        {
            "trial": one.trial_id,
            **{name: getattr(one, name) for name in ("role", "kind", "of", "note")},
            "question": one.case.question,
            "answer": one.case.answer,
            "labels": [
                {"metric": name, "value": label.grade, "good": label.good}
                for name, label in one.labels.items()
            ],
        }
        for one in trials.trials
    ]


def _built(
    measured: Sequence[CardMeasure], trials: Trials, rows: Sequence[Row], again: Sequence[Row], by: str
) -> BuildResult:
    costs = [row["usd"] for row in rows if row["usd"] is not None]
    found = {(one.metric, one.measure): one.estimate for one in measured if one.part is None}
    metrics = dict.fromkeys(one.metric for one in measured if one.metric is not None)
    agreed = {one.metric for one in measured if one.measure == "auc"}
    people = {one.part: int(one.estimate.n) for one in measured if one.measure == "people"}
    meta: dict[str, Any] = {
        "judge": by,
        "trials": len(trials.trials),
        "labelled": sum(one.role == "labelled" for one in trials.trials),
        **({"scored_by_people": people} if people else {}),
        "uncalibrated": [name for name in metrics if name not in agreed],
        "judgements": len(rows),
        "usd": round(sum(costs), 6),
    }
    for measure in ("parse_rate", "auc", "caught"):
        values = {name: one.value for name in metrics if (one := found.get((name, measure)))}
        meta[measure] = {name: round(value, 3) for name, value in values.items() if value is not None}
    if again:
        first = again[0]
        meta["incomplete"] = (
            f"{len(again)} of {len(rows)} judgements failed, first: {first['status']}: {first['reason']}"
        )
    lines = [[one.metric, one.measure, one.part, *one.estimate] for one in measured]
    content = [line for line in lines if line[0] is not None]
    checks = (
        _readable_check(meta["parse_rate"]),
        within_budget((row["question_id"], row["status"]) for row in rows),
    )
    return BuildResult(digest(content), meta, checks, complete=not again, measured=digest(lines))


def _readable_check(rates: Mapping[str, float]) -> Check:
    poor = [f"{name}: {rate:.0%}" for name, rate in rates.items() if rate < READABLE]
    what = "metrics have replies that could often not be read"
    return at_most("readable", 0, poor, len(rates), what, numbers={"parse_rate": dict(rates)})
