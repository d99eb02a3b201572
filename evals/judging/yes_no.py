"""Calls a model with a yes/no question; the value is the probability of yes, which small models give well."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from rag_assay.evals.judging import contract
from rag_assay.evals.judging.prompt_files import (
    Language,
    OwnWordings,
    check_names,
    metrics_of,
    wording,
)
from rag_assay.evals.judging.structured_calls import (
    DECLINED,
    PromptedJudge,
    chances,
    declines,
    make_judgement,
    word_of,
)
from rag_assay.warehouse.inference.chat_part import CallsEach
from rag_assay.warehouse.status import Status

if TYPE_CHECKING:
    from rag_assay.warehouse.inference.gateway import Messages
    from rag_assay.warehouse.inference.replies import Reply

WORD_TOKENS = 16  # of a reply whose words are read

Preset = Literal["supported", "correct", "relevant"]
NEEDS: dict[str, frozenset[contract.Need]] = {
    "supported": frozenset({"answer", "passages"}),
    "correct": frozenset({"answer", "ground_truth"}),
    "relevant": frozenset({"answer"}),
}


_Task = tuple[contract.JudgeCase, contract.JudgedMetric]


class YesNo(PromptedJudge):
    """Calls a language model with yes/no questions; the value is how likely its answer is to begin with yes.

    The value is P(yes) / (P(yes) + P(no)) over the likeliest first tokens. Where the server does not give
    their probabilities, the word of the reply is read: 1 or 0.

    metrics: built-in questions: supported (by the passages), correct (by the ground truth), relevant
    questions: your own, metric to question, or to a mapping of `ask` and `needs`
    top_logprobs: number of first tokens requested; most servers give 20 at most
    least_share: least total probability of yes and no; below it there is no value
    """

    kind: ClassVar[str] = "yes_no"

    metrics: tuple[Preset, ...] = ("supported", "correct")
    questions: OwnWordings = {}  # noqa: RUF012 - pydantic copies it
    top_logprobs: Annotated[int, Field(ge=2, le=100)] = 20
    least_share: Annotated[float, Field(ge=0, le=1)] = 0.05

    @model_validator(mode="after")
    def _asks_each_once(self) -> Self:
        check_names(self.metrics, self.questions, "questions")
        return self

    @property
    def judged_metrics(self) -> tuple[contract.JudgedMetric, ...]:
        needs: dict[str, frozenset[contract.Need]] = {name: NEEDS[name] for name in self.metrics}
        return metrics_of("yes_no", needs, self.questions, "How likely the judge is to say yes")

    def verdicts(
        self, cases: Sequence[contract.JudgeCase], context: contract.JudgeContext
    ) -> list[dict[str, contract.Judgement]]:
        tasks = [(case, metric) for case in cases for metric in self._of(case)]
        asking = _Asking(self, context)
        found = context.each(asking.judgement, tasks, self, "yes or no")
        return [{metric.name: next(found) for metric in self._of(case)} for case in cases]

    def _of(self, case: contract.JudgeCase) -> list[contract.JudgedMetric]:
        return [one for one in self.judged_metrics if one.can_judge(case)]

    def wording(self, metric: str, language: Language) -> str:
        own = self.questions.get(metric)
        return own.ask if own else wording("yes_no", metric, language)

    @property
    def worded(self) -> tuple[str, ...]:
        return self.metrics

    def calls_per_case(self) -> CallsEach:
        asked = len(self.judged_metrics)
        return CallsEach(asked, 2 * asked)

    @property
    def longest_reply(self) -> int:
        return self.max_tokens or WORD_TOKENS


class _Asking:
    def __init__(self, judge: YesNo, context: contract.JudgeContext) -> None:
        self._judge = judge
        self._context = context
        self._refused = threading.Event()

    def judgement(self, task: _Task) -> contract.Judgement:
        judge, (case, metric) = self._judge, task

        def write(case: contract.JudgeCase) -> Messages:
            ask = judge.wording(metric.name, judge.prompt.language_of(case))
            return judge.prompt.messages(case, metric.needs, ask=ask)

        found = judge.fit(case, write, self._context.gateway, WORD_TOKENS, metric.needs)
        if isinstance(found, contract.Judgement):
            return found
        replies: list[Reply] = []
        if not self._refused.is_set():
            replies.append(self._ask(case, found.messages, tops=judge.top_logprobs))
            read = self._read(replies[0], found.note)
            if read is not None:
                return read
        replies.append(self._ask(case, found.messages, tops=None))
        return _of_word(replies, found.note)

    def _ask(self, case: contract.JudgeCase, messages: Messages, *, tops: int | None) -> Reply:
        context = self._context
        return context.gateway.ask(
            self._judge,
            messages,
            max_tokens=WORD_TOKENS if tops is None else 1,
            seed=context.seed,
            replicate=context.replicate,
            top_logprobs=tops,
            purpose=context.purpose.of(case.question_id),
        )

    def _read(self, reply: Reply, note: str) -> contract.Judgement | None:
        if reply.status is Status.ERROR and "logprob" in (reply.reason or "").lower():
            self._refused.set()
            return None
        if reply.raw is None or reply.status is Status.REFUSED:
            return make_judgement([reply])
        if reply.first_tokens:
            found = chances(reply.first_tokens)
            said = f"P(yes) {found.yes:.3g}, P(no) {found.no:.3g} of the first token"
            reason = "; ".join(filter(None, [said, note]))
            if found.share <= 0 or found.share < self._judge.least_share:
                reason = f"it would begin with neither yes nor no: {reason}"
                return make_judgement([reply], status=Status.PARSE_FAILED, reason=reason)
            sides = (("yes", found.yes), ("no", found.no))
            statements = tuple(contract.Statement("first token", word, value=share) for word, share in sides)
            return make_judgement([reply], value=found.value, reason=reason, statements=statements)
        return None if word_of(reply.text) is None else _of_word([reply], note)


def _of_word(replies: Sequence[Reply], note: str) -> contract.Judgement:
    last = replies[-1]
    if last.raw is None or last.status is Status.REFUSED:
        return make_judgement(replies)
    said = word_of(last.text)
    if said is None and declines(last.text):
        return make_judgement(replies, status=Status.REFUSED, reason=f"{DECLINED}: {last.text}")
    if said is None:
        reason = "the reply begins with neither yes nor no"
        return make_judgement(replies, status=Status.PARSE_FAILED, reason=reason)
    reason = "the server gives no probabilities, its word is the value"
    return make_judgement(replies, value=float(said), reason="; ".join(filter(None, [reason, note])))
