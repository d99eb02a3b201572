"""A question on its way through a retriever, and the trace of that way."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

import numpy as np

from rag_assay.evals.retrieval.ranking import Mask, Ranking, Rows, Vector

if TYPE_CHECKING:
    import numpy.typing as npt

Use = Literal["used", "unused", "relaxed", "removed"]
"""What became of it: it was searched with; it limits nothing (a day to come, a name that no document
carries); it was dropped because nothing was left with it; the person took it away."""

REMOVABLE = ("follow_up", "time_frame", "entities")
"""Query transforms whose understanding can be taken away; what others do is the cell's own way to search."""
LONGEST_UNDERSTOOD = 4_000  # characters of a text or value that are kept
_FIRMNESS: tuple[Use, ...] = ("unused", "removed", "relaxed", "used")


class QueryInterpretation(NamedTuple):
    """One thing that was understood of a question.

    step: kind of the query transform that understood it
    kind: standalone (of follow_up), window (of time_frame), the type of an entity (date, season, keyword,
        club, …), expression (of filter), passage (of hyde), wording (of multi_query), word or synonym (of
        keywords)
    text: the words of the question that say it; empty where it is no words of its own
    value: what it is taken for: the question that stands alone, a window as an interval of ISO 8601, what the
        corpus calls an entity, an expression in JSON, a text or word that is searched for
    status: what became of it
    """

    step: str
    kind: str
    text: str
    value: str
    status: Use = "used"

    @property
    def fact(self) -> tuple[str, str, str]:
        return self.step, self.kind, self.value

    @property
    def is_removable(self) -> bool:
        return self.step in REMOVABLE

    def or_firmer(self, other: QueryInterpretation) -> QueryInterpretation:
        firmer = max(self.status, other.status, key=_FIRMNESS.index)
        return self if firmer == self.status else self._replace(status=firmer)


class Removal(NamedTuple):
    """What a question is asked without.

    step: follow_up | time_frame | entities
    kind: of what the step understands; None: every kind
    value: of one thing alone; None: all of the kind

    >>> known = QueryInterpretation("entities", "club", "Kohlenbach", "SV Kohlenbach 07")
    >>> Removal("entities", "club").covers(known), Removal("entities", "season").covers(known)
    (True, False)
    """

    step: str
    kind: str | None = None
    value: str | None = None

    @classmethod
    def of(cls, one: QueryInterpretation) -> Self:
        return cls(one.step, one.kind, one.value)

    @classmethod
    def read(cls, text: str) -> Self:
        step, _, rest = text.strip().partition(":")
        kind, _, value = rest.partition(":")
        if step not in REMOVABLE:
            raise ValueError(f"{step[:40]!r} cannot be taken away; {', '.join(REMOVABLE)} can")
        return cls(step, kind or None, value or None)

    def covers(self, one: QueryInterpretation) -> bool:
        return self.step == one.step and self.kind in {None, one.kind} and self.value in {None, one.value}


def window_value(first: date | None, last: date | None) -> str:
    """Return the days of a window, both included, as an interval of ISO 8601; `..`: that end is open.

    >>> window_value(None, date(2004, 12, 31))
    '../2004-12-31'
    """
    return "/".join(day.isoformat() if day else ".." for day in (first, last))


Kind = Literal["arm", "fuse", "rerank", "filter", "cut", "deliver", "budget"]
"""What a step does to candidates: finds, fuses, re-orders or filters them, cuts the list, changes what is
delivered, or keeps to a token budget."""
LONGEST = 400  # characters of a question or reason that a note keeps
LONGEST_RAW = 4_000  # … of a model's reply


class TraceStep(NamedTuple):
    """The candidates after one step; ``spans``: shape (n, 2); None: each chunk's own context."""

    step: str
    kind: Kind
    rows: Rows
    spans: npt.NDArray[np.int64] | None = None


class Note(NamedTuple):
    """One remark on one question; reason: one sentence; raw: a reply that could not be used, cut"""

    kind: str
    question: str
    status: str
    reason: str
    raw: str | None = None


@dataclass
class Trace:
    """What came of one question: all candidates of each step, notes, the rows allowed (None: all)."""

    steps: list[TraceStep] = field(default_factory=list)
    notes: dict[Note, None] = field(default_factory=dict)
    understood: dict[tuple[str, str, str], QueryInterpretation] = field(default_factory=dict)
    allowed: Mask | None = None

    def record(self, step: str, kind: Kind, ranking: Ranking) -> None:
        self.steps.append(TraceStep(step, kind, ranking.rows, ranking.spans))

    def include(
        self,
        steps: Iterable[TraceStep],
        notes: Iterable[Note],
        understood: Iterable[QueryInterpretation] = (),
    ) -> None:
        self.steps.extend(steps)
        self.notes.update(dict.fromkeys(notes))
        for one in understood:
            known = self.understood.get(one.fact)
            self.understood[one.fact] = known.or_firmer(one) if known else one


@dataclass(frozen=True)
class Entity:
    """Something that a question names; value: as the corpus says it, or an ISO 8601 date"""

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
        vector = None if self.vector is None else self.vector.tobytes()
        allowed = None if self.allowed is None else self.allowed.tobytes()
        key = (self.text, vector, self.asked_at, self.conversation, self.entities, allowed, self.where)
        return (*key, self.without) if self.without else key

    def permitted(self, rows: Rows) -> Mask:
        return np.ones(len(rows), np.bool_) if self.allowed is None else self.allowed[rows]

    def remark(self, kind: str, status: str, reason: str, raw: str | None = None) -> None:
        reply = raw[:LONGEST_RAW] if raw else None
        self.trace.include((), [Note(kind, self.text[:LONGEST], str(status), reason[:LONGEST], reply)])

    def understand(
        self, step: str, kind: str, text: str, value: str, status: Use = "used"
    ) -> QueryInterpretation:
        kind = kind.replace(":", " ")  # a removal is written with colons
        one = QueryInterpretation(step, kind, text[:LONGEST_UNDERSTOOD], value[:LONGEST_UNDERSTOOD], status)
        if any(removal.covers(one) for removal in self.without):
            one = one._replace(status="removed")
        self.trace.include((), (), [one])
        return one
