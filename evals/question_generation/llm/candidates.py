"""What a question is made from and becomes: pieces of documents, tasks, drafts, and why one is dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args

import numpy as np
import polars as pl
from pydantic import BeforeValidator, Field, StringConstraints

from rag_assay.assets.chunking.contract import Tools
from rag_assay.assets.chunking.document_chunks import chunk_batches
from rag_assay.assets.chunking.structure import Structure
from rag_assay.assets.cleaning.corpus import corpus_documents, corpus_duplicates
from rag_assay.assets.embedding.embedder import Matrix
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.assets.indexing.lexical import lexical_of
from rag_assay.assets.tokenization.tokenizer import tokenizer_of
from rag_assay.evals.generation.answer_prompt import LANGUAGE_NAMES
from rag_assay.evals.generation.templates import Template
from rag_assay.evals.retrieval.question_words import content
from rag_assay.evals.retrieval.terms import Bm25Scores, Parameters
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.encodable import encodable
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.quoting import Frames
from rag_assay.warehouse.recipe import Strict

CANDIDATES, PARTNERS = 30, 12
"""Pieces with the most words in common whose meaning is looked at, for a question and for a piece."""
COPY = 0.95  # cosine from which on two pieces say the same: they are no two hops
_BM25 = Parameters("lower_bounded", k1=1.2, b=0.75, epsilon=0.25, delta=1.0)

Embed = Callable[[Sequence[str]], Matrix]


class Nearness:
    """The pieces of a corpus, by shared words and then by meaning."""

    def __init__(self, pieces: Sequence[DocumentPiece], embed: Embed) -> None:
        self._pieces = pieces
        self._embed = embed
        self._scores = Bm25Scores.of(lexical_of(piece.text for piece in pieces), _BM25)

    def best(self, question: str, k: int) -> list[DocumentPiece]:
        """Return k pieces for a question: by turns the next one by words (BM25), and by meaning."""
        rows = self._by_words(question)
        if not rows:
            return []
        cosines = self._cosines(question, rows)
        by_meaning = [rows[at] for at in np.argsort(-cosines, kind="stable").tolist()]
        turns = [row for pair in zip(rows, by_meaning, strict=True) for row in pair]
        return [self._pieces[row] for row in list(dict.fromkeys(turns))[:k]]

    def partner(self, piece: DocumentPiece) -> DocumentPiece | None:
        """Return the nearest piece of another document that shares rare words; None: there is none."""
        rows = [
            row
            for row in self._by_words(piece.text)
            if self._pieces[row].document.doc_id != piece.document.doc_id
        ][:PARTNERS]
        if not rows:
            return None
        cosines = self._cosines(piece.text, rows)
        cosines[cosines >= COPY] = -1.0
        at = int(np.argmax(cosines))
        return self._pieces[rows[at]] if cosines[at] > -1.0 else None

    def _by_words(self, text: str) -> list[int]:
        counts = Counter(word.text.casefold() for word in content(text))
        return self._scores.best(counts, CANDIDATES).rows.tolist()

    def _cosines(self, text: str, rows: Sequence[int]) -> Matrix:
        vectors = self._embed([text, *(self._pieces[row].text for row in rows)])
        return np.asarray(vectors[1:] @ vectors[0], np.float32)


CUT = Structure(limit=256, merge_below=96)
"""How documents are cut: by sections, so that reference passages favour none of the study's chunkings."""
TOKENIZER = "all-MiniLM-L6-v2"


def corpus_frame(study: Study, work: BuildContext) -> pl.DataFrame:
    artifacts = []
    for source in study.corpus.sources:
        found = work.store.current("documents", source)
        if found is None:
            raise InputError(
                f"the documents of {source} are not there yet; `assay run {study.path}` brings them"
            )
        artifacts.append(found)
    documents = corpus_documents(artifacts, work)
    threshold = study.corpus.near_duplicates
    if threshold is None:
        return documents
    copies = corpus_duplicates(artifacts, documents, threshold, work)
    return documents.join(copies, on="doc_id", how="anti")


def documents_of(frame: pl.DataFrame) -> list[Document]:
    columns = frame.select(*Document._fields).sort("doc_id")
    return [Document(*row) for row in columns.iter_rows()]


def pieces_of(frame: pl.DataFrame, work: BuildContext) -> list[DocumentPiece]:
    documents = {one.doc_id: one for one in documents_of(frame)}
    tools = Tools(tokenizer_of(TOKENIZER, work.home, lambda text: work.progress(text, 0, 0)))
    return [
        DocumentPiece(documents[doc_id], start, end)
        for batch in chunk_batches(frame, CUT, tools)
        for doc_id, start, end in batch.select("doc_id", "start", "end").iter_rows()
    ]


def urls_that_repeat(documents: Sequence[Document]) -> set[str]:
    seen: set[str] = set()
    return {one.url for one in documents if one.url in seen or seen.add(one.url)}  # type: ignore[func-returns-value]


LONGEST = 400  # characters of a question or an answer
LONGEST_QUOTE = 700


_Storable = BeforeValidator(lambda value: encodable(value) if isinstance(value, str) else value)
_Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST), _Storable]
_Quote = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_QUOTE), _Storable
]


class QuestionReply(Strict):
    """A question that one passage answers."""

    question: _Line
    answer: _Line
    quote: _Quote

    def draft(self) -> QuestionDraft:
        return QuestionDraft(self.question, self.answer, (self.quote,))


class MultiHopReply(Strict):
    """A question that two passages answer together."""

    question: _Line
    answer: _Line
    first_quote: _Quote
    second_quote: _Quote

    def draft(self) -> QuestionDraft:
        return QuestionDraft(self.question, self.answer, (self.first_quote, self.second_quote))


class UnanswerableReply(Strict):
    """A question that nothing answers, and what is missing."""

    question: _Line
    missing: _Line

    def draft(self) -> QuestionDraft:
        return QuestionDraft(self.question)


class Exchange(Strict):
    """An earlier question and its answer."""

    question: _Line
    answer: _Line


class FollowUpReply(Strict):
    """A question that only its conversation makes clear."""

    earlier: Annotated[tuple[Exchange, ...], Field(min_length=1, max_length=2)]
    question: _Line
    standalone: _Line
    answer: _Line
    quote: _Quote

    def draft(self) -> QuestionDraft:
        turns = tuple(text for one in self.earlier for text in (one.question, one.answer))
        return QuestionDraft(self.question, self.answer, (self.quote,), turns, self.standalone)


Reply = QuestionReply | MultiHopReply | UnanswerableReply | FollowUpReply


class VerdictReply(Strict):
    """What the model says of a question that was made: its reason first, so that the verdict follows it."""

    reason: Annotated[str, Field(max_length=300), _Storable]
    verdict: Literal["yes", "no", "unclear"]


class ClosedBookReply(Strict):
    """What the model answers from memory."""

    known: bool
    answer: Annotated[str, Field(max_length=LONGEST), _Storable]


SHAPES: Mapping[Kind, type[Reply]] = {
    "normal": QuestionReply,
    "yes_no": QuestionReply,
    "hypothetical": QuestionReply,
    "complex": QuestionReply,
    "multi_hop": MultiHopReply,
    "unanswerable": UnanswerableReply,
    "follow_up": FollowUpReply,
}
"""The reply that each type of question is asked for by."""

Verdict = Literal["supported", "answered", "depends", "closed_book"]
VERDICTS: tuple[Verdict, ...] = ("supported", "answered", "depends", "closed_book")


@cache
def prompt(name: Kind | Verdict) -> Template:
    return Template.read(Path(__file__).parent / "prompts" / f"{name}.j2")


def language_name(code: str | None) -> str:
    return LANGUAGE_NAMES.get((code or "")[:2], "the language of the quoted text")


def prompts_identity() -> str:
    return digest([prompt(name).identity() for name in (*KINDS, *VERDICTS)])


Kind = Literal["normal", "yes_no", "hypothetical", "complex", "multi_hop", "unanswerable", "follow_up"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Reason(StrEnum):
    """Why a question is dropped: its `fault` in the review file. The first reason counts.

    truncated: the reply was cut at `max_tokens`
    unreadable: the reply is not JSON of the expected shape, after one more try
    empty: the reply is empty
    refused: the model withheld the reply
    call_failed: a call failed in a way that may pass, or the budget is spent; the same command repeats it
    no_partner: of `multi_hop`: no other document goes with the passage
    no_question: it is not a question
    no_answer: the answer is a refusal
    quote_not_found: no text of the document has a similarity of 0.9 with the quote
    quote_too_short: the quote has fewer than 12 characters
    names_the_passage: it says "the passage", "this text", "laut Text", which users have not seen
    leaks_title: it holds the title of the document, or four fifths of its words
    answer_in_question: all words of the answer are in the question
    wrong_language: question, answer or conversation are not in the document's language
    wrong_type: a `yes_no` question is not answered by yes or no, a `normal` one is; a `hypothetical` one
        opens no case (English, German)
    off_topic: of `unanswerable`: it shares few words with the documents
    near_duplicate: an earlier question has much the same words or meaning
    not_supported: the model does not confirm that the quotes prove the answer
    known_without_document: without the passage, the model gives much the same answer
    one_document_suffices: of `multi_hop`: one of the two quotes alone proves the answer
    answered_by_corpus: of `unanswerable`: the best five passages, by words and meaning, may answer it
    stands_alone: of `follow_up`: neither rules nor the model need the conversation
    """

    TRUNCATED = "truncated"
    UNREADABLE = "unreadable"
    EMPTY = "empty"
    REFUSED = "refused"
    CALL_FAILED = "call_failed"
    NO_PARTNER = "no_partner"
    NO_QUESTION = "no_question"
    NO_ANSWER = "no_answer"
    QUOTE_NOT_FOUND = "quote_not_found"
    QUOTE_TOO_SHORT = "quote_too_short"
    NAMES_THE_PASSAGE = "names_the_passage"
    LEAKS_TITLE = "leaks_title"
    ANSWER_IN_QUESTION = "answer_in_question"
    WRONG_LANGUAGE = "wrong_language"
    WRONG_TYPE = "wrong_type"
    OFF_TOPIC = "off_topic"
    NEAR_DUPLICATE = "near_duplicate"
    NOT_SUPPORTED = "not_supported"
    KNOWN_WITHOUT_DOCUMENT = "known_without_document"
    ONE_DOCUMENT_SUFFICES = "one_document_suffices"
    ANSWERED_BY_CORPUS = "answered_by_corpus"
    STANDS_ALONE = "stands_alone"


class Document(NamedTuple):
    """A document that questions are made about; evidence must stand in its `text`."""

    doc_id: str
    source: str
    url: str
    title: str | None
    language: str | None
    text: str


class DocumentPiece(NamedTuple):
    """A chunk of a document, `document.text[start:end]`."""

    document: Document
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.document.text[self.start : self.end]


class GenerationTask(NamedTuple):
    """One question to be made; pieces: `multi_hop` has two, or one; wanted: of `yes_no`, its answer"""

    number: int
    kind: Kind
    pieces: tuple[DocumentPiece, ...]
    wanted: Literal["yes", "no"] | None = None


@dataclass(frozen=True)
class QuestionDraft:
    """A question as the model wrote it; quotes: words of each piece's document that answer it"""

    question: str
    answer: str | None = None
    quotes: tuple[str, ...] = ()
    conversation: tuple[str, ...] = ()
    standalone: str | None = None

    @property
    def whole(self) -> str:
        return self.standalone or self.question


@dataclass(frozen=True)
class RejectedQuestion:
    """Why a question is dropped, and what was found: the phrase, the other question, the model's reason."""

    reason: Reason
    detail: str


@dataclass(frozen=True)
class TaskOutcome:
    """What came of a task: no draft where the reply holds none, no ``dropped`` for a kept question."""

    task: GenerationTask
    draft: QuestionDraft | None = None
    dropped: RejectedQuestion | None = None


TAGS = ("passage", "title", "quote", "question", "answer", "conversation")
framed = Frames(*TAGS).framed
