"""Has a model judge answers by criteria, in words: a reason first, then whether it is met, or a grade."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, Field, model_validator

from rag_assay.evals.generation.prompt_fitting import ContextWindow
from rag_assay.evals.judging.case_fitting import fit_case
from rag_assay.evals.judging.contract import (
    Judge,
    JudgeCase,
    JudgeContext,
    JudgedMetric,
    Judgement,
    Need,
    Statement,
)
from rag_assay.evals.judging.criteria_verdicts import CriterionVerdict, reply_schema, tokens_of, verdicts_in
from rag_assay.evals.judging.criterion_texts import (
    OwnWordings,
    check_names,
    metrics_of,
    wording,
    wordings_identity,
)
from rag_assay.evals.judging.prompt_files import JudgePrompt, Language
from rag_assay.evals.judging.replies import make_judgement
from rag_assay.evals.judging.structured_calls import VerdictAsker
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.chat_part import CallsEach
from rag_assay.warehouse.inference.gateway import Messages
from rag_assay.warehouse.inference.structured import MOST_ASKED, Structured

Preset = Literal["correctness", "relevance", "conciseness", "helpfulness", "detail"]
_ANSWER: frozenset[Need] = frozenset({"answer"})
NEEDS: dict[str, frozenset[Need]] = {
    "correctness": _ANSWER | {"ground_truth"},
    "relevance": _ANSWER,
    "conciseness": _ANSWER,
    "helpfulness": _ANSWER,
    "detail": _ANSWER,
}


@dataclass(frozen=True)
class _Task:
    """Criteria of one case that are judged by one call."""

    case: JudgeCase
    metrics: tuple[JudgedMetric, ...]

    @property
    def shown(self) -> frozenset[Need]:
        """What the model sees beside the question."""
        return frozenset().union(*(metric.needs for metric in self.metrics))


class CriteriaJudge(ChatModel, Judge):
    """Asks a language model how an answer meets criteria, ours or a study's, with a reason for each.

    metrics: which of our own: correctness (as the ground truth has it), relevance, conciseness, helpfulness,
        detail
    criteria: further ones, metric to wording, or to a mapping of `ask` and `needs`
    scale: a grade from 1 to so many, the value of which is (grade - 1) / (scale - 1); or binary: met or not
    shown: what the model sees beside question and answer whatever the criterion: ground_truth, passages
    together: all criteria of a case by one call; false: a call each
    language: of the prompt's own text, en | de; unless said, the question's, or English
    window: tokens that the model reads; unless said, what is known of it. Passages are cut to fit
    """

    kind: ClassVar[str] = "criteria"
    unless_said: ClassVar[frozenset[str]] = frozenset({"language", "window"})

    metrics: tuple[Preset, ...] = ("correctness", "relevance", "conciseness")
    criteria: OwnWordings = {}  # noqa: RUF012 - pydantic copies it
    scale: Annotated[int, Field(ge=2, le=10)] | Literal["binary"] = 5
    shown: tuple[Literal["ground_truth", "passages"], ...] = ()
    together: bool = False
    language: Language | None = None
    window: Annotated[int, Field(ge=64, le=100_000_000)] | None = None

    @model_validator(mode="after")
    def _has_each_once(self) -> Self:
        check_names(self.metrics, self.criteria, "criteria")
        return self

    @property
    def judged_metrics(self) -> tuple[JudgedMetric, ...]:
        """Our own first; each needs an answer, and what is shown whatever the criterion."""
        needs: dict[str, frozenset[Need]] = {name: NEEDS[name] for name in self.metrics}
        value = f"Grade from 1 to {self.grades}, as 0 to 1" if self.grades else "Met (1) or not (0)"
        found = metrics_of("criteria", needs, self.criteria, value)
        return tuple(one._replace(needs=one.needs | _ANSWER | {*self.shown}) for one in found)

    def verdicts(self, cases: Sequence[JudgeCase], context: JudgeContext) -> list[dict[str, Judgement]]:
        """Judge each case by each criterion that can judge it, as many at once as the limits allow."""
        tasks = [task for case in cases for task in self._tasks(case)]
        asker = VerdictAsker(self, context)
        judgements = context.each(lambda task: self._called(task, asker), tasks, self, "criteria")
        return [
            {name: one for _ in self._tasks(case) for name, one in next(judgements).items()} for case in cases
        ]

    def _tasks(self, case: JudgeCase) -> list[_Task]:
        metrics = tuple(one for one in self.judged_metrics if one.can_judge(case))
        if self.together and metrics:
            return [_Task(case, metrics)]
        return [_Task(case, (metric,)) for metric in metrics]

    def _called(self, task: _Task, asker: VerdictAsker) -> dict[str, Judgement]:
        """Ask for the verdicts of one call."""
        names = [metric.name for metric in task.metrics]
        verdict = reply_schema(tuple(names), self.grades, together=self.together)

        def write(case: JudgeCase) -> Messages:
            language = self.prompt.language_of(case)
            criteria = [{"name": name, "ask": self.wording(name, language)} for name in names]
            return self.prompt.messages(
                case, task.shown, criteria=criteria, scale=self.grades, together=self.together
            )

        window = ContextWindow(
            self, asker.context.gateway, self.max_tokens or verdict.max_tokens, self.window
        )
        needs_passages = "passages" in task.shown
        case = task.case if needs_passages else replace(task.case, passages=())
        fitted = fit_case(case, write, window, needs_passages=needs_passages)
        if isinstance(fitted, Judgement):
            return dict.fromkeys(names, fitted)
        found = asker.ask(fitted.messages, verdict, case.question_id)
        return self._read(task, found, fitted.note)

    def _read(self, task: _Task, found: Structured[BaseModel], note: str) -> dict[str, Judgement]:
        """Return a judgement each; what the call cost stands at the first."""
        names = [metric.name for metric in task.metrics]
        if found.value is None:
            first = make_judgement(found.replies, status=found.status, reason=found.reason)
            free = Judgement(found.status, reason=found.reason, raw=first.raw)
            return {name: free if place else first for place, name in enumerate(names)}
        read = verdicts_in(found.value, names, self.grades)
        judgements = {}
        for place, name in enumerate(names):
            one = read[name]
            statement = self._statement(name, one, task.case)
            whole = make_judgement(
                found.replies,
                value=one.value,
                reason="; ".join(filter(None, [one.reason, note])) or None,
                statements=(statement,),
            )
            judgements[name] = _without_costs(whole) if place else whole
        return judgements

    def _statement(self, name: str, one: CriterionVerdict, case: JudgeCase) -> Statement:
        asked = self.wording(name, self.prompt.language_of(case))
        return Statement(name, asked, one.word, one.value, one.reason or None)

    @property
    def grades(self) -> int | None:
        """How many grades there are; None: a criterion is met or not."""
        return None if self.scale == "binary" else self.scale

    def wording(self, metric: str, language: Language) -> str:
        """Return what is asked for a metric."""
        own = self.criteria.get(metric)
        return own.ask if own else wording("criteria", metric, language)

    @property
    def prompt(self) -> JudgePrompt:
        """The files that it asks by."""
        return JudgePrompt("criteria", self.language)

    def dependencies(self, seed: int) -> list[str | int]:
        """Return the digests of its prompt and of our own criteria, the seed, and who answers."""
        asked = wordings_identity("criteria", self.metrics)
        served = self.served_by()
        return [self.prompt.identity(), asked, seed, *([served] if served else [])]

    def calls_per_case(self) -> CallsEach:
        """Return one call for each criterion, or for all; and a second where its reply cannot be read."""
        calls = 1 if self.together else len(self.judged_metrics)
        return CallsEach(calls, MOST_ASKED * calls)

    @property
    def longest_reply(self) -> int:
        """Tokens that a reply has at most."""
        return self.max_tokens or tokens_of(len(self.judged_metrics) if self.together else 1)

    @property
    def chat(self) -> ChatModel:
        """The recipe itself."""
        return self


def _without_costs(one: Judgement) -> Judgement:
    return Judgement(one.status, one.value, one.reason, one.raw, model=one.model, statements=one.statements)
