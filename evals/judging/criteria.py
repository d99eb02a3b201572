"""Has a model judge answers by criteria, in words: a reason first, then whether it is met, or a grade."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rag_assay.evals.judging import contract
from rag_assay.evals.judging.prompt_files import (
    Language,
    OwnWordings,
    check_names,
    metrics_of,
    wording,
)
from rag_assay.evals.judging.structured_calls import (
    PromptedJudge,
    ReplySchema,
    VerdictAsker,
    grade_within,
    make_judgement,
    mending,
    met_within,
)
from rag_assay.warehouse.inference.chat_part import CallsEach
from rag_assay.warehouse.inference.structured import MOST_ASKED, Structured, schema_only
from rag_assay.warehouse.recipe import Strict

if TYPE_CHECKING:
    from rag_assay.warehouse.inference.gateway import Messages

LONGEST_REASON = 400  # characters of a reason, which the model is told
TOKENS = 300  # of one verdict
MORE_TOKENS = 150  # of each further one

Reason = Annotated[str, schema_only(maxLength=LONGEST_REASON)]
Name = Annotated[str, schema_only(maxLength=40)]


class _Loose(Strict):
    model_config = ConfigDict(extra="ignore")


class Grade(_Loose):
    """A verdict on a scale from 1."""

    reason: Reason = ""
    grade: int


class Met(_Loose):
    """A verdict of two kinds."""

    reason: Reason = ""
    met: bool


class NamedGrade(_Loose):
    """A grade by one of several criteria."""

    criterion: Name
    reason: Reason = ""
    grade: int


class NamedMet(_Loose):
    """A verdict of two kinds by one of several criteria."""

    criterion: Name
    reason: Reason = ""
    met: bool


class Grades(_Loose):
    """Grades by several criteria."""

    verdicts: Annotated[tuple[NamedGrade, ...], schema_only(maxItems=60)]


class Mets(_Loose):
    """Verdicts of two kinds by several criteria."""

    verdicts: Annotated[tuple[NamedMet, ...], schema_only(maxItems=60)]


class CriterionVerdict(NamedTuple):
    """What the model says of one criterion."""

    value: float
    word: str
    reason: str


def tokens_of(criteria: int) -> int:
    return TOKENS + MORE_TOKENS * (criteria - 1)


def reply_schema(names: Sequence[str], grades: int | None, *, together: bool) -> ReplySchema:
    tokens = tokens_of(len(names) if together else 1)

    def said(text: str) -> Mapping[str, Any] | None:
        if grades is None:
            met = met_within(text)
            return None if met is None else {"met": met}
        grade = grade_within(text, grades)
        return None if grade is None else {"grade": grade}

    def check(found: BaseModel) -> None:
        _check(found, names, grades)

    of_grade: dict[str, object] = {"minimum": 1, "maximum": grades}
    if not together:
        shape: type[BaseModel] = Met if grades is None else Grade
        bounds = {} if grades is None else {"Grade.grade": of_grade}
        return ReplySchema(shape, shape.__name__.lower(), bounds, check, mending(shape, said), tokens)
    several, one = (Mets, NamedMet) if grades is None else (Grades, NamedGrade)
    bounds = {
        f"{several.__name__}.verdicts": {"minItems": len(names), "maxItems": len(names)},
        f"{one.__name__}.criterion": {"enum": list(names)},
        **({} if grades is None else {f"{one.__name__}.grade": of_grade}),
    }
    return ReplySchema(
        several, several.__name__.lower(), bounds, check, mending(several, lambda _: None), tokens
    )


def verdicts_in(found: BaseModel, names: Sequence[str], grades: int | None) -> dict[str, CriterionVerdict]:
    """
    >>> verdicts_in(Grade(reason="Nearly.", grade=4), ["detail"], 5)
    {'detail': CriterionVerdict(value=0.75, word='4 of 5', reason='Nearly.')}
    """
    listed = found.verdicts if isinstance(found, Grades | Mets) else [found]
    by_name = [getattr(one, "criterion", name) for one, name in zip(listed, names, strict=True)]
    return {name: _verdict(one, grades) for name, one in zip(by_name, listed, strict=True)}


def _verdict(one: object, grades: int | None) -> CriterionVerdict:
    if isinstance(one, Grade | NamedGrade):
        assert grades is not None  # noqa: S101 -- a grade is asked for with a scale
        return CriterionVerdict((one.grade - 1) / (grades - 1), f"{one.grade} of {grades}", one.reason)
    assert isinstance(one, Met | NamedMet)  # noqa: S101 -- there are no others
    return CriterionVerdict(float(one.met), "met" if one.met else "not met", one.reason)


def _check(found: BaseModel, names: Sequence[str], grades: int | None) -> None:
    listed = found.verdicts if isinstance(found, Grades | Mets) else [found]
    if isinstance(found, Grades | Mets):
        judged = [one.criterion for one in found.verdicts]
        if sorted(judged) != sorted(names):
            raise ValueError(f"it must have one verdict each for {', '.join(names)}, not for {judged}")
    for one in listed:
        grade = getattr(one, "grade", None)
        if grade is not None and grades is not None and not 1 <= grade <= grades:
            raise ValueError(f"the grade must be from 1 to {grades}, not {grade}")


Preset = Literal["correctness", "relevance", "conciseness", "helpfulness", "detail"]
_ANSWER: frozenset[contract.Need] = frozenset({"answer"})
NEEDS: dict[str, frozenset[contract.Need]] = {
    "correctness": _ANSWER | {"ground_truth"},
    "relevance": _ANSWER,
    "conciseness": _ANSWER,
    "helpfulness": _ANSWER,
    "detail": _ANSWER,
}


_Task = tuple[contract.JudgeCase, tuple[contract.JudgedMetric, ...]]


class CriteriaJudge(PromptedJudge):
    """Calls a language model to rate an answer by criteria, ours or a study's, with a reason for each.

    metrics: built-in criteria: correctness (by the ground truth), relevance, conciseness, helpfulness, detail
    criteria: your own, metric to wording, or to a mapping of `ask` and `needs`
    scale: grades from 1 to this; a grade's value is (grade - 1) / (scale - 1). `binary`: met or not
    shown: inputs of all criteria beside question and answer: ground_truth, passages
    together: one call for all criteria of a case; false: a call each
    """

    kind: ClassVar[str] = "criteria"

    metrics: tuple[Preset, ...] = ("correctness", "relevance", "conciseness")
    criteria: OwnWordings = {}  # noqa: RUF012 - pydantic copies it
    scale: Annotated[int, Field(ge=2, le=10)] | Literal["binary"] = 5
    shown: tuple[Literal["ground_truth", "passages"], ...] = ()
    together: bool = False

    @model_validator(mode="after")
    def _has_each_once(self) -> Self:
        check_names(self.metrics, self.criteria, "criteria")
        return self

    @property
    def judged_metrics(self) -> tuple[contract.JudgedMetric, ...]:
        needs: dict[str, frozenset[contract.Need]] = {name: NEEDS[name] for name in self.metrics}
        value = f"Grade from 1 to {self.grades}, as 0 to 1" if self.grades else "Met (1) or not (0)"
        found = metrics_of("criteria", needs, self.criteria, value)
        return tuple(one._replace(needs=one.needs | _ANSWER | {*self.shown}) for one in found)

    def verdicts(
        self, cases: Sequence[contract.JudgeCase], context: contract.JudgeContext
    ) -> list[dict[str, contract.Judgement]]:
        tasks = [task for case in cases for task in self._tasks(case)]
        asker = VerdictAsker(self, context)
        judgements = context.each(lambda task: self._called(task, asker), tasks, self, "criteria")
        return [
            {name: one for _ in self._tasks(case) for name, one in next(judgements).items()} for case in cases
        ]

    def _tasks(self, case: contract.JudgeCase) -> list[_Task]:
        metrics = tuple(one for one in self.judged_metrics if one.can_judge(case))
        if self.together and metrics:
            return [(case, metrics)]
        return [(case, (metric,)) for metric in metrics]

    def _called(self, task: _Task, asker: VerdictAsker) -> dict[str, contract.Judgement]:
        case, metrics = task
        names = [metric.name for metric in metrics]
        shown: frozenset[contract.Need] = frozenset().union(*(metric.needs for metric in metrics))
        verdict = reply_schema(tuple(names), self.grades, together=self.together)

        def write(case: contract.JudgeCase) -> Messages:
            language = self.prompt.language_of(case)
            criteria = [{"name": name, "ask": self.wording(name, language)} for name in names]
            return self.prompt.messages(
                case, shown, criteria=criteria, scale=self.grades, together=self.together
            )

        fitted = self.fit(case, write, asker.context.gateway, verdict.max_tokens, shown)
        if isinstance(fitted, contract.Judgement):
            return dict.fromkeys(names, fitted)
        found = asker.ask(fitted.messages, verdict, case.question_id)
        return self._read(case, names, found, fitted.note)

    def _read(
        self, case: contract.JudgeCase, names: Sequence[str], found: Structured[BaseModel], note: str
    ) -> dict[str, contract.Judgement]:
        if found.value is None:
            first = make_judgement(found.replies, status=found.status, reason=found.reason)
            free = contract.Judgement(found.status, reason=found.reason, raw=first.raw)
            return {name: free if place else first for place, name in enumerate(names)}
        read = verdicts_in(found.value, names, self.grades)
        judgements = {}
        for place, name in enumerate(names):
            one = read[name]
            asked = self.wording(name, self.prompt.language_of(case))
            statement = contract.Statement(name, asked, one.word, one.value, one.reason or None)
            reason = "; ".join(filter(None, [one.reason, note])) or None
            whole = make_judgement(found.replies, value=one.value, reason=reason, statements=(statement,))
            if place:  # what a call costs counts once
                whole = contract.Judgement(
                    whole.status, whole.value, reason, whole.raw, model=whole.model, statements=(statement,)
                )
            judgements[name] = whole
        return judgements

    @property
    def grades(self) -> int | None:
        return None if self.scale == "binary" else self.scale

    def wording(self, metric: str, language: Language) -> str:
        own = self.criteria.get(metric)
        return own.ask if own else wording("criteria", metric, language)

    @property
    def worded(self) -> tuple[str, ...]:
        return self.metrics

    def calls_per_case(self) -> CallsEach:
        calls = 1 if self.together else len(self.judged_metrics)
        return CallsEach(calls, MOST_ASKED * calls)

    @property
    def longest_reply(self) -> int:
        return self.max_tokens or tokens_of(len(self.judged_metrics) if self.together else 1)
