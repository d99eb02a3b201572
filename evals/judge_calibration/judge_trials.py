"""What a judge is tried with: answers of the study, the same made worse, controls, and labelled cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from rag_assay.evals.generation.refusals import is_refusal
from rag_assay.evals.judging.cards.label_scale import Label
from rag_assay.evals.judging.cards.labels import LabelledCase
from rag_assay.evals.judging.cards.mutations import MUTATIONS, Mutation, Role, mutate_case
from rag_assay.evals.judging.contract import JudgeCase, JudgedMetric
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.schemas import Status

MOST_OTHERS = 60  # other questions that a mutation may take something from


class JudgeTrial(NamedTuple):
    """A case that a judge judges for its card; its question id is that of the trial.

    kind: of the mutation; None: it is an original, or labelled
    of: id of the trial that was changed
    note: what was changed, or where a labelled case is from
    """

    role: Literal["original", "labelled"] | Role
    case: JudgeCase
    kind: str | None = None
    of: str | None = None
    note: str = ""
    labels: Mapping[str, Label] = {}

    @property
    def trial_id(self) -> str:
        """Its name on the card."""
        return self.case.question_id or ""


class Trials(NamedTuple):
    """All trials of a judge, and why what could not be made was not: kind -> reasons."""

    trials: list[JudgeTrial]
    unmade: dict[str, list[str]]


def trials_of(
    cases: Sequence[JudgeCase],
    labelled: Sequence[LabelledCase],
    metrics: Sequence[JudgedMetric],
    n_mutated: int,
    seed: int,
) -> Trials:
    """Return what a judge is tried with.

    Args:
        cases: of the study; one answer a question is taken, drawn by the seed.
        labelled: of the judge; good ones among them are changed, where the study has too few.
        metrics: of the judge.
        n_mutated: answers that are changed; 0: none.
        seed: the study's.
    """
    tried = [
        JudgeTrial(
            "labelled", replace(one.case, question_id=f"labelled.{number}"), note=one.place, labels=one.labels
        )
        for number, one in enumerate(labelled, start=1)
    ]
    unmade: dict[str, list[str]] = {}
    pool = _one_a_question([*_drawn(cases, seed), *_good(labelled)])
    others = pool[:MOST_OTHERS]
    for number, case in enumerate(pool[:n_mutated], start=1):
        original = JudgeTrial("original", replace(case, question_id=f"answer.{number}"))
        tried.append(original)
        for mutation in MUTATIONS.values():
            if any(mutation.moves(metric) and _can_judge(metric, case) for metric in metrics):
                _add(original, mutation, others, seed, tried, unmade)
    return Trials(tried, unmade)


def _add(
    original: JudgeTrial,
    mutation: Mutation,
    others: Sequence[JudgeCase],
    seed: int,
    tried: list[JudgeTrial],
    unmade: dict[str, list[str]],
) -> None:
    found = mutate_case(original.case, others, mutation, seed)
    if found.case is None:
        unmade.setdefault(mutation.kind, []).append(found.note)
        return
    case = replace(found.case, question_id=f"{original.trial_id}.{mutation.kind}")
    tried.append(JudgeTrial(mutation.role, case, mutation.kind, original.trial_id, found.note))


def _can_judge(metric: JudgedMetric, case: JudgeCase) -> bool:
    return metric.applies(case) and metric.obstacle(case) is None


def _drawn(cases: Sequence[JudgeCase], seed: int) -> list[JudgeCase]:
    """Return the cases that can be changed, in an order that the seed decides.

    Where there are answers, those that answer are taken; else passages are all that there is.
    """
    answered = [
        one
        for one in cases
        if one.status is Status.OK and one.answer and one.answer.strip() and not is_refusal(one.answer)
    ]
    if not answered and not any(one.answer for one in cases):
        answered = [one for one in cases if one.passages]
    return sorted(answered, key=lambda one: digest([seed, one.question, one.answer]))


def _good(labelled: Iterable[LabelledCase]) -> list[JudgeCase]:
    """Return the labelled cases that all of their labels call good."""
    return [
        one.case
        for one in labelled
        if all(label.good for label in one.labels.values()) and not is_refusal(one.case.answer or "")
    ]


def _one_a_question(cases: Iterable[JudgeCase]) -> list[JudgeCase]:
    found: dict[str, JudgeCase] = {}
    for one in cases:
        found.setdefault(one.question.casefold(), one)
    return list(found.values())
