"""A question on its way through a retriever, and the trace of that way."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from rag_assay.evals.retrieval.query_interpretation import LONGEST as LONGEST_UNDERSTOOD
from rag_assay.evals.retrieval.query_interpretation import QueryInterpretation, Removal, Use
from rag_assay.evals.retrieval.ranking import Mask, Ranking, Rows, Vector

Kind = Literal["arm", "fuse", "rerank", "filter", "cut", "deliver", "budget"]
"""What a step does to candidates: finds, fuses, re-orders or filters them, cuts the list, changes what is
delivered, or keeps to a token budget."""
LONGEST = 400  # characters of a question or reason that a note keeps
LONGEST_RAW = 4_000  # … of a model's reply


class TraceStep(NamedTuple):
    """The candidates after one step.

    step: the kind of the retriever or step that they are of
    spans: what is delivered of each row, shape (n, 2); None: each chunk's own context
    """

    step: str
    kind: Kind
    rows: Rows
    spans: npt.NDArray[np.int64] | None = None


class Note(NamedTuple):
    """One remark on one question: why a filter was dropped, why a model's reply was not used.

    kind: the name of the query transform
    question: as it was asked, cut at 400 characters
    status: relaxed | empty | not_a_date | unknown, or the `schemas.Status` of a model's call
    reason: one sentence
    raw: a reply that could not be used, cut at 4,000 characters; all of it is in the cache of calls
    """

    kind: str
    question: str
    status: str
    reason: str
    raw: str | None = None


@dataclass
class Trace:
    """What came of one question: candidates after each step, notes, what was understood; each in its order.

    All candidates of a step are kept, so that where evidence was lost does not hang on how many of them are
    stored afterwards.

    notes: each once
    understood: `QueryInterpretation.fact` -> what was understood, each once
    allowed: which rows the filters of the question let through, shape (chunks,); None: all
    """

    steps: list[TraceStep] = field(default_factory=list)
    notes: dict[Note, None] = field(default_factory=dict)
    understood: dict[tuple[str, str, str], QueryInterpretation] = field(default_factory=dict)
    allowed: Mask | None = None

    def record(self, step: str, kind: Kind, ranking: Ranking) -> None:
        """Keep the rows of a step's ranking."""
        self.steps.append(TraceStep(step, kind, ranking.rows, ranking.spans))

    def include(
        self,
        steps: Iterable[TraceStep],
        notes: Iterable[Note],
        understood: Iterable[QueryInterpretation] = (),
    ) -> None:
        """Keep the steps and notes of a part, and what it understood."""
        self.steps.extend(steps)
        self.notes.update(dict.fromkeys(notes))
        for one in understood:
            known = self.understood.get(one.fact)
            self.understood[one.fact] = known.or_firmer(one) if known else one


@dataclass(frozen=True)
class Entity:
    """Something that a question names.

    kind: date | keyword | club | season, or any type that a gazetteer or model tells
    text: as the question says it
    value: as the corpus says it: a keyword, or an ISO 8601 date
    """

    kind: str
    text: str
    value: str


@dataclass(frozen=True)
class Query:
    r"""A question on its way through a retriever.

    text: letters and accents composed (Unicode's form NFC), as in all documents, however it was typed
    vector: its unit vector, shape (dimensions,); None when no part of the retriever needs one
    asked_at: ISO 8601 date or time at which it is asked; None: not known
    conversation: what was said before it, oldest first, question and answer by turns
    entities: what it names
    allowed: which rows of the index may be found, shape (chunks,); None: all
    where: the same as a LanceDB predicate, where it is known as one
    without: what of the question is not to be understood, for the person took it away
    remembered: whether its ranking may come from the run's memory, and is kept there
    question_id: names the question in its set; None: it is of none
    trace: where steps record their candidates, and transforms their notes

    >>> Query("Fa\u0308hre").text
    'Fähre'
    """

    text: str
    vector: Vector | None = None
    asked_at: str | None = None
    conversation: tuple[str, ...] = ()
    entities: tuple[Entity, ...] = ()
    allowed: Mask | None = None
    where: str | None = None
    without: frozenset[Removal] = frozenset()
    remembered: bool = True
    question_id: str | None = None
    trace: Trace = field(default_factory=Trace, repr=False)

    def __post_init__(self) -> None:
        if not unicodedata.is_normalized("NFC", self.text):
            object.__setattr__(self, "text", unicodedata.normalize("NFC", self.text))

    def key(self) -> tuple[object, ...]:
        """Return what can change its ranking, to look it up by."""
        vector = None if self.vector is None else self.vector.tobytes()
        allowed = None if self.allowed is None else self.allowed.tobytes()
        key = (self.text, vector, self.asked_at, self.conversation, self.entities, allowed, self.where)
        return (*key, self.without) if self.without else key

    def permitted(self, rows: Rows) -> Mask:
        """Return which of ``rows`` may be found."""
        return np.ones(len(rows), np.bool_) if self.allowed is None else self.allowed[rows]

    def remark(self, kind: str, status: str, reason: str, raw: str | None = None) -> None:
        """Keep a note on it with its trace."""
        reply = raw[:LONGEST_RAW] if raw else None
        self.trace.include((), [Note(kind, self.text[:LONGEST], str(status), reason[:LONGEST], reply)])

    def understand(
        self, step: str, kind: str, text: str, value: str, status: Use = "used"
    ) -> QueryInterpretation:
        """Keep what was understood of it with its trace; what was taken away has the status `removed`."""
        kind = kind.replace(":", " ")  # a removal is written with colons
        one = QueryInterpretation(step, kind, text[:LONGEST_UNDERSTOOD], value[:LONGEST_UNDERSTOOD], status)
        if any(removal.covers(one) for removal in self.without):
            one = one._replace(status="removed")
        self.trace.include((), (), [one])
        return one
