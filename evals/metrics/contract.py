"""The contract of a metric, and the cases that it is computed from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

from rag_assay.warehouse.inference.call_tags import Purpose
from rag_assay.warehouse.inference.chat_part import CallsEach, ChatComponent
from rag_assay.warehouse.inference.structured import MOST_ASKED
from rag_assay.warehouse.spans import Span
from rag_assay.warehouse.status import Status

if TYPE_CHECKING:
    from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
    from rag_assay.assets.embedding.embedder import EmbedderRecipe
    from rag_assay.warehouse.inference.budget import Budget
    from rag_assay.warehouse.inference.gateway import Gateway
    from rag_assay.warehouse.paths import Home


class MetricContext:
    """Opens what a metric needs once for all metrics and cells of a run; ``budget`` None: no limit."""

    def __init__(
        self, home: Home, budget: Budget | None = None, purpose: Purpose = Purpose("metrics")
    ) -> None:
        self.home = home
        self.purpose = purpose
        self._budget = budget
        self._embedders: dict[EmbedderRecipe, CachedEmbedder] = {}

    def embedder(self, recipe: EmbedderRecipe) -> CachedEmbedder:
        from rag_assay.assets.embedding.cached_embedder import CachedEmbedder

        if recipe not in self._embedders:
            self._embedders[recipe] = CachedEmbedder(recipe, self.home)
        return self._embedders[recipe]

    @cached_property
    def gateway(self) -> Gateway:
        from rag_assay.warehouse.inference.gateway import Gateway

        return Gateway(self.home, budget=self._budget)

    def close(self) -> None:
        if "gateway" in self.__dict__:
            self.gateway.close()


MOST = 10  # documents with one title; of more (`News ticker`), the title tells none apart, and groups nothing


class DocumentFacts(NamedTuple):
    """What a metric may know of a document; published_on: ISO day, of a partial date the first."""

    published_on: str | None
    group: str


class DocumentRow(NamedTuple):
    """A document: id, ISO day, title, text."""

    doc_id: str
    published_on: str | None
    title: str | None
    text: str


def document_facts(rows: Iterable[DocumentRow]) -> dict[str, DocumentFacts]:
    """Return the facts of documents, by id.

    Titles and texts are the same where their words are, whatever their case. A title that more than MOST
    documents have groups nothing; nor does an empty one. Groups are closed: of three documents, the second
    of which has the title of the first and the text of the third, all are one, named by their smallest id.

    >>> one, other = DocumentRow("a", "2019-05-01", "Derby", "x"), DocumentRow("b", None, "DERBY ", "y")
    >>> document_facts([one, other])["b"]
    DocumentFacts(published_on=None, group='a')
    """
    found: list[tuple[str, str | None]] = []
    alike: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        found.append((row.doc_id, row.published_on))
        for kind, text in (("title", row.title), ("text", row.text)):
            words = " ".join((text or "").casefold().split())
            if words:
                alike.setdefault((kind, words), []).append(row.doc_id)
    group = {doc: doc for doc, _ in found}
    for (kind, _), docs in alike.items():
        if kind == "text" or len(docs) <= MOST:
            for doc in docs[1:]:
                least, most = sorted((_first(group, docs[0]), _first(group, doc)))
                group[most] = least
    return {doc: DocumentFacts(day, _first(group, doc)) for doc, day in found}


def _first(group: Mapping[str, str], doc: str) -> str:
    while group[doc] != doc:
        doc = group[doc]
    return doc


def score_rows(
    metric: Metric, cases: Sequence[Case], context: MetricContext
) -> tuple[list[dict[str, Any]], str | None]:
    """Return rows of schemas.SCORES for the questions that a metric applies to, and why it broke."""
    applicable = [case.only(metric.reads) for case in cases if metric.applies(case.question)]
    broke = None
    try:
        scores = metric.measure(applicable, context)
    except Exception as error:
        broke = f"{metric.name}: {type(error).__name__}: {error}"
        scores = [Score(Status.ERROR, reason=broke)] * len(applicable)
    rows = [
        {"question_id": case.question["question_id"], "metric": metric.name, **score._asdict()}
        for case, score in zip(applicable, scores, strict=True)
    ]
    return rows, broke


Kind = Literal["retrieval", "answer", "cost"]
Reading = Literal[
    "ranking",
    "documents",
    "retrieval_cost",
    "answer",
    "citations",
    "answer_cost",
    "judgements",
    "annotations",
]
"""What a metric may read of a case beside the question and its gold: each changes for reasons of its own."""
OF_RANKING: frozenset[Reading] = frozenset({"ranking", "documents", "retrieval_cost"})
"""What is the same in all cells of one ranking."""
Sees = Literal["documents", "passages", "answers", "costs"]


@dataclass(frozen=True)
class Gold:
    """What a question should find.

    documents: document id -> grade (>= 1). Evidence that is not in the corpus counts as a document that no
        ranking can hold, so that the denominator is the same for every cell.
    spans: the evidence in the documents' text; empty when the gold is whole documents (BEIR)
    missing: characters of evidence that is nowhere in the corpus
    """

    documents: dict[str, int]
    spans: tuple[Span, ...] = ()
    missing: int = 0
    needs_all: bool = True


class Ranked(NamedTuple):
    """How the ranking of a question ended, and in how many seconds."""

    status: Status = Status.OK
    reason: str | None = None
    seconds: float | None = None


class CitedSpan(NamedTuple):
    """A citation; sentence: from 0, None: a list of sources; span: None: it points nowhere."""

    marker: int
    sentence: int | None
    span: Span | None = None


class Citations(NamedTuple):
    """How many sentences an answer has, and what it cites."""

    sentences: int
    cited: tuple[CitedSpan, ...] = ()


class EvaluatedAnswer(NamedTuple):
    """How an answer ended, its text, citations (None: not kept), wall seconds and tokens."""

    status: Status = Status.OK
    reason: str | None = None
    text: str | None = None
    seconds: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    citations: Citations | None = None


class Score(NamedTuple):
    """One outcome: a value, or a status and a reason why there is none."""

    status: Status
    value: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Case:
    """One question as one cell dealt with it: the input of every metric.

    answer: None without a generator
    documents: facts by id
    judged: `JUDGE.METRIC` -> what each replicate said
    annotated: `people.RUBRIC` -> the summary of human ratings
    """

    question: dict[str, Any]
    gold: Gold
    hits: tuple[Span, ...]
    ranked: Ranked
    answer: EvaluatedAnswer | None = None
    documents: Mapping[str, DocumentFacts] = field(default_factory=dict)
    judged: Mapping[str, tuple[Score, ...]] = field(default_factory=dict)
    annotated: Mapping[str, Score] = field(default_factory=dict)

    def only(self, reads: Collection[Reading]) -> Case:
        ranked, answer = self.ranked, self.answer
        if not {"ranking", "retrieval_cost"} & {*reads}:
            ranked = Ranked(Status.NOT_RUN, "the metric does not read rankings")
        elif "retrieval_cost" not in reads:
            ranked = ranked._replace(seconds=None)
        if not {"answer", "citations", "answer_cost"} & {*reads}:
            answer = None
        if answer and "answer_cost" not in reads:
            answer = answer._replace(seconds=None, prompt_tokens=None, completion_tokens=None)
        if answer and "answer" not in reads:
            answer = answer._replace(text=None)
        if answer and "citations" not in reads:
            answer = answer._replace(citations=None)
        return replace(
            self,
            hits=self.hits if "ranking" in reads else (),
            ranked=ranked,
            answer=answer,
            documents=self.documents if "documents" in reads else {},
            judged=self.judged if "judgements" in reads else {},
            annotated=self.annotated if "annotations" in reads else {},
        )


class Metric(ChatComponent, ABC):
    """A number for each question, and its mean for each cell.

    stem: as written in a study, but for the depth that some have
    name: the stem, with the depth where there is one (`ndcg@10`); title: as shown
    package: the other package that it is of, with its version; None: it is our own
    reads: what it looks at beside the question and its gold; it is given nothing else, and its scores are
        computed again when one of these changes, or its `versions`, and never otherwise
    sees: the finest thing that it looks at: what differs in nothing coarser has equal values
    bounds: smallest and largest possible value, None where there is none
    explanation: as reports show it; default: the first paragraph of the docstring
    """

    stem: ClassVar[str]
    name: str
    title: str
    package: ClassVar[str | None] = None
    kind: Kind
    reads: frozenset[Reading]
    sees: Sees
    higher_is_better: bool = True
    bounds: tuple[float | None, float | None] = (0.0, 1.0)
    unit: ClassVar[str] = ""
    explanation: str
    code_version: ClassVar[str] = "1"

    def __init_subclass__(cls) -> None:
        """Take the stem for the name, where an instance has no depth to add."""
        if "stem" in cls.__dict__:
            cls.name = cls.stem
        if "explanation" not in cls.__dict__ and cls.__doc__:
            cls.explanation = " ".join(cls.__doc__.partition("\n\n")[0].split())

    def __new__(cls, *_args: object, **_named: object) -> Self:
        """Refuse a class that cannot measure where a study is read, not after its answers were paid for."""
        if cls.measure is Metric.measure and cls.score is Metric.score:
            raise TypeError(f"the metric {cls.__name__} has neither `measure` nor `score`")
        return super().__new__(cls)

    def calls_per_case(self) -> CallsEach:
        return self._calls_each(MOST_ASKED)

    def versions(self) -> list[str]:
        return [self.code_version]

    def all_versions(self) -> list[str]:
        return [*self.versions(), *([self.package] if self.package else [])]

    @abstractmethod
    def applies(self, question: dict[str, Any]) -> bool:
        """Return whether the metric applies to this question; that never depends on a cell."""

    def measure(self, cases: Sequence[Case], context: MetricContext) -> list[Score]:
        """Measure the cases, in their order; the score of a case depends on that case alone."""
        return [self.score(case) for case in cases]

    def score(self, case: Case) -> Score:
        raise NotImplementedError


class RetrievalMetric(Metric):
    """A metric of the ranking alone, at a depth k: what stands after the k-th document changes nothing."""

    kind = "retrieval"
    reads = frozenset({"ranking"})
    sees: Sees = "documents"
    label: ClassVar[str]

    def __init__(self, k: int) -> None:
        self.k = k
        self.name = f"{self.stem}@{k}"
        self.title = f"{self.label} @ {k}"

    def applies(self, question: dict[str, Any]) -> bool:
        return bool(question["gold"] != "none")

    def score(self, case: Case) -> Score:
        if case.ranked.status is not Status.OK:
            return Score(case.ranked.status, reason=case.ranked.reason or "the ranking failed")
        return Score(Status.OK, self.value(*self.seen(case)))

    def seen(self, case: Case) -> tuple[Gold, Sequence[Span]]:
        return case.gold, case.hits

    @abstractmethod
    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        """Return the value for one ranking, best hit first."""


class AnswerMetric(Metric):
    """A metric of the answer's text against the ground truth."""

    kind = "answer"
    reads = frozenset({"answer"})
    sees: Sees = "answers"

    def applies(self, question: dict[str, Any]) -> bool:
        return bool(question["ground_truth"])

    def measure(self, cases: Sequence[Case], context: MetricContext) -> list[Score]:
        texts = [_text(case.answer) for case in cases]
        usable = [
            AnsweredCase(case.question, text, case.answer.status)
            for case, text in zip(cases, texts, strict=True)
            if case.answer and text
        ]
        scores = iter(self.scores(usable, context) if usable else [])
        found = [next(scores) if text else no_answer(case) for case, text in zip(cases, texts, strict=True)]
        if next(scores, None) is not None:
            raise ValueError(f"{self.name} gave more scores than there are cases")
        return found

    @abstractmethod
    def scores(self, cases: Sequence[AnsweredCase], context: MetricContext) -> list[Score]:
        """Measure answers that all have a text, in their order."""


class AnsweredCase(NamedTuple):
    """A question (a row of schemas.QUESTIONS) with the text of its answer, which may be a refusal."""

    question: dict[str, Any]
    text: str
    status: Status

    @property
    def pair(self) -> tuple[str, str]:
        return str(self.question["ground_truth"]), self.text


def _text(answer: EvaluatedAnswer | None) -> str | None:
    # A refusal is an answer: it is right where the documents do not say, and is measured like any other.
    if answer is None or answer.status not in {Status.OK, Status.REFUSED}:
        return None
    return answer.text or None


def no_answer(case: Case) -> Score:
    if case.answer is None:
        return Score(Status.NOT_RUN, reason="the cell has no answer to this question yet")
    status = case.answer.status
    if status is Status.OK:
        return Score(Status.PARSE_FAILED, reason="the answer is empty")
    return Score(status, reason=case.answer.reason or str(status))


def documents_in_order(hits: Sequence[Span]) -> list[str]:
    return list(dict.fromkeys(hit.doc_id for hit in hits))
