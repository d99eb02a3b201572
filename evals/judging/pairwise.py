"""Has a model compare an answer with that of another cell, in both orders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

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
from rag_assay.evals.judging.criteria_verdicts import Reason
from rag_assay.evals.judging.criterion_texts import Words, wording, wordings_identity
from rag_assay.evals.judging.frames import quote_for_judge
from rag_assay.evals.judging.loose_verdicts import choice_within, mending
from rag_assay.evals.judging.prompt_files import JudgePrompt, Language
from rag_assay.evals.judging.replies import make_judgement
from rag_assay.evals.judging.structured_calls import ReplySchema, VerdictAsker
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.chat_part import CallsEach
from rag_assay.warehouse.inference.gateway import Messages
from rag_assay.warehouse.inference.structured import MOST_ASKED, Structured
from rag_assay.warehouse.recipe import Strict
from rag_assay.warehouse.schemas import Status

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


_Write = Callable[[JudgeCase], Messages]


class PairwiseJudge(ChatModel, Judge):
    """Asks a language model which of two answers is better, in both orders: its own, or that of another cell.

    The value is 1 where its own wins in both orders, 0 where the other does, else 0.5. Equal texts are a tie
    that nobody is asked about.

    against: the other cell, without the study, as in `tokens-128.minilm.bm25.extractive`
    ask: what is asked, in place of our own wording
    shown: what the model sees beside the question and the answers: ground_truth, passages of the cell
    language: of the prompt's own text, en | de; unless said, the question's, or English
    window: tokens that the model reads; unless said, what is known of it. Passages are cut to fit
    """

    model_config = ConfigDict(serialize_by_alias=True)

    kind: ClassVar[str] = "pairwise"
    unless_said: ClassVar[frozenset[str]] = frozenset({"ask", "language", "window"})

    cell: Annotated[
        str, StringConstraints(pattern=r"^[^.\s]+(\.[^.\s]+)+$", max_length=500), Field(alias="against")
    ]
    ask: Words | None = None
    shown: tuple[Literal["ground_truth", "passages"], ...] = ()
    language: Language | None = None
    window: Annotated[int, Field(ge=64, le=100_000_000)] | None = None

    @property
    def against(self) -> str:
        """The other cell."""
        return self.cell

    @property
    def judged_metrics(self) -> tuple[JudgedMetric, ...]:
        """One, of which 0.5 is a tie."""
        needs: frozenset[Need] = frozenset({"answer", "rival", *self.shown})
        about = (
            f"1 where it is preferred to that of {self.cell} in both orders, 0 where that one is, else 0.5"
        )
        return (JudgedMetric(WIN, needs, about=about),)

    def verdicts(self, cases: Sequence[JudgeCase], context: JudgeContext) -> list[dict[str, Judgement]]:
        """Compare the answers of each case, as many at once as the model's limits allow."""
        asker = VerdictAsker(self, context)
        found = context.each(lambda case: self._win(case, asker), cases, self, "comparing")
        return [{WIN: one} for one in found]

    def _win(self, case: JudgeCase, asker: VerdictAsker) -> Judgement:
        if (case.answer or "").split() == (case.rival or "").split():
            return Judgement(Status.OK, 0.5, "the two answers are equal; nobody was asked")
        window = ContextWindow(self, asker.context.gateway, self.max_tokens or _TOKENS, self.window)
        needs_passages = "passages" in self.shown
        shown = case if needs_passages else replace(case, passages=())
        found: list[Structured[BaseModel]] = []
        notes = []
        for is_first in (True, False):
            fitted = fit_case(shown, self._written(is_first), window, needs_passages=needs_passages)
            if isinstance(fitted, Judgement):
                return fitted
            notes.append(fitted.note)
            found.append(asker.ask(fitted.messages, _WANTED, case.question_id))
            if found[-1].value is None:
                break
        return _judgement(found, notes[0], self._asked(case))

    def _written(self, is_first: bool) -> _Write:
        """Return what writes the prompt of a case with the answer before that of the other cell, or after."""

        def write(case: JudgeCase) -> Messages:
            answers = [quote_for_judge(case.answer or ""), quote_for_judge(case.rival or "")]
            first, second = answers if is_first else answers[::-1]
            return self.prompt.messages(case, self.shown, first=first, second=second, ask=self._asked(case))

        return write

    def _asked(self, case: JudgeCase) -> str:
        return self.ask or wording("pairwise", "better", self.prompt.language_of(case))

    @property
    def prompt(self) -> JudgePrompt:
        """The files that it asks by."""
        return JudgePrompt("pairwise", self.language)

    def dependencies(self, seed: int) -> list[str | int]:
        """Return the digests of its prompt and of our own wording, the seed, and who answers."""
        asked = [] if self.ask else [wordings_identity("pairwise", ("better",))]
        served = self.served_by()
        return [self.prompt.identity(), *asked, seed, *([served] if served else [])]

    def calls_per_case(self) -> CallsEach:
        """Return none for equal texts, else one for each order; and a second for what cannot be read."""
        return CallsEach(0, 2 * MOST_ASKED)

    @property
    def longest_reply(self) -> int:
        """Tokens that a reply has at most."""
        return self.max_tokens or _TOKENS

    @property
    def chat(self) -> ChatModel:
        """The recipe itself."""
        return self


def _judgement(found: Sequence[Structured[BaseModel]], note: str, asked: str) -> Judgement:
    """Put the verdicts of both orders together, the one with the answer first before the other."""
    replies = [reply for one in found for reply in one.replies]
    orders = zip(found, (True, False), strict=False)
    said = [_read(one.value, is_first) for one, is_first in orders if one.value is not None]
    statements = tuple(
        Statement(place, asked, preferred, _POINTS[preferred], reason or None)
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
    """Return which answer the model prefers, and why; the answer of the case stands first or second."""
    assert isinstance(found, Better)  # noqa: S101 -- there is a value
    if found.better == "tie":
        return "tie", found.reason
    return ("answer" if (found.better == "1") is is_first else "rival"), found.reason


def _said(text: str) -> Mapping[str, Any] | None:
    """Return the verdict that the words of a reply hold."""
    better = choice_within(text)
    return None if better is None else {"better": better}


_WANTED = ReplySchema(Better, "better", {}, lambda _: None, mending(Better, _said), _TOKENS)
