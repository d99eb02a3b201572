"""The contract of a judge; `tests/contracts/test_judges.py` checks every implementation.

A stage that scores by judges makes a case of each question and its answer, calls `Judge.judge` with a
context, and stores a row for each judgement; the judge's identity and `dependencies` are part of its own.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, NamedTuple

from assets.embedding.embedder import Matrix
from evals.generating.contract import Passage
from warehouse.encodable import encodable
from warehouse.inference.chat_part import CallsEach, ChatPart
from warehouse.inference.gateway import Gateway
from warehouse.inference.purpose import Purpose
from warehouse.inference.structured import MOST_ASKED
from warehouse.parts import OneOf, Part
from warehouse.registry import Registry
from warehouse.schemas import Status

LONGEST_REASON, LONGEST_RAW = 1_000, 20_000  # characters that are kept; the cache of calls has all of it
Need = Literal["passages", "ground_truth"]
"""What a metric compares the answer with."""


@dataclass(frozen=True)
class JudgeCase:
    """A question with the answer that a cell gave, and what the answer is held against.

    language: two-letter code of the question; None: not known
    answer: None where there is none; a refusal is an answer
    status, reason: how the answer ended
    ground_truth: the answer that is right; None where nobody wrote one
    passages: those that the answer was made of
    question_id: names the question in its set; None: it is of none
    """

    question: str
    language: str | None = None
    answer: str | None = None
    status: Status = Status.OK
    reason: str | None = None
    ground_truth: str | None = None
    passages: tuple[Passage, ...] = ()
    question_id: str | None = None


class JudgedMetric(NamedTuple):
    """A number that a judge gives.

    needs: what it compares the answer with
    bounds: smallest and largest value
    """

    name: str
    needs: frozenset[Need] = frozenset()
    bounds: tuple[float, float] = (0.0, 1.0)
    higher_is_better: bool = True

    def applies(self, case: JudgeCase) -> bool:
        """Return whether it can be asked of a question: a matter of the question alone, never of a cell."""
        return "ground_truth" not in self.needs or bool(case.ground_truth)

    def obstacle(self, case: JudgeCase) -> Judgement | None:
        """Return why a case cannot be judged; None where it can be."""
        if case.status not in {Status.OK, Status.REFUSED}:
            return Judgement(case.status, reason=case.reason or f"the answer ended as {case.status}")
        if not case.answer or not case.answer.strip():
            return Judgement(Status.PARSE_FAILED, reason="the answer is empty")
        if "passages" in self.needs and not any(passage.text.strip() for passage in case.passages):
            return Judgement(Status.NO_CONTEXT, reason="there is no passage to hold the answer against")
        return None


@dataclass(frozen=True)
class Judgement:
    """What a judge says of one case by one metric.

    status: ok · refused · parse_failed (no verdict can be read) · no_context · or how a call failed
    value: within the metric's bounds; None unless the status is `ok`
    reason: the judge's own, or why there is no value
    raw: what its model gave, untouched but for its length
    seconds, prompt_tokens, completion_tokens, usd, cached: as in `Answer`; None where nothing was asked
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


@dataclass(frozen=True)
class JudgeContext:
    """What a judge may use beside its cases.

    gateway: asks language models, and pays them from the budget that the judge has
    embed: texts -> unit vectors, shape (texts, dimensions), by the judge's embedder
    seed: the study's, for models that take one
    replicate: which of several tries this is, from 0: models are asked again for each
    progress: is told (what is being done, done, of)
    purpose: what calls are made for; `purpose.of(case.question_id)` goes with each
    """

    gateway: Gateway
    embed: Callable[[Sequence[str]], Matrix]
    seed: int = 0
    replicate: int = 0
    progress: Callable[[str, int, int], None] = lambda _label, _done, _of: None
    purpose: Purpose = Purpose("judging")


Judgements = Mapping[str, Judgement]
"""Name of a metric -> what was judged by it."""


class Judge(ChatPart, Part):
    """A way to say how good answers are, by one or several metrics.

    The contract: for each case, in order, a judgement by each metric that applies to its question; a value is
    a number within the metric's bounds, or there is none and the status says why; a case does not change the
    judgement of another; whatever fails is a judgement, and nothing is raised for it; all that it reads is
    data, and nothing in it is followed as an instruction.

    varies: whether it may judge the same case otherwise the next time
    """

    varies: ClassVar[bool] = True

    @property
    @abstractmethod
    def judged_metrics(self) -> tuple[JudgedMetric, ...]:
        """What it judges by; each name once."""

    @abstractmethod
    def verdicts(self, cases: Sequence[JudgeCase], context: JudgeContext) -> Sequence[Judgements]:
        """Judge cases that at least one metric can judge, in their order.

        Judgements by metrics that cannot judge a case may be left out; they count for nothing.
        """

    @abstractmethod
    def dependencies(self, seed: int) -> list[str | int]:
        """Return what its judgements depend on beside its recipe and the cases: prompts, weights, seed.

        seed: the study's
        """

    def calls_per_case(self) -> CallsEach:
        """Return how many calls of its model one case takes, for the plan of a run.

        One, and a second where the first reply cannot be read, unless the judge says otherwise; none without
        a model.
        """
        return self._calls_each(MOST_ASKED)

    def judge(self, cases: Sequence[JudgeCase], context: JudgeContext) -> list[Judgements]:
        """Judge cases, in their order, by the metrics that apply to each.

        Raises:
            ValueError: the judge gave verdicts for another number of cases.
        """
        judged = [case for case in cases if self._can_judge(case)]
        found = self.verdicts(judged, context) if judged else []
        if len(found) != len(judged):
            raise ValueError(f"{self.kind} gave verdicts for {len(found)} cases of {len(judged)}")
        verdicts = iter(found)
        return [self._judgements(case, next(verdicts) if self._can_judge(case) else {}) for case in cases]

    def _can_judge(self, case: JudgeCase) -> bool:
        return any(metric.applies(case) and not metric.obstacle(case) for metric in self.judged_metrics)

    def _judgements(self, case: JudgeCase, verdicts: Judgements) -> Judgements:
        silent = Judgement(Status.PARSE_FAILED, reason="the judge said nothing of it")
        return {
            metric.name: metric.obstacle(case) or _checked(verdicts.get(metric.name, silent), metric)
            for metric in self.judged_metrics
            if metric.applies(case)
        }


def _checked(judgement: Judgement, metric: JudgedMetric) -> Judgement:
    """Return a judgement whose value is a number within bounds or none, and whose texts can be stored."""
    kept = replace(
        judgement, reason=_cut(judgement.reason, LONGEST_REASON), raw=_cut(judgement.raw, LONGEST_RAW)
    )
    if kept.status is not Status.OK:
        return replace(kept, value=None, reason=kept.reason or f"the judgement ended as {kept.status}")
    least, most = metric.bounds
    if kept.value is None or not math.isfinite(kept.value) or not least <= kept.value <= most:
        reason = f"the judge gave {kept.value}, and no number from {least:g} to {most:g}"
        return replace(kept, status=Status.PARSE_FAILED, value=None, reason=reason)
    return replace(kept, value=float(kept.value))


def _cut(text: str | None, longest: int) -> str | None:
    if text is None or len(text) <= longest:
        return None if text is None else encodable(text)
    return encodable(text[: longest - 1]) + "…"


JUDGES: Registry[Judge] = Registry("judges", Judge)
AnyJudge = Annotated[Judge, OneOf(JUDGES)]
"""A judge as a study writes it: `{kind: {its parameters}}`."""
