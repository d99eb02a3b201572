"""The contract of a judge; `tests/contracts/test_judges.py` checks every implementation."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import Field

from rag_assay.evals.metrics.semantic_similarity import JUDGE as RULER
from rag_assay.warehouse.components import Component, OneOf
from rag_assay.warehouse.encodable import encodable
from rag_assay.warehouse.inference.call_tags import Purpose
from rag_assay.warehouse.inference.chat_part import CallsEach, ChatComponent
from rag_assay.warehouse.inference.structured import MOST_ASKED
from rag_assay.warehouse.registry import Registry
from rag_assay.warehouse.status import Status

if TYPE_CHECKING:
    from rag_assay.assets.embedding.embedder import EmbedderRecipe, Matrix
    from rag_assay.evals.generation.contract import Passage
    from rag_assay.warehouse.inference.chat_model import ChatModel
    from rag_assay.warehouse.inference.gateway import Gateway

LONGEST_REASON, LONGEST_RAW = 1_000, 20_000  # characters that are kept; the cache of calls has all of it
LONGEST_STATEMENT, MOST_STATEMENTS = 500, 200  # characters of a statement, statements of a judgement
MOST_REPLICATES = 25
Need = Literal["answer", "passages", "ground_truth", "rival"]
"""What a metric looks at beside the question."""
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class JudgeCase:
    """A question with the answer of a cell.

    language: two-letter code of the question, if known
    answer: a refusal is an answer
    passages: those that the answer was made of; those that were found, where there is no generator
    rival: the answer of the cell that `Judge.against` names
    """

    question: str
    language: str | None = None
    answer: str | None = None
    status: Status = Status.OK
    reason: str | None = None
    ground_truth: str | None = None
    passages: tuple[Passage, ...] = ()
    question_id: str | None = None
    rival: str | None = None


class JudgedMetric(NamedTuple):
    """A number that a judge gives, `JUDGE.NAME` in a study.

    needs: what it reads beside the question; one without `answer` is judged whatever became of the answer
    bounds: smallest and largest value
    about: as in "Share of the statements that the passages support"
    """

    name: str
    needs: frozenset[Need] = frozenset({"answer"})
    bounds: tuple[float, float] = (0.0, 1.0)
    higher_is_better: bool = True
    about: str = ""

    def applies(self, case: JudgeCase) -> bool:
        return "ground_truth" not in self.needs or bool(case.ground_truth)

    def can_judge(self, case: JudgeCase) -> bool:
        return self.applies(case) and self.obstacle(case) is None

    def obstacle(self, case: JudgeCase) -> Judgement | None:
        if "answer" in self.needs:
            if case.status not in {Status.OK, Status.REFUSED}:
                return Judgement(case.status, reason=case.reason or f"the answer ended as {case.status}")
            if not case.answer or not case.answer.strip():
                return Judgement(Status.PARSE_FAILED, reason="the answer is empty")
        if "passages" in self.needs and not any(passage.text.strip() for passage in case.passages):
            return Judgement(Status.NO_CONTEXT, reason="there is no passage to hold the answer against")
        if "rival" in self.needs and not (case.rival and case.rival.strip()):
            return Judgement(Status.NO_CONTEXT, reason="there is no other answer to compare it with")
        return None


class Statement(NamedTuple):
    """A claim, fact, passage or question that a judge looked at.

    of: `answer`, `ground_truth`, `passage 2`, `answer, sentence 3`
    verdict: the judge's word for it (`supported`, `contradicted`, `tp`), if any
    value: what it counts in the value of the judgement, if it counts by itself
    """

    of: str
    text: str
    verdict: str | None = None
    value: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Judgement:
    """A case by one metric.

    status: ok · refused · parse_failed · no_context · or how a call failed
    value: within the metric's bounds; None unless the status is `ok`
    seconds, prompt_tokens, completion_tokens, usd, cached: as in `Answer`, of all calls for this metric; what
        several metrics share counts at the first of them, so that sums are right
    """

    status: Status
    value: float | None = None
    reason: str | None = None
    raw: str | None = None
    seconds: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    usd: float | None = None
    cached: bool | None = None
    calls: int | None = None
    model: str | None = None
    statements: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class JudgeContext:
    """gateway: calls language models within the judge's budget

    embed: texts -> unit vectors, shape (texts, dimensions), by `Judge.embeds_with`
    replicate: from 0: models are called again for each
    purpose: `purpose.of(case.question_id)` goes with each call
    """

    gateway: Gateway
    embed: Callable[[Sequence[str]], Matrix]
    seed: int = 0
    replicate: int = 0
    progress: Callable[[str, int, int], None] = lambda _label, _done, _of: None
    purpose: Purpose = Purpose("judging")

    def each(
        self, ask: Callable[[Item], Result], items: Sequence[Item], chat: ChatModel, label: str
    ) -> Iterator[Result]:
        for number, one in enumerate(self.gateway.map(ask, items, chat), 1):
            self.progress(f"{label} by {chat.model}", number, len(items))
            yield one


Judgements = Mapping[str, Judgement]
"""Name of a metric -> what was judged by it."""


class Judge(ChatComponent, Component):
    """A way to say how good answers are, by one or several metrics.

    The contract: for each case, in order, a judgement by each metric that applies to its question; a value is
    a number within the metric's bounds, or there is none and the status says why; a case does not change the
    judgement of another; whatever fails is a judgement, and nothing is raised for it; all that it reads is
    data, and nothing in it is followed as an instruction.

    varies: whether it may judge the same case otherwise the next time
    replicates: judgements of each case; a judge that cannot vary judges once
    vote: value of several replicates: their `mean`, or the value that more than half of them gave
        (`majority`; none without one)
    """

    varies: ClassVar[bool] = True

    replicates: Annotated[int, Field(ge=1, le=MOST_REPLICATES)] = 1
    vote: Literal["mean", "majority"] = "mean"

    @property
    def times(self) -> int:
        return self.replicates if self.varies else 1

    @property
    def embeds_with(self) -> EmbedderRecipe:
        """The embedder of `JudgeContext.embed`, with its `passage_revision()` among the `dependencies`."""
        return RULER

    @property
    def against(self) -> str | None:
        return None

    @property
    @abstractmethod
    def judged_metrics(self) -> tuple[JudgedMetric, ...]:
        """What it judges by; each name once."""

    @abstractmethod
    def verdicts(self, cases: Sequence[JudgeCase], context: JudgeContext) -> Sequence[Judgements]:
        """Judge cases that at least one metric can judge, in order; leave out what does not apply."""

    @abstractmethod
    def dependencies(self, seed: int) -> list[str | int]:
        """Return what judgements depend on beside recipe and cases: prompts, weights, seed."""

    def calls_per_case(self) -> CallsEach:
        """Return (least, most) calls of one case: by default one, and a second for an unreadable reply."""
        return self._calls_each(MOST_ASKED)

    def judge(self, cases: Sequence[JudgeCase], context: JudgeContext) -> list[Judgements]:
        judged = [case for case in cases if self._can_judge(case)]
        found = self.verdicts(judged, context) if judged else []
        if len(found) != len(judged):
            raise ValueError(f"{self.kind} gave verdicts for {len(found)} cases of {len(judged)}")
        verdicts = iter(found)
        return [self._judgements(case, next(verdicts) if self._can_judge(case) else {}) for case in cases]

    def _can_judge(self, case: JudgeCase) -> bool:
        return any(metric.can_judge(case) for metric in self.judged_metrics)

    def _judgements(self, case: JudgeCase, verdicts: Judgements) -> Judgements:
        silent = Judgement(Status.PARSE_FAILED, reason="the judge said nothing of it")
        return {
            metric.name: metric.obstacle(case) or _checked(verdicts.get(metric.name, silent), metric)
            for metric in self.judged_metrics
            if metric.applies(case)
        }


def _checked(judgement: Judgement, metric: JudgedMetric) -> Judgement:
    kept = replace(
        judgement,
        reason=_cut(judgement.reason, LONGEST_REASON),
        raw=_cut(judgement.raw, LONGEST_RAW),
        statements=tuple(map(_short, judgement.statements[:MOST_STATEMENTS])),
    )
    if kept.status is not Status.OK:
        return replace(kept, value=None, reason=kept.reason or f"the judgement ended as {kept.status}")
    least, most = metric.bounds
    if kept.value is None or not math.isfinite(kept.value) or not least <= kept.value <= most:
        reason = f"the judge gave {kept.value}, and no number from {least:g} to {most:g}"
        return replace(kept, status=Status.PARSE_FAILED, value=None, reason=reason)
    return replace(kept, value=float(kept.value))


def _short(statement: Statement) -> Statement:
    value = statement.value if statement.value is None or math.isfinite(statement.value) else None
    return statement._replace(
        of=encodable(statement.of),
        text=_cut(statement.text, LONGEST_STATEMENT) or "",
        verdict=_cut(statement.verdict, LONGEST_STATEMENT),
        value=value,
        reason=_cut(statement.reason, LONGEST_STATEMENT),
    )


def _cut(text: str | None, longest: int) -> str | None:
    if text is None or len(text) <= longest:
        return None if text is None else encodable(text)
    return encodable(text[: longest - 1]) + "…"


JUDGES: Registry[Judge] = Registry("judges", Judge)
AnyJudge = Annotated[Judge, OneOf(JUDGES)]
"""A judge as a study writes it: `{kind: {its parameters}}`."""
