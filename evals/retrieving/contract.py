"""What every retriever keeps to; `tests/contracts/test_retrievers.py` holds each one to it.

A retriever returns its ranking by falling scores. A chain may end with steps that put passages into the order
in which they are read (by document, best at both ends): from then on the order of the rows is the ranking,
and the scores stay those by which the passages were found. Whatever reads a ranking goes by its order.
"""

from __future__ import annotations

import unicodedata
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evals.measuring.contract import Gold, RetrievalMetric
from evals.retrieving.clock import Clock, Spent
from evals.retrieving.index import OpenIndex
from warehouse.inference.budget import Budget
from warehouse.parts import Part

Depth = Annotated[int, Field(ge=1, le=10_000)]
Vector = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]
Tunable = TypeVar("Tunable")
Kind = Literal["arm", "fuse", "rerank", "filter", "cut", "deliver", "budget"]
"""What a step does to candidates: finds, fuses, re-orders or filters them, cuts the list, changes what is
delivered, or keeps to a token budget."""


@dataclass(frozen=True)
class Ranking:
    """Rows of an index, best first, each once.

    rows: positions in the index, shape (n,)
    scores: finite, shape (n,); falling, equal ones ordered by chunk id, until a step sets a reading order
    spans: characters (start, end) of each row's document that are delivered, shape (n, 2); None: each
        chunk's own context
    """

    rows: Rows
    scores: Scores
    spans: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, positions: npt.NDArray[np.int64] | npt.NDArray[np.bool_] | slice) -> Ranking:
        """Return the ranking of these positions in it, in their order.

        >>> Ranking(np.array([4, 2, 7]), np.array([3.0, 2.0, 1.0])).take(np.array([2, 0])).rows.tolist()
        [7, 4]
        """
        spans = None if self.spans is None else self.spans[positions]
        return Ranking(self.rows[positions], self.scores[positions], spans)

    @staticmethod
    def best(rows: Rows, scores: Scores, k: int) -> Ranking:
        """Sort by falling score, ties by position (an index is sorted by chunk id), and keep the first k.

        >>> Ranking.best(np.array([4, 2, 7]), np.array([1.0, 1.0, 3.0]), 2).rows.tolist()
        [7, 2]
        """
        if len(rows) > 4 * k:  # sort only what can be among the first k, all ties of the last one included
            bound = np.partition(scores, len(scores) - k)[len(scores) - k]
            keep = scores >= bound
            rows, scores = rows[keep], scores[keep]
        order = np.lexsort((rows, -scores))[:k]
        return Ranking(rows[order].astype(np.int64), scores[order].astype(np.float64))


class TraceStep(NamedTuple):
    """The candidates after one step.

    step: the kind of the retriever or step that they are of
    spans: what is delivered of each row, shape (n, 2); None: each chunk's own context
    """

    step: str
    kind: Kind
    rows: Rows
    spans: npt.NDArray[np.int64] | None = None


@dataclass
class Trace:
    """What each step of a retriever made of one question, in the order of the steps.

    All candidates of a step are kept, so that where evidence was lost does not hang on how many of them are
    stored afterwards.

    allowed: which rows the filters of the question let through, shape (chunks,); None: all
    """

    steps: list[TraceStep] = field(default_factory=list)
    allowed: npt.NDArray[np.bool_] | None = None

    def note(self, step: str, kind: Kind, ranking: Ranking) -> None:
        """Keep the rows of a step's ranking."""
        self.steps.append(TraceStep(step, kind, ranking.rows, ranking.spans))


class Remembered(NamedTuple):
    """A ranking of one question, what it took, its steps' candidates and notes, and what was allowed."""

    ranking: Ranking
    spent: Spent
    steps: tuple[TraceStep, ...]
    notes: tuple[Any, ...]
    allowed: npt.NDArray[np.bool_] | None


@dataclass
class Memory:
    """Rankings of one index and run, so that an arm that several combinations share ranks a question once.

    limit: rows that are held at most, those of the steps inside among them; all are dropped when it is
        reached (16 bytes a row)
    """

    limit: int = 4_000_000
    held: dict[object, Remembered] = field(default_factory=dict)
    rows: int = 0

    def keep(self, key: object, found: Remembered) -> None:
        """Hold a ranking."""
        rows = len(found.ranking) + sum(len(note.rows) for note in found.steps)
        if self.rows + rows > self.limit:
            self.held.clear()
            self.rows = 0
        self.held[key] = found
        self.rows += rows


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
class RetrievalContext:
    """What a retriever may use beside the index.

    embed: texts -> unit vectors of the index's embedder (its query side), shape (texts, dimensions)
    made: things made once for all questions (a loaded cross-encoder, a gateway)
    home: where models and caches lie
    budget: what calls of models are paid from; None: no limit
    memory: rankings of arms that combinations share; None: every arm ranks anew
    clock: what was taken from caches says here what it had taken
    count: texts -> their tokens by the chunking's tokenizer, special tokens not counted
    notes: what steps of understanding had to say (`understanding.notes.Note`), each once, oldest first
    """

    embed: Callable[[Sequence[str]], npt.NDArray[np.float32]] | None = None
    made: dict[object, Any] = field(default_factory=dict)
    home: Any = None
    memory: Memory | None = None
    clock: Clock = field(default_factory=Clock)
    budget: Budget | None = None
    count: Callable[[Sequence[str]], list[int]] | None = None
    notes: dict[Any, None] = field(default_factory=dict)

    def once(self, key: object, make: Callable[[], Any]) -> Any:
        """Return what ``make`` makes, made once for each key."""
        if key not in self.made:
            self.made[key] = make()
        return self.made[key]


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
    trace: where steps note their candidates; None: nobody asks

    >>> Query("Fa\u0308hre").text
    'Fähre'
    """

    text: str
    vector: Vector | None = None
    asked_at: str | None = None
    conversation: tuple[str, ...] = ()
    entities: tuple[Entity, ...] = ()
    allowed: npt.NDArray[np.bool_] | None = None
    where: str | None = None
    context: RetrievalContext = field(default_factory=RetrievalContext)
    trace: Trace | None = None

    def __post_init__(self) -> None:
        if not unicodedata.is_normalized("NFC", self.text):
            object.__setattr__(self, "text", unicodedata.normalize("NFC", self.text))

    def key(self) -> tuple[object, ...]:
        """Return what can change its ranking, to look it up by."""
        vector = None if self.vector is None else self.vector.tobytes()
        allowed = None if self.allowed is None else self.allowed.tobytes()
        return self.text, vector, self.asked_at, self.conversation, self.entities, allowed, self.where

    def permitted(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Say which of ``rows`` may be found."""
        return np.ones(len(rows), np.bool_) if self.allowed is None else self.allowed[rows]


Finish = Callable[[Ranking], Ranking]
"""What is done with a ranking of a train question before it is delivered."""


class TrainCase(NamedTuple):
    """A train question on its way through a retriever, and what it should find.

    finish: the steps that follow the retriever, where they are tried with it
    """

    query: Query
    gold: Gold
    finish: tuple[Finish, ...] = ()


class Chosen(NamedTuple):
    """Weights as they were chosen for one fusion: what is told of it.

    arms: the kind of each arm
    """

    arms: tuple[str, ...]
    weights: tuple[float, ...]
    metric: str
    value: float
    questions: int


class Tuning(NamedTuple, Generic[Tunable]):
    """A retriever, or its recipe, with what was to be tuned chosen; and what that was, inner parts first."""

    tuned: Tunable
    chosen: tuple[Chosen, ...] = ()


class Retriever(Part):
    """A way to rank the chunks of an index for a question.

    The contract: scores fall and are finite, ties go by chunk id, no chunk comes twice, never more than `k`,
    nothing that the query does not allow, an empty index and an empty question give an empty ranking, the
    same input gives the same ranking.

    k: the most passages that it returns
    """

    if TYPE_CHECKING:  # a field, or of a chain a property

        @property
        def k(self) -> int:
            """The most passages that it returns."""

    @property
    def needs_vector(self) -> bool:
        """Whether the question must be embedded for it."""
        return False

    @property
    def needs_tuning(self) -> bool:
        """Whether something of it is chosen on the train questions of the study."""
        return False

    @property
    def widens(self) -> bool:
        """Whether it delivers more of a passage than its chunk's context, which a new ranking would undo."""
        return False

    @abstractmethod
    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        """Rank the chunks of ``index`` for ``query``, best first."""

    def tuned(self, cases: Sequence[TrainCase], index: OpenIndex, metric: RetrievalMetric) -> Tuning[Self]:
        """Return the same retriever with what is to be tuned chosen on train questions, by a metric."""
        return Tuning(self)

    def at_depth(self, k: int) -> Self:
        """Return the same retriever with another `k`."""
        return self.model_copy(update={"k": k})

    def ranked(self, query: Query, index: OpenIndex) -> Ranking:
        """Rank as a part of another retriever: from memory where it can be, noted in the query's trace."""
        before = len(query.trace.steps) if query.trace else 0
        ranking = self.found(query, index)
        if query.trace and len(query.trace.steps) == before:  # else its own parts have said what they found
            query.trace.note(self.kind, "arm", ranking)
        return ranking

    def found(self, query: Query, index: OpenIndex) -> Ranking:
        """Rank as one arm of several: from the context's memory, where it has ranked this question before."""
        memory, trace = query.context.memory, query.trace
        if memory is None:
            return self.rank(query, index)
        key = (type(self).__name__, self.model_dump_json(), query.key())
        known = memory.held.get(key)
        if known is None:
            # Also where nobody asks now: the next one who takes it from memory may.
            inner, context = Trace(), replace(query.context, notes={})
            begin = context.clock.now()
            ranking = self.rank(replace(query, trace=inner, context=context), index)
            spent = context.clock.since(begin)
            known = Remembered(ranking, spent, tuple(inner.steps), tuple(context.notes), inner.allowed)
            memory.keep(key, known)
        else:
            query.context.clock.add(known.spent)
        query.context.notes.update(dict.fromkeys(known.notes))
        if trace:
            trace.steps.extend(known.steps)
            trace.allowed = known.allowed
        return known.ranking


class Step(Part):
    """What a chain does with a ranking after its retriever: re-orders, cuts or widens it.

    role: what a trace calls it
    widens: it delivers more of a passage than its chunk's context
    narrows: it delivers each chunk's own context, whatever was delivered before
    costly: a model reads the passages: weights of a fusion are chosen by what stands before it
    """

    role: ClassVar[Kind]
    costly: ClassVar[bool] = False
    widens: ClassVar[bool] = False
    narrows: ClassVar[bool] = False

    @property
    def needs_vector(self) -> bool:
        """Whether the question must be embedded for it."""
        return False

    @abstractmethod
    def apply(self, ranking: Ranking, query: Query, index: OpenIndex) -> Ranking:
        """Return the ranking as it is after the step."""


class QueryTransform(Part):
    """What a chain does with a question before its retriever: filters, rewrites, expands it.

    Whoever changes the text leaves `vector` as it is or None: it is embedded again where one is needed. A
    vector that is no longer that of the question before is taken as meant.
    """

    @property
    def needs_vector(self) -> bool:
        """Whether the question must be embedded for it."""
        return False

    @abstractmethod
    def read(self, query: Query, index: OpenIndex) -> list[Query]:
        """Return the query as it is searched; several are searched each, and fused by reciprocal rank."""


def nothing() -> Ranking:
    """Return the empty ranking."""
    return Ranking(np.zeros(0, np.int64), np.zeros(0, np.float64))
