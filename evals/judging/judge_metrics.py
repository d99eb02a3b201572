"""What a judge says as a metric of a study: its judgements of a question, come to one number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

from rag_assay.evals.judging.contract import Judge, JudgeCase, JudgedMetric
from rag_assay.evals.metrics.contract import Case, Metric, Score
from rag_assay.warehouse.status import Status

Vote = Literal["mean", "majority"]
ALIKE = 9  # decimals in which two values are the same for a majority


class JudgedScores(Metric):
    """`JUDGE.METRIC`: the vote of the judge's replicates."""

    stem = "judged"
    reads = frozenset({"judgements"})

    def __init__(self, name: str, judge: Judge, metric: JudgedMetric) -> None:
        self.judge = name
        self.metric = metric
        self.name = f"{name}.{metric.name}"
        self.title = f"{metric.name.replace('_', ' ').capitalize()} by {name}"
        self.kind = "answer" if "answer" in metric.needs else "retrieval"
        self.sees = "answers" if "answer" in metric.needs else "passages"
        self.bounds = metric.bounds
        self.higher_is_better = metric.higher_is_better
        least, most = metric.bounds
        chat = judge.chat
        self.judged_by = "language_model" if chat else judge.kind
        who = f"the judge `{name}` ({judge.kind}{f', which calls {chat.model}' if chat else ''})"
        often = f"; the {judge.vote} of {judge.times} judgements" if judge.times > 1 else ""
        about = metric.about.rstrip(".") or f"From {least:g} to {most:g}"
        self.explanation = f"{about}, as {who} says{often}."
        self._vote: Vote = judge.vote

    @property
    def of_passages(self) -> bool:
        return "passages" in self.metric.needs

    def versions(self) -> list[str]:
        return [self.code_version, self._vote]

    def applies(self, question: dict[str, Any]) -> bool:
        return self.metric.applies(
            JudgeCase(question["question"], ground_truth=question["ground_truth"] or None)
        )

    def score(self, case: Case) -> Score:
        return aggregate_replicates(case.judged.get(self.name, ()), self._vote)


def aggregate_replicates(judgements: Sequence[Score], vote: Vote) -> Score:
    """Replicates without a value are no vote; where none has one, the most frequent outcome counts.

    >>> one, zero, none = Score(Status.OK, 1.0), Score(Status.OK, 0.0), Score(Status.TIMEOUT, None, "silence")
    >>> aggregate_replicates([one, zero, none], "mean")
    Score(status=<Status.OK: 'ok'>, value=0.5, reason='1 of 3 judgements has no value: timeout')
    >>> aggregate_replicates([one, zero, one], "majority").value
    1.0
    >>> aggregate_replicates([one, zero], "majority").reason
    'no majority: 1 judgement of 1, 1 of 0'
    >>> aggregate_replicates([none, none], "mean")
    Score(status=<Status.TIMEOUT: 'timeout'>, value=None, reason='silence')
    """
    if not judgements:
        return Score(Status.NOT_RUN, reason="it was not judged yet")
    values = [one.value for one in judgements if one.value is not None]
    without = [one for one in judgements if one.value is None]
    if not values:
        (status, _), *_ = Counter(one.status for one in without).most_common(1)
        return next(Score(one.status, reason=one.reason) for one in without if one.status == status)
    reason = _missing(without, len(judgements)) if without else None
    if vote == "mean":
        return Score(Status.OK, sum(values) / len(values), reason)
    counts = Counter(round(value, ALIKE) for value in values)
    (most, count), *_ = counts.most_common(1)
    if 2 * count > len(values):
        return Score(Status.OK, next(one for one in values if round(one, ALIKE) == most), reason)
    found = [
        f"{n} {'judgement of ' if not at else 'of '}{value:g}" for at, (value, n) in enumerate(counts.items())
    ]
    return Score(Status.PARSE_FAILED, reason=f"no majority: {', '.join(found)}")


def _missing(without: Sequence[Score], of: int) -> str:
    statuses = ", ".join(dict.fromkeys(str(one.status) for one in without))
    return f"{len(without)} of {of} judgements {'have' if len(without) > 1 else 'has'} no value: {statuses}"
