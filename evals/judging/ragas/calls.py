"""What one case asks: each thing once, whichever metrics need it; a reply is kept by the metric that paid."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.judging.contract import JudgeCase, JudgeContext, Judgement, Need, Statement
from rag_assay.evals.judging.prompt_files import quote_for_judge
from rag_assay.evals.judging.structured_calls import ReplyForm, ask_in_room, make_judgement
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.quoting import quote_line
from rag_assay.warehouse.inference.replies import Reply
from rag_assay.warehouse.inference.structured import Structured
from rag_assay.warehouse.schemas import Status

if TYPE_CHECKING:
    from rag_assay.warehouse.inference.gateway import Messages

Shape = TypeVar("Shape", bound=BaseModel)
LEAST_ROOM = 40  # tokens: no reply that is asked for is shorter


class StoppedError(Exception):
    """A metric has no value: a call failed or gave nothing to count."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


@dataclass
class CaseCalls:
    """The calls of one case; window: tokens that the model reads, as the recipe says."""

    chat: ChatModel
    context: JudgeContext
    question_id: str | None
    window: int | None = None
    _known: dict[tuple[str, str, int], Structured[BaseModel]] = field(default_factory=dict)

    def ask(
        self, messages: Messages, shape: type[Shape], form: ReplyForm, turn: tuple[int, int]
    ) -> tuple[Structured[Shape], tuple[Reply, ...]]:
        key = messages[-1]["content"], shape.__name__, turn[0]
        known = self._known.get(key)
        if known is not None:
            return known, ()  # type: ignore[return-value] # the same prompt and class name have the same shape
        found = ask_in_room(
            self.chat,
            self.context,
            messages,
            shape,
            form,
            name=shape.__name__,
            least=LEAST_ROOM,
            window=self.window,
            question_id=self.question_id,
            replicate=self.context.replicate * turn[1] + turn[0],
        )
        self._known[key] = found  # type: ignore[assignment] # read by its own class only
        return found, found.replies


@dataclass
class MetricCalls:
    """The calls of one metric for one case; stopped: why there will be no value."""

    case: CaseCalls
    replies: list[Reply] = field(default_factory=list)
    values: list[BaseModel] = field(default_factory=list)
    stopped: StoppedError | None = None

    def ask(
        self, messages: Messages, shape: type[Shape], form: ReplyForm, turn: tuple[int, int] = (0, 1)
    ) -> Shape:
        if self.stopped is not None:
            raise self.stopped
        found, new = self.case.ask(messages, shape, form, turn)
        self.replies += new
        if found.value is None:
            raise self.stop(found.status, found.reason or f"the call ended as {found.status}")
        self.values.append(found.value)
        return found.value

    def stop(self, status: Status, reason: str) -> StoppedError:
        self.stopped = StoppedError(status, reason)
        return self.stopped

    def judgement(
        self, value: float | None, reason: str | None, statements: tuple[Statement, ...] = ()
    ) -> Judgement:
        if self.stopped is not None:
            status, value, reason = self.stopped.status, None, self.stopped.reason
        else:
            status = Status.OK if value is not None else Status.PARSE_FAILED
        found = make_judgement(self.replies, value=value, status=status, reason=reason, statements=statements)
        raws = [reply.raw for reply in self.replies if reply.raw is not None]
        return replace(found, raw="\n\n".join(raws) if raws else None)


@dataclass(frozen=True)
class Texts:
    """What the metrics of one case read."""

    question: str
    answer: str
    truth: str
    passages: tuple[str, ...]
    first: int

    def inputs(self, names: Collection[str], *, each_passage: bool) -> dict[str, object]:
        """Return the texts by ragas' names; of passages that are judged one by one, the first ones."""
        passages = self.passages[: self.first] if each_passage else self.passages
        found: dict[str, object] = {"user_input": self.question, "response": self.answer}
        found |= {"reference": self.truth, "retrieved_contexts": list(passages)}
        return {name: text for name, text in found.items() if name in names}

    def missing(self, needs: Collection[Need]) -> Judgement | None:
        if not self.question or ("answer" in needs and not self.answer):
            what = "answer" if self.question else "question"
            return Judgement(Status.PARSE_FAILED, reason=f"the {what} has no text that can be seen")
        if "passages" in needs and not self.passages:
            return Judgement(Status.NO_CONTEXT, reason="the passages have no text that can be seen")
        if "ground_truth" in needs and not self.truth:
            return Judgement(Status.NO_CONTEXT, reason="the ground truth has no text that can be seen")
        return None


def texts_of(case: JudgeCase, first: int) -> Texts:
    passages = tuple(_passage(one) for one in case.passages if quote_for_judge(one.text))
    question, answer, truth = map(
        quote_for_judge, (case.question, case.answer or "", case.ground_truth or "")
    )
    return Texts(question, answer, truth, passages, first)


def _passage(passage: Passage) -> str:
    facts = [*filter(None, (passage.title, " › ".join(passage.section), (passage.date or "")[:10]))]
    line = quote_for_judge(quote_line(" · ".join(facts)))
    return f"{line}\n{quote_for_judge(passage.text)}" if line else quote_for_judge(passage.text)
