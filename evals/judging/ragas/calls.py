"""What one case asks: each thing once, whichever metrics need it; a reply is kept by the metric that paid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pydantic import BaseModel

from rag_assay.evals.judging.contract import JudgeContext, Judgement, Statement
from rag_assay.evals.judging.replies import make_judgement
from rag_assay.evals.judging.structured_calls import ReplyBudget, ask_in_room
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.gateway import Messages
from rag_assay.warehouse.inference.replies import Reply
from rag_assay.warehouse.inference.structured import Bounds, Structured
from rag_assay.warehouse.schemas import Status

Shape = TypeVar("Shape", bound=BaseModel)
LEAST_ROOM = 40  # tokens: no reply that is asked for is shorter


class StoppedError(Exception):
    """A metric has no value, for a call has failed or gave nothing to count.

    status, reason: of the judgement
    """

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass
class CaseCalls:
    """The calls of one case.

    chat: the model
    question_id: of the case
    window: tokens that the model reads, as the recipe says; None: what is known of it
    """

    chat: ChatModel
    context: JudgeContext
    question_id: str | None
    window: int | None = None
    _known: dict[tuple[str, str, int], Structured[BaseModel]] = field(default_factory=dict)

    def ask(
        self,
        messages: Messages,
        shape: type[Shape],
        *,
        bounds: Bounds,
        max_tokens: int,
        check: Callable[[Shape], None],
        turn: tuple[int, int] = (0, 1),
    ) -> tuple[Structured[Shape], tuple[Reply, ...]]:
        """Return what the model says, and the replies that were new: none where the case has asked it before.

        turn: which of how many times the same is asked on purpose, from 0: each is a call of its own
        """
        key = messages[-1]["content"], shape.__name__, turn[0]
        known = self._known.get(key)
        if known is not None:
            return known, ()  # type: ignore[return-value] # the same prompt and class name have the same shape
        found = ask_in_room(
            self.chat,
            self.context,
            messages,
            shape,
            name=shape.__name__,
            room=ReplyBudget(max_tokens, LEAST_ROOM, self.window),
            question_id=self.question_id,
            bounds=bounds,
            check=check,
            replicate=self.context.replicate * turn[1] + turn[0],
        )
        self._known[key] = found  # type: ignore[assignment] # read by its own class only
        return found, found.replies


@dataclass
class MetricCalls:
    """What one metric has asked of one case.

    case: shared by the metrics of the case
    replies: that this metric paid for
    values: what the model said, in the order in which it was asked
    stopped: why there will be no value; then nothing more is asked
    """

    case: CaseCalls
    replies: list[Reply] = field(default_factory=list)
    values: list[BaseModel] = field(default_factory=list)
    stopped: StoppedError | None = None

    def ask(
        self,
        messages: Messages,
        shape: type[Shape],
        *,
        bounds: Bounds,
        max_tokens: int,
        check: Callable[[Shape], None],
        turn: tuple[int, int] = (0, 1),
    ) -> Shape:
        """Return what the model says.

        Raises:
            StoppedError: the call failed, or one before it.
        """
        if self.stopped is not None:
            raise self.stopped
        found, new = self.case.ask(
            messages, shape, bounds=bounds, max_tokens=max_tokens, check=check, turn=turn
        )
        self.replies += new
        if found.value is None:
            raise self.stop(found.status, found.reason or f"the call ended as {found.status}")
        self.values.append(found.value)
        return found.value

    def stop(self, status: Status, reason: str) -> StoppedError:
        """Return the error that ends the metric; it is kept, for ragas swallows some."""
        self.stopped = StoppedError(status, reason)
        return self.stopped

    def judgement(
        self, value: float | None, reason: str | None, statements: tuple[Statement, ...] = ()
    ) -> Judgement:
        """Return the judgement that all came to: the raw texts of all calls, one after another."""
        if self.stopped is not None:
            status, value, reason = self.stopped.status, None, self.stopped.reason
        else:
            status = Status.OK if value is not None else Status.PARSE_FAILED
        found = make_judgement(self.replies, value=value, status=status, reason=reason, statements=statements)
        raws = [reply.raw for reply in self.replies if reply.raw is not None]
        return replace(found, raw="\n\n".join(raws) if raws else None)
