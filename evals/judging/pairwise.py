"""Has a model compare an answer with that of another cell, in both orders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from rag_assay.evals.judging import contract
from rag_assay.evals.judging.criteria import Reason
from rag_assay.evals.judging.prompt_files import (
    Words,
    quote_for_judge,
    wording,
)
from rag_assay.evals.judging.structured_calls import (
    PromptedJudge,
    ReplySchema,
    VerdictAsker,
    choice_within,
    make_judgement,
    mending,
)
from rag_assay.warehouse.inference.chat_part import CallsEach
from rag_assay.warehouse.inference.structured import MOST_ASKED, Structured
from rag_assay.warehouse.recipe import Strict
from rag_assay.warehouse.schemas import Status

if TYPE_CHECKING:
    from rag_assay.warehouse.inference.gateway import Messages

    _Write = Callable[[contract.JudgeCase], Messages]

WIN = "win"
_TOKENS = 300  # of a verdict
PLACES = ("answer first", "answer second")
"""The two orders, as the statements of a judgement name them."""
_POINTS = {"answer": 1.0, "tie": 0.5, "rival": 0.0}
Preferred = Literal["answer", "rival", "tie"]


class Better(Strict):
    """What the model says of two answers."""

    model_config = ConfigDict(extra="ignore")

    reason: Reason = ""
    better: Literal["1", "2", "tie"]


class PairwiseJudge(PromptedJudge):
    """Calls a language model to compare an answer with that of another cell, in both orders.

    The value is 1 where its own wins in both orders, 0 where the other does, else 0.5. Equal texts are a tie
    without a call.

    against: the other cell, without the study, as in `tokens-128.minilm.bm25.extractive`
    ask: the question to the judge; default: the built-in wording
    shown: inputs beside the question and the answers: ground_truth, passages (of the judged cell, which
        favours its answer)
    """

    model_config = ConfigDict(serialize_by_alias=True)

    kind: ClassVar[str] = "pairwise"
    unless_said: ClassVar[frozenset[str]] = PromptedJudge.unless_said | {"ask"}

    cell: Annotated[
        str, StringConstraints(pattern=r"^[^.\s]+(\.[^.\s]+)+$", max_length=500), Field(alias="against")
    ]
    ask: Words | None = None
    shown: tuple[Literal["ground_truth", "passages"], ...] = ()

    @property
    def against(self) -> str:
        return self.cell

    @property
    def judged_metrics(self) -> tuple[contract.JudgedMetric, ...]:
        needs: frozenset[contract.Need] = frozenset({"answer", "rival", *self.shown})
        about = (
            f"1 where it is preferred to that of {self.cell} in both orders, 0 where that one is, else 0.5"
        )
        return (contract.JudgedMetric(WIN, needs, about=about),)

    def verdicts(
        self, cases: Sequence[contract.JudgeCase], context: contract.JudgeContext
    ) -> list[dict[str, contract.Judgement]]:
        asker = VerdictAsker(self, context)
        found = context.each(lambda case: self._win(case, asker), cases, self, "comparing")
        return [{WIN: one} for one in found]

    def _win(self, case: contract.JudgeCase, asker: VerdictAsker) -> contract.Judgement:
        if (case.answer or "").split() == (case.rival or "").split():
            return contract.Judgement(Status.OK, 0.5, "the two answers are equal; no model was called")
        found: list[Structured[BaseModel]] = []
        notes = []
        for is_first in (True, False):
            fitted = self.fit(case, self._written(is_first), asker.context.gateway, _TOKENS, self.shown)
            if isinstance(fitted, contract.Judgement):
                return fitted
            notes.append(fitted.note)
            found.append(asker.ask(fitted.messages, _WANTED, case.question_id))
            if found[-1].value is None:
                break
        return _judgement(found, notes[0], self._asked(case))

    def _written(self, is_first: bool) -> _Write:
        def write(case: contract.JudgeCase) -> Messages:
            answers = [quote_for_judge(case.answer or ""), quote_for_judge(case.rival or "")]
            first, second = answers if is_first else answers[::-1]
            return self.prompt.messages(case, self.shown, first=first, second=second, ask=self._asked(case))

        return write

    def _asked(self, case: contract.JudgeCase) -> str:
        return self.ask or wording("pairwise", "better", self.prompt.language_of(case))

    @property
    def worded(self) -> tuple[str, ...] | None:
        return None if self.ask else ("better",)

    def calls_per_case(self) -> CallsEach:
        return CallsEach(0, 2 * MOST_ASKED)

    @property
    def longest_reply(self) -> int:
        return self.max_tokens or _TOKENS


def _judgement(found: Sequence[Structured[BaseModel]], note: str, asked: str) -> contract.Judgement:
    replies = [reply for one in found for reply in one.replies]
    orders = zip(found, (True, False), strict=False)
    said = [_read(one.value, is_first) for one, is_first in orders if one.value is not None]
    statements = tuple(
        contract.Statement(place, asked, preferred, _POINTS[preferred], reason or None)
        for place, (preferred, reason) in zip(PLACES, said, strict=False)
    )
    if len(said) < len(PLACES):
        reason = f"{PLACES[len(said)]}: {found[-1].reason}"
        return make_judgement(replies, status=found[-1].status, reason=reason, statements=statements)
    one, other = (_POINTS[preferred] for preferred, _ in said)
    reasons = dict.fromkeys(reason for _, reason in said)
    if {one, other} == {0.0, 1.0}:
        reasons = {f"what stands {'first' if one else 'second'} is preferred in both orders": None}
    return make_judgement(
        replies,
        value=one if one == other else 0.5,
        reason="; ".join(filter(None, [*reasons, note])) or None,
        statements=statements,
    )


def _read(found: BaseModel | None, is_first: bool) -> tuple[Preferred, str]:
    assert isinstance(found, Better)  # noqa: S101 -- there is a value
    if found.better == "tie":
        return "tie", found.reason
    return ("answer" if (found.better == "1") is is_first else "rival"), found.reason


def _said(text: str) -> Mapping[str, Any] | None:
    better = choice_within(text)
    return None if better is None else {"better": better}


_WANTED = ReplySchema(Better, "better", {}, lambda _: None, mending(Better, _said), _TOKENS)
