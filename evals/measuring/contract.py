"""What a metric is, and what it is given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from warehouse.schemas import Status
from warehouse.spans import Span

Kind = Literal["retrieval", "answer", "cost"]
Sees = Literal["documents", "passages", "answers", "costs"]


@dataclass(frozen=True)
class Gold:
    """What a question should find.

    documents: document id -> grade (>= 1). Evidence that is not in the corpus counts as a document that no
        ranking can hold, so that the denominator is the same for every cell.
    spans: the evidence in the documents' text; empty when the gold is whole documents (BEIR)
    missing: characters of evidence that is nowhere in the corpus
    needs_all: whether the question needs all of it, or any of it
    """

    documents: dict[str, int]
    spans: tuple[Span, ...] = ()
    missing: int = 0
    needs_all: bool = True


@dataclass(frozen=True)
class Case:
    """One question as one cell dealt with it: the input of every metric."""

    question: dict[str, Any]  # a row of schemas.QUESTIONS
    gold: Gold
    hits: tuple[Span, ...]  # best first
    ranked: dict[str, Any]  # a row of schemas.RANKED
    answer: dict[str, Any] | None = None  # a row of schemas.ANSWERS


class Score(NamedTuple):
    """One outcome: a value, or a status and a reason why there is none."""

    status: Status
    value: float | None = None
    reason: str | None = None


class Metric(ABC):
    """A number for each question, and its mean for each cell.

    name: as written in a study; title: as shown
    sees: the finest thing that it looks at: what differs in nothing coarser has equal values
    bounds: smallest and largest possible value, None where there is none
    needs_texts: whether texts are embedded for it
    """

    name: str
    title: str
    kind: ClassVar[Kind]
    sees: ClassVar[Sees]
    higher_is_better: ClassVar[bool] = True
    bounds: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)
    unit: ClassVar[str] = ""
    explanation: str
    code_version: ClassVar[str] = "1"

    def versions(self) -> list[str]:
        """Return what its values depend on beside the cases: its code and, where it has one, its judge."""
        return [self.code_version]

    @abstractmethod
    def applies(self, question: dict[str, Any]) -> bool:
        """Say whether it can be asked of this question: a matter of the question alone, never of a cell."""

    @abstractmethod
    def measure(self, cases: Sequence[Case]) -> list[Score]:
        """Measure the cases, in their order; each ends in a value or in a typed status."""


class RetrievalMetric(Metric):
    """A metric of the ranking alone, at a depth k: what stands after the k-th document changes nothing."""

    kind = "retrieval"
    sees: ClassVar[Sees] = "documents"
    stem: ClassVar[str]
    label: ClassVar[str]

    def __init__(self, k: int) -> None:
        self.k = k
        self.name = f"{self.stem}@{k}"
        self.title = f"{self.label} @ {k}"

    def applies(self, question: dict[str, Any]) -> bool:
        """Say whether the question has evidence of any kind."""
        return bool(question["gold"] != "none")

    def measure(self, cases: Sequence[Case]) -> list[Score]:
        """Measure each ranking that ended well; the others keep their status."""
        return [self._score(case) for case in cases]

    def _score(self, case: Case) -> Score:
        status = Status(case.ranked["status"])
        if status is not Status.OK:
            return Score(status, reason=case.ranked["reason"] or "the ranking failed")
        return Score(Status.OK, self.value(case.gold, case.hits))

    @abstractmethod
    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        """Return the value for one ranking, best hit first."""


class AnswerMetric(Metric):
    """A metric of the answer's text against the ground truth."""

    kind = "answer"
    sees: ClassVar[Sees] = "answers"

    def applies(self, question: dict[str, Any]) -> bool:
        """Say whether there is a ground truth to compare with."""
        return bool(question["ground_truth"])

    def measure(self, cases: Sequence[Case]) -> list[Score]:
        """Measure the answers that have a text; the others keep their status."""
        usable = [i for i, case in enumerate(cases) if _text(case)]
        values = iter(self.values([cases[i] for i in usable]))
        scores = [no_answer(case) for case in cases]
        for i in usable:
            scores[i] = next(values)
        return scores

    @abstractmethod
    def values(self, cases: Sequence[Case]) -> list[Score]:
        """Measure cases that all have an answer's text."""


def _text(case: Case) -> str | None:
    answer = case.answer
    # A refusal is an answer: it is right where the documents do not say, and is measured like any other.
    if answer is None or answer["status"] not in {Status.OK, Status.REFUSED}:
        return None
    return answer["answer"] or None


def no_answer(case: Case) -> Score:
    """Return the score of a case without a usable answer: its status and reason, no value."""
    if case.answer is None:
        return Score(Status.NOT_RUN, reason="the cell has no answer to this question yet")
    status = Status(case.answer["status"])
    if status is Status.OK:
        return Score(Status.PARSE_FAILED, reason="the answer is empty")
    return Score(status, reason=case.answer["reason"] or str(status))


def documents_in_order(hits: Sequence[Span]) -> list[str]:
    """Read a ranking of chunks as one of documents, each at its best chunk."""
    return list(dict.fromkeys(hit.doc_id for hit in hits))
