"""Estimates the least and most that judges and metrics would ask their models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from rag_assay.assets.engine.stage import BuildContext, Stage
from rag_assay.evals.judging.cards.labels import read_labels
from rag_assay.evals.judging.cards.mutations import MUTATIONS, ORIGINALS
from rag_assay.evals.judging.contract import Judge, JudgedMetric
from rag_assay.evals.judging.judge_metrics import JudgedScores
from rag_assay.evals.metrics.contract import Metric
from rag_assay.evals.study.call_estimate import Cached, CallEstimate, CostRange, bound_calls, of_chat
from rag_assay.evals.study.cells import Cell, JudgedCell
from rag_assay.evals.study.grid import read_questions_of
from rag_assay.evals.study.run_plan import PROMPT_TOKENS
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import RETRYABLE, Status

CASE_TOKENS = 8_000  # of a question, its passages, its ground truth and its answer, at most about
Rows = list[dict[str, Any]]


def judge_estimates(
    study: Study, stages: Mapping[str, Stage], cached: Cached, home: Home
) -> Iterator[CallEstimate]:
    """Estimate what each judge would ask: about every case that is to be judged, in each replicate."""
    asking = {name: judge for name, judge in study.judges.items() if judge.chat is not None}
    if not asking:
        return
    questions = read_questions_of(study)
    store = BuildContext(home).store
    for name, judge in asking.items():
        cells = [JudgedCell(cell, name) for cell in study.runs() if name in study.judged_by(cell)]
        waiting = [one for one in cells if stages["judgements"].fresh(one.key, store) is None]
        cases = sum(_cases(study, one, questions, stages, store) for one in waiting)
        row = judging(name, judge, cases, cached)
        yield from [row] if row else []
        row = of_cases(
            f"the card of {name}", judge, _trials(study, name, stages["judge_cards"], store), cached
        )
        yield from [row] if row else []


def _trials(study: Study, name: str, judge_cards: Stage, store: ArtifactStore) -> int:
    """Count what a judge is tried with at most: each answer and all that is made of it, and labelled cases.

    Where a card was made before, it is not known how much of it is kept: so it may be less.
    """
    key, judge, card = f"{study.study}.{name}", study.judges[name], study.card_of(name)
    if key not in judge_cards.keys() or judge_cards.fresh(key, store) is not None:
        return 0
    n_labelled = 0
    if card.labels is not None:
        try:
            file = study.resolve(card.labels.file)
            n_labelled = len(read_labels(file, judge.judged_metrics, card.labels))
        except InputError:  # which `assay check` tells
            n_labelled = 0
    again = max(ORIGINALS, judge.times) if judge.varies else 1
    kinds = sum(any(kind.moves(metric) for metric in judge.judged_metrics) for kind in MUTATIONS.values())
    n_mutated = card.mutations if study.generators or n_labelled else 0
    return n_labelled * judge.times + n_mutated * (again + kinds * judge.times)


def judging(name: str, judge: Judge, cases: int, cached: Cached) -> CallEstimate | None:
    """Return what a judge would ask its model about so many cases; None where it asks none.

    cases: each as often as the judge judges it
    """
    return of_cases(f"judging by {name}", judge, cases, cached)


def of_cases(what: str, part: Judge | Metric, cases: int, cached: Cached) -> CallEstimate | None:
    """Estimate what is asked about answers: question, passages, ground truth and answer are read."""
    chat = part.chat
    if chat is None:
        return None
    calls = bound_calls(cases, part.calls_per_case(), chat, cached)
    per_call = (CostRange(PROMPT_TOKENS, PROMPT_TOKENS + CASE_TOKENS), CostRange(1, part.longest_reply))
    return replace(of_chat(what, chat, calls, per_call), of_study=True, limit_usd=part.budget_limit)


def _cases(
    study: Study, judged: JudgedCell, questions: Rows, stages: Mapping[str, Stage], store: ArtifactStore
) -> int:
    """Count the cases of a cell that a judge can judge, each as often as it does; not those that are kept.

    Before there are answers, each question has one.
    """
    cell, judge = judged.cell, study.judges[judged.judge]
    ids = study.sampled([row["question_id"] for row in questions], cell.sample)
    chosen = set(study.sampled(ids, study.judged_sample(judged.judge)))
    usable = _answered(cell, stages["answers"], store)
    metrics = [
        one for one in study.metrics_of(cell) if isinstance(one, JudgedScores) and one.judge == judged.judge
    ]
    cases = {
        row["question_id"]
        for row in questions
        if row["question_id"] in chosen
        and any(one.applies(row) and _has_answer(one.metric, row["question_id"], usable) for one in metrics)
    }
    return len(cases) * judge.times - _kept(judged, cases, stages["judgements"], store)


def _has_answer(metric: JudgedMetric, question_id: str, usable: set[str] | None) -> bool:
    return "answer" not in metric.needs or usable is None or question_id in usable


def _answered(cell: Cell, answers: Stage, store: ArtifactStore) -> set[str] | None:
    """Return the questions that a cell has answered or refused; None where it was not asked as it is now."""
    artifact = answers.fresh(cell.key, store)
    if artifact is None:
        return None
    path = store.folder("answers", artifact.identity) / "answers.parquet"
    rows = read_parquet(path, ["question_id", "status", "answer"])
    return {
        question
        for question, status, text in rows.iter_rows()
        if status in {Status.OK, Status.REFUSED} and (text or "").strip()
    }


def _kept(judged: JudgedCell, cases: set[str], judgements: Stage, store: ArtifactStore) -> int:
    """Count the cases and replicates of an incomplete run that the next run keeps as a whole."""
    try:
        artifact = store.find(judgements.name, judgements.identity(judged.key, store))
    except AssayError:
        return 0  # what would be judged is not there yet
    if artifact is None:
        return 0
    path = store.folder(judgements.name, artifact.identity) / "judgements.parquet"
    rows = read_parquet(path, ["question_id", "replicate", "status"])
    ended: dict[tuple[str, int], bool] = {}
    for question, replicate, status in rows.iter_rows():
        if question in cases:
            known = ended.get((question, replicate), True)
            ended[question, replicate] = known and status not in RETRYABLE
    return sum(ended.values())
