"""Has a judge judge cases; a case whose digest (`case_id`) and replicate are known is not judged again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from rag_assay.evals.judging.contract import (
    Judge,
    JudgeCase,
    JudgeContext,
    JudgedMetric,
    Judgement,
    Judgements,
)
from rag_assay.warehouse.attempts import Pieces
from rag_assay.warehouse.cancellation import CancelledError
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.parquet import frame, read_parquet
from rag_assay.warehouse.schemas import JUDGEMENTS, RETRYABLE, Status

if TYPE_CHECKING:
    from pathlib import Path

    from rag_assay.assets.engine.stage import BuildContext

Row = dict[str, Any]
BATCH = 32  # cases that a judge without a chat model judges before they are kept; calls are kept one by one


class JudgeTask(NamedTuple):
    """What is to be judged."""

    judge: Judge
    metrics: Sequence[JudgedMetric]
    cases: Sequence[JudgeCase]
    blocked: frozenset[str] = frozenset()


def case_id(case: JudgeCase) -> str:
    """Return the digest of all that a judge reads of a case, the question's id aside."""
    passages = [[one.text, one.title, one.url, one.date, list(one.section)] for one in case.passages]
    ended = [case.answer, str(case.status), case.reason]
    return digest([case.question, case.language, ended, case.ground_truth, passages, case.rival])


def judgement_rows(
    task: JudgeTask, context: JudgeContext, known: Iterable[Row] = (), pieces: Pieces | None = None
) -> list[Row]:
    ids = [case_id(case) for case in task.cases]
    rows = {_place(row): row for row in known if row["status"] not in RETRYABLE}
    for replicate in range(task.judge.times):
        waiting = [
            (case, identity)
            for case, identity in zip(task.cases, ids, strict=True)
            if any(
                (case.question_id, identity, replicate + 1, one.name) not in rows
                for one in task.metrics
                if one.applies(case)
            )
        ]
        size = BATCH if task.judge.chat is None else max(1, len(waiting))
        for at in range(0, len(waiting), size):
            batch = waiting[at : at + size]
            for row in _batch_rows(task, batch, replace(context, replicate=replicate), pieces):
                rows.setdefault(_place(row), row)
    places = (
        (case.question_id, identity, replicate + 1, metric.name)
        for case, identity in zip(task.cases, ids, strict=True)
        for metric in task.metrics
        for replicate in range(task.judge.times)
    )
    return [rows[place] for place in places if place in rows]


def may_be_mended(rows: Sequence[Row], task: JudgeTask) -> list[Row]:
    cases = {case.question_id: case for case in task.cases}
    metrics = {metric.name: metric for metric in task.metrics}
    return [
        row
        for row in rows
        if row["status"] in RETRYABLE
        and row["question_id"] not in task.blocked
        and metrics[row["metric"]].obstacle(cases[row["question_id"]]) is None
    ]


def _place(row: Row) -> tuple[str | None, str, int, str]:
    return row["question_id"], row["case_id"], row["replicate"], row["metric"]


def _batch_rows(
    task: JudgeTask, batch: list[tuple[JudgeCase, str]], context: JudgeContext, pieces: Pieces | None
) -> list[Row]:
    places = [[case.question_id, identity] for case, identity in batch]
    identity = digest([context.replicate, places, [one.name for one in task.metrics]])
    found = pieces.find({identity: identity}) if pieces else {}
    if identity in found:
        return found[identity].to_dicts()
    cases = [case for case, _ in batch]
    judgements = _unless_blocked(task, cases, context)
    rows = [
        _row(case, case_identity, metric.name, context.replicate + 1, by_metric[metric.name])
        for (case, case_identity), by_metric in zip(batch, judgements, strict=True)
        for metric in task.metrics
        if metric.applies(case)
    ]
    if pieces and task.judge.chat is None and not any(row["status"] in RETRYABLE for row in rows):
        pieces.add(identity, frame(rows, JUDGEMENTS))
    return rows


def _unless_blocked(task: JudgeTask, cases: list[JudgeCase], context: JudgeContext) -> list[Judgements]:
    blocked = Judgement(Status.NOT_RUN, reason="its ranking failed")
    open_cases = [case for case in cases if case.question_id not in task.blocked]
    judged = iter(_judged(task.judge, open_cases, context))
    none: Judgements = {metric.name: blocked for metric in task.metrics}
    return [none if case.question_id in task.blocked else next(judged) for case in cases]


def _judged(judge: Judge, cases: list[JudgeCase], context: JudgeContext) -> list[Judgements]:
    try:
        return judge.judge(cases, context) if cases else []
    except CancelledError:
        raise
    except Exception as error:  # a failure is data: the other cases are judged
        if len(cases) > 1:
            return [_judged(judge, [case], context)[0] for case in cases]
        reason = f"the judge broke: {type(error).__name__}: {error}"[:1_000]
        return [{one.name: Judgement(Status.ERROR, reason=reason) for one in judge.judged_metrics}]


def _row(case: JudgeCase, identity: str, metric: str, replicate: int, judgement: Judgement) -> Row:
    return {
        **vars(judgement),
        "question_id": case.question_id,
        "metric": metric,
        "replicate": replicate,
        "statements": [one._asdict() for one in judgement.statements],
        "case_id": identity,
    }


def known_rows(stage: str, key: str, judge: str, file: Path, work: BuildContext) -> list[Row]:
    """Return judgements by the same judge: of a build that did not end, and of the last one that did."""
    before = work.store.current(stage, key)
    paths = [file]
    if before and before.meta.get("judge") == judge:
        paths.append(work.store.folder(stage, before.identity) / file.name)
    found: list[Row] = []
    for path in paths:
        with suppress(CorruptFileError):
            if path.exists():
                found += read_parquet(path).rows(named=True)
    return found
