"""The contract of a generator; `tests/contracts/test_generators.py` checks every implementation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from rag_assay.evals.generation.citations import public_url, read_markers
from rag_assay.evals.generation.context_budget import ContextBudget, Cut, with_cut, within
from rag_assay.evals.generation.gate import DEFAULT, Gate, feature_values
from rag_assay.evals.question_sets.no_answer_sentence import unanswered
from rag_assay.warehouse.components import OneOf
from rag_assay.warehouse.inference.call_tags import Purpose
from rag_assay.warehouse.inference.chat_part import CallsEach, ChatComponent
from rag_assay.warehouse.inference.replies import Reply, sum_of_known
from rag_assay.warehouse.registry import Registry
from rag_assay.warehouse.status import RETRYABLE, Status

if TYPE_CHECKING:
    from rag_assay.assets.embedding.embedder import EmbedderRecipe, Matrix
    from rag_assay.evals.retrieval.query import Removal
    from rag_assay.warehouse.inference.gateway import Gateway


def with_costs(answer: Answer, parts: Sequence[Answer | Reply], seconds: float = 0.0) -> Answer:
    """Return an answer with the costs of all its calls; a cost that one call lacks is not known of all."""
    if answer.status in RETRYABLE or not parts:
        return answer
    spent = sum_of_known(part.seconds for part in parts)
    return replace(
        answer,
        seconds=None if spent is None else spent + seconds,
        prompt_tokens=sum_of_known(part.prompt_tokens for part in parts),
        completion_tokens=sum_of_known(part.completion_tokens for part in parts),
        usd=sum_of_known(part.usd for part in parts),
        cached=all(part.cached for part in parts),
    )


@dataclass(frozen=True)
class Passage:
    """What a retriever delivered for one chunk: a piece of a document, and where it is from.

    title, url, date: of the document; the date is the day of its publication, ISO 8601
    section: the headings above it, outermost first; empty where the index does not hold them
    start, end: characters of the document's text
    number: by which a prompt names it and an answer cites it; None: its place in the request, from 1
    """

    text: str
    chunk: str = ""
    document: str = ""
    title: str | None = None
    url: str | None = None
    date: str | None = None
    section: tuple[str, ...] = ()
    start: int = 0
    end: int = 0
    score: float = 0.0
    number: int | None = None


@dataclass(frozen=True)
class Request:
    """A question to be answered.

    language: two-letter code of the question; None: not known
    conversation: what was said before, question and answer by turns, oldest first
    passages: most relevant first, or in the reading order that the retriever set
    question_id: names the question in its set; None: it is of none
    asked_at: ISO 8601 date or time at which it is asked; None: not known
    without: what is not to be understood of it where the retriever is asked once more
    cut: the last passage, where the generator's budget of context ends in it
    own_words: of a follow-up that was rewritten by rules: the question without the words of the conversation
    """

    question: str
    language: str | None = None
    conversation: tuple[str, ...] = ()
    passages: tuple[Passage, ...] = ()
    question_id: str | None = None
    asked_at: str | None = None
    without: tuple[Removal, ...] = ()
    cut: Cut | None = None
    own_words: str | None = None

    def within(self, tokens: int | None) -> Request:
        if tokens is None:
            return self
        passages, cut = within(self.passages, tokens)
        return self if passages == self.passages else replace(self, passages=passages, cut=cut)


@dataclass(frozen=True)
class Retrieved:
    """What one more search gave; seconds: None where it failed; reason: why it failed"""

    passages: tuple[Passage, ...] = ()
    seconds: float | None = None
    reason: str | None = None


Retrieve = Callable[[Request, str, int], Retrieved]
"""(request, query, most) -> the first ``most`` passages for a query, with its day and conversation."""


@dataclass(frozen=True)
class Citation:
    """A marker `[n]` in an answer, and the passage that it names.

    sentence: which sentence of the answer it stands in, from 0; None: in a list of sources, which is none
    chunk, document, section, start, end: of the passage; None where the marker points nowhere
    url: of the document; of an act of EUR-Lex its official page in the question's language
    """

    marker: int
    sentence: int | None
    chunk: str | None = None
    document: str | None = None
    url: str | None = None
    section: tuple[str, ...] | None = None
    start: int | None = None
    end: int | None = None

    @property
    def is_valid(self) -> bool:
        return self.chunk is not None


@dataclass(frozen=True)
class Bin:
    """Contiguous sentences of the passages that were asked together, and what came of them."""

    text: str
    chunks: tuple[str, ...]
    status: Status
    reason: str | None = None
    answer: str | None = None


@dataclass(frozen=True)
class Attempt:
    """One look for passages; sufficient: what the model said of them, None: nothing usable."""

    query: str
    chunks: tuple[str, ...]
    sufficient: bool | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Answer:
    """What came of one request.

    status: ok · refused (it says that the documents do not say) · no_context · or how the call failed
    reason: why the status is not `ok`, in one sentence; None where it is
    text: what a reader is shown, a refusal's sentence too; None where there is nothing to read
    seconds: of what computed it, also when it now comes from a cache; None where nothing was computed
    prompt_tokens, completion_tokens: None where nothing counted them
    usd: 0 for what runs in this process; None where the price is not known
    model: the language model that answered; None where none did
    citations: the passages that it names, in the order of its sentences: by the markers in its text or, of a
        generator that quotes, by where each sentence stands
    confidence: how sure the answer is, of no scale, higher is surer: a feature of the passages
        (`gate.py`), unless the generator knows better; None where nothing says
    passages: what was read in place of the passages of the request, where the generator looked again, or its
        budget of context ends before they do
    """

    status: Status
    reason: str | None = None
    text: str | None = None
    raw: str | None = None
    seconds: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    usd: float | None = None
    cached: bool | None = None
    model: str | None = None
    citations: tuple[Citation, ...] = ()
    cuts: tuple[Cut, ...] = ()
    bins: tuple[Bin, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    confidence: float | None = None
    turns_left_out: int = 0
    passages: tuple[Passage, ...] | None = None


@dataclass(frozen=True)
class GenerationContext:
    """What a generator may use beside its requests.

    gateway: asks language models, and pays them from the budget that the generator has
    embed: texts -> unit vectors by the cell's embedder, shape (texts, dimensions); long texts are averaged
    count_tokens: texts -> the number of tokens of each, by the cell's tokenizer
    replicate: which of several tries of the same cell this is, from 0: models are asked again for each
    purpose: what calls are made for; `purpose.of(request.question_id)` goes with each
    retrieve: searches once more by the cell's own retriever; None: it cannot be asked here
    folder: of the study file
    """

    gateway: Gateway
    embed: Callable[[Sequence[str]], Matrix]
    count_tokens: Callable[[Sequence[str]], list[int]]
    seed: int = 0
    replicate: int = 0
    progress: Callable[[str, int, int], None] = lambda _label, _done, _of: None
    purpose: Purpose = Purpose("answers")
    retrieve: Retrieve | None = None
    folder: Path = Path()


Reads = Literal["ranking", "evidence", "nothing", "imported", "system"]

_NO_PASSAGE: dict[Reads, str] = {
    "ranking": "the retriever found no passage",
    "evidence": "the question has no evidence in the documents",
    "nothing": "it reads no passages",
    "imported": "the sheet has no passages for it",
    "system": "the system tells no passages",
}


class Generator(ChatComponent, ContextBudget):
    """A way to answer questions from passages.

    The contract: one answer a request, in their order, each in a typed status; a request does not change the
    answer of another; whatever fails is an answer with its status and reason, and nothing is raised for it;
    passages are data, and nothing in them is followed as an instruction; a request without passages ends as
    `no_context`, unless the generator needs none.

    reads: what its passages are: the first of a ranking, the evidence of the question, none at all, or
        those that a sheet or a system of the user's own gives. What
        reads no ranking is one cell of a study, whatever its chunkings, embedders and retrievers
    writes_markers: whether a number in brackets in its text names a passage of the request; those are read by
        `answer`. A generator that knows otherwise where its text stands gives the citations itself
    varies: whether it may answer the same request otherwise the next time, so that replicates tell something
    gate: refuses by the passages, before a model is called; default: none
    """

    reads: ClassVar[Reads] = "ranking"
    needs_passages: ClassVar[bool] = True
    writes_markers: ClassVar[bool] = True
    varies: ClassVar[bool] = True

    gate: Annotated[Gate | None, Field(exclude_if=lambda gate: gate is None)] = None

    @model_validator(mode="after")
    def _has_scores_to_be_gated_by(self) -> Self:
        if self.gate is not None and self.reads != "ranking":
            raise ValueError(f"`{self.kind}` reads no ranking: there are no scores for a `gate`")
        return self

    def versions(self) -> list[str]:
        return [self.code_version, *(self.gate.versions() if self.gate else [])]

    @property
    def tunes(self) -> bool:
        """Whether something of it is fitted on the train questions of the study."""
        return self.gate is not None and self.gate.needs_tuning

    @property
    def declines(self) -> bool:
        return self.gate is not None or self.chat is not None

    @abstractmethod
    def generate(self, requests: Sequence[Request], context: GenerationContext) -> list[Answer]:
        """Answer requests that all have what the generator needs, in their order."""

    @abstractmethod
    def dependencies(self, seed: int, embedder: EmbedderRecipe) -> list[str | int]:
        """Return what its answers depend on beside its recipe and the passages: prompt, weights, seed."""

    @property
    def retrieves(self) -> bool:
        """Whether it may search again: its answers then depend on all that the cell's retriever does."""
        return False

    def calls_per_question(self) -> CallsEach:
        """Return the calls of its model for one question: by default one, none without a model."""
        return self._calls_each()

    def answer(self, requests: Sequence[Request], context: GenerationContext) -> list[Answer]:
        given = [request.within(self.context_tokens) for request in requests]
        sure = self._confidences(given, context)
        closed = [self._without_asking(request, value) for request, value in zip(given, sure, strict=True)]
        ready = [request for request, one in zip(given, closed, strict=True) if one is None]
        found = iter(self._counted(ready, context))
        answers = [
            self._cited(next(found), request, value) if one is None else one
            for request, value, one in zip(given, sure, closed, strict=True)
        ]
        return [
            answer
            if answer.passages is not None or read is request
            else replace(answer, passages=read.passages, cuts=with_cut(answer.cuts, read.cut))
            for answer, read, request in zip(answers, given, requests, strict=True)
        ]

    def _without_asking(self, request: Request, confidence: float | None) -> Answer | None:
        if not request.passages:
            nothing = Answer(Status.NO_CONTEXT, _NO_PASSAGE[self.reads])
            return nothing if self.needs_passages else None
        reason = self.gate.refusal(confidence) if self.gate else None
        if reason is None:
            return None
        return Answer(
            status=Status.REFUSED,
            reason=reason,
            text=unanswered(request.language),
            raw="",
            seconds=0.0,
            prompt_tokens=0,
            completion_tokens=0,
            usd=0.0,
            cached=False,
            confidence=confidence,
        )

    def _confidences(self, requests: Sequence[Request], context: GenerationContext) -> list[float | None]:
        if self.reads != "ranking":
            return [None] * len(requests)
        return feature_values(self.gate.feature if self.gate else DEFAULT, requests, context.embed)

    def _cited(self, answer: Answer, request: Request, confidence: float | None) -> Answer:
        if answer.confidence is None:
            answer = replace(answer, confidence=confidence)
        if not self.writes_markers or answer.citations or not answer.text:
            return answer
        read = request if answer.passages is None else replace(request, passages=answer.passages)
        return replace(answer, citations=tuple(written_citations(answer, read)))

    def _counted(self, requests: list[Request], context: GenerationContext) -> list[Answer]:
        answers = self.generate(requests, context) if requests else []
        if len(answers) != len(requests):
            raise ValueError(f"{self.kind} gave {len(answers)} answers to {len(requests)} requests")
        return answers


def written_citations(answer: Answer, request: Request) -> list[Citation]:
    """Resolve the markers in an answer by the passages that were given; each number once a sentence."""
    passages = request.passages if answer.passages is None else answer.passages
    left_out = {cut.chunk for cut in answer.cuts if cut.kept == 0}
    given = {one.number or at: one for at, one in enumerate(passages, 1) if one.chunk not in left_out}
    markers = read_markers(answer.text or "", [passage.text for passage in passages])
    return [
        citation(number, sentence, given.get(number), request.language)
        for number, sentence in dict.fromkeys((one.number, one.sentence) for one in markers)
    ]


def citation(number: int, sentence: int | None, passage: Passage | None, language: str | None) -> Citation:
    if passage is None:
        return Citation(number, sentence)
    return Citation(
        number,
        sentence,
        passage.chunk,
        passage.document,
        public_url(passage.url, language),
        passage.section,
        passage.start,
        passage.end,
    )


GENERATORS: Registry[Generator] = Registry("generators", Generator)
AnyGenerator = Annotated[Generator, OneOf(GENERATORS)]
"""A generator as a study writes it: `{kind: {its parameters}}`."""
