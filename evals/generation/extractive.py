"""Extractive answers: the sentences of the passages that fit the question best; no model writes them.

A sentence's score is ``(1 - w) * cosine(question, sentence) + w * overlap(question, sentence)``. The overlap
is the share of the question's terms that the sentence holds, each weighted by its rarity among the sentences,
``log((N + 1) / (df + 0.5))`` with N sentences, df of them holding the term.

Where each sentence stands is known, so that citations need no markers in the text: it stays what was quoted.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from rag_assay.assets.chunking.sentence_splitter import sentences
from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.evals.generation.citations import claims
from rag_assay.evals.generation.contract import (
    Answer,
    Citation,
    GenerationContext,
    Generator,
    Request,
    citation,
)
from rag_assay.evals.question_sets.no_answer_sentence import unanswered
from rag_assay.evals.word_lists import entries
from rag_assay.warehouse.schemas import Status

Embed = Callable[[list[str]], npt.NDArray[np.floating]]
"""Texts -> their embeddings: (n, d), each row of length 1."""

CountTokens = Callable[[Sequence[str]], list[int]]

OVERLAP_WEIGHT = 0.3
REMEMBERED = 2048  # passages whose sentences are kept: some 40 MB

_WORD = re.compile(r"\w+")
_STEM = 6  # letters: a crude stem that serves German and English alike ("directive", "directives")


class Extractive(Generator):
    """Quotes the best sentences of the first passages within a token budget; needs no model but the embedder.

    max_tokens: budget of the answer, by the tokenizer of the embedder
    min_score: below this score of the best sentence it says that the documents do not say; None: never
    """

    kind: ClassVar[str] = "extractive"
    code_version: ClassVar[str] = "4"
    varies: ClassVar[bool] = False
    writes_markers: ClassVar[bool] = False

    max_tokens: Annotated[int, Field(ge=8, le=4096)] = 80
    min_score: Annotated[float, Field(ge=-1, le=2)] | None = None

    @property
    def declines(self) -> bool:
        return super().declines or self.min_score is not None

    def generate(self, requests: Sequence[Request], context: GenerationContext) -> list[Answer]:
        """Quote what fits each question best; the sentences of all requests are embedded together, each once.

        An answer's seconds are those of its own question; embedding and counting are not among them.
        """
        drafts = [
            _Draft.of(request.question, [passage.text for passage in request.passages])
            for request in requests
        ]
        vectors = _embedded(drafts, context.embed)
        passages = _counted(
            (passage.text for request in requests for passage in request.passages), context.count_tokens
        )
        counts = _counted(_sentences_of(drafts), context.count_tokens)
        quoted = []
        for draft in drafts:
            begin = time.perf_counter()
            found = draft.answer(vectors, self.max_tokens, counts, context.count_tokens, self.min_score)
            quoted.append((found, draft.seconds + time.perf_counter() - begin))
        written = context.count_tokens([found.text for found, _ in quoted]) if quoted else []
        return [
            Answer(
                status=Status.OK if found.text else Status.REFUSED,
                reason=None if found.text else "no sentence reaches the generator's min_score",
                text=found.text or unanswered(request.language),
                raw=found.text,
                citations=tuple(_citations(found, request)),
                seconds=seconds,
                prompt_tokens=sum(passages[passage.text] for passage in request.passages),
                completion_tokens=tokens,
                usd=0.0,
                cached=False,
            )
            for request, (found, seconds), tokens in zip(requests, quoted, written, strict=True)
        ]

    def dependencies(self, seed: int, embedder: EmbedderRecipe) -> list[str | int]:
        return [embedder.revision()]


def _citations(quoted: _Quoted, request: Request) -> list[Citation]:
    """Return for each sentence of the text the passages that it stands in, best passage first.

    Sentences are those that `claims` finds in the text: two pieces without a full stop may be one.
    """
    sentences = claims(quoted.text)
    found: set[tuple[int, int]] = set()
    for piece in quoted.pieces:
        over = [at for at, (start, end) in enumerate(sentences) if start < piece.end and piece.start < end]
        found |= {(sentence, piece.passage) for sentence in over}
    return [
        citation(passage + 1, sentence, request.passages[passage], request.language)
        for sentence, passage in sorted(found)
    ]


def extract(
    question: str,
    passages: Sequence[str],
    embed: Embed,
    max_tokens: int,
    count_tokens: CountTokens,
    minimum: float | None = None,
) -> str:
    """Answer ``question`` with the best sentences of ``passages``, in reading order, each once.

    passages: most relevant first; equal scores go to the sentence that is read first
    max_tokens: bound of the answer, whose tokens are those of its sentences, each counted by itself; a best
        sentence that is longer is cut at a word
    count_tokens: texts -> tokens of each
    minimum: abstain (return "") when no sentence scores this much (scores lie within -0.7 … 1); None: never

    Returns "" when the passages hold no sentence.
    """
    return extract_many([(question, passages)], embed, max_tokens, count_tokens, minimum)[0]


def extract_many(
    requests: Sequence[tuple[str, Sequence[str]]],
    embed: Embed,
    max_tokens: int,
    count_tokens: CountTokens,
    minimum: float | None = None,
) -> list[str]:
    """Answer many (question, passages) as `extract` does, embedding each distinct text once, in one batch."""
    drafts = [_Draft.of(question, passages) for question, passages in requests]
    vectors = _embedded(drafts, embed)
    counts = _counted(_sentences_of(drafts), count_tokens)
    return [draft.answer(vectors, max_tokens, counts, count_tokens, minimum).text for draft in drafts]


class _Sentence(NamedTuple):
    """A sentence with what is compared of it: its text in small letters, and its terms."""

    text: str
    key: str
    terms: frozenset[str]


@dataclass(frozen=True)
class _Candidate:
    sentence: _Sentence
    place: int  # in reading order
    passage: int  # the first one that holds it, from 0

    @property
    def text(self) -> str:
        return self.sentence.text


class _Piece(NamedTuple):
    """Characters of a quoted text, and the passage that they stand in, from 0."""

    start: int
    end: int
    passage: int


class _Quoted(NamedTuple):
    text: str = ""
    pieces: tuple[_Piece, ...] = ()


@dataclass(frozen=True)
class _Draft:
    """A question and the sentences that may answer it, in reading order."""

    question: str
    candidates: list[_Candidate]
    seconds: float

    @staticmethod
    def of(question: str, passages: Sequence[str]) -> _Draft:
        split = [_split(passage) for passage in passages]
        begin = time.perf_counter()
        candidates = _candidates([found for found, _ in split])
        seconds = time.perf_counter() - begin + sum(seconds for _, seconds in split)
        return _Draft(question, candidates, seconds)

    def answer(
        self,
        vectors: Vectors,
        max_tokens: int,
        counts: Mapping[str, int],
        count_tokens: CountTokens,
        minimum: float | None,
    ) -> _Quoted:
        """Return the quotation; ``counts`` has the tokens of each of its sentences."""
        rows = [vectors.rows[candidate.text] for candidate in self.candidates]
        cosines = vectors.matrix[rows] @ vectors.matrix[vectors.rows[self.question]]
        scores = _scores(self.question, self.candidates, cosines)
        best_first = sorted(self.candidates, key=lambda one: (-scores[one.place], one.place))
        if not best_first or (minimum is not None and scores[best_first[0].place] < minimum):
            return _Quoted()
        best = best_first[0]
        if counts[best.text] > max_tokens:
            cut = _cut(best.text, max_tokens, count_tokens)
            return _Quoted(cut, (_Piece(0, len(cut), best.passage),))
        return _composed(best_first, max_tokens, counts)


@dataclass(frozen=True)
class Vectors:
    """Unit vectors, shape (texts, dimensions), and the row of each text."""

    matrix: npt.NDArray[np.floating]
    rows: Mapping[str, int]


def _embedded(drafts: Sequence[_Draft], embed: Embed) -> Vectors:
    texts = dict.fromkeys(draft.question for draft in drafts)
    texts.update(dict.fromkeys(candidate.text for draft in drafts for candidate in draft.candidates))
    matrix = embed(list(texts)) if texts else np.empty((0, 1))
    return Vectors(matrix, {text: row for row, text in enumerate(texts)})


def _sentences_of(drafts: Sequence[_Draft]) -> Iterator[str]:
    return (candidate.text for draft in drafts for candidate in draft.candidates)


def _counted(texts: Iterable[str], count_tokens: CountTokens) -> dict[str, int]:
    distinct = list(dict.fromkeys(texts))
    return dict(zip(distinct, count_tokens(distinct), strict=True)) if distinct else {}


@lru_cache(maxsize=REMEMBERED)
def _split(passage: str) -> tuple[tuple[_Sentence, ...], float]:
    """Return the sentences of a passage and the seconds that this takes: retrievers find the same ones."""
    begin = time.perf_counter()
    found = tuple(
        _Sentence(sentence, sentence.casefold(), _terms(sentence)) for sentence in sentences(passage)
    )
    return found, time.perf_counter() - begin


def _candidates(passages: Sequence[Sequence[_Sentence]]) -> list[_Candidate]:
    """Return the distinct sentences in reading order.

    Chunks overlap, so one also begins or ends within a sentence: a part of another candidate is left out.
    """
    distinct: dict[str, tuple[_Sentence, int]] = {}
    for number, passage in enumerate(passages):
        for sentence in passage:
            distinct.setdefault(sentence.key, (sentence, number))
    together = "\n".join(distinct)  # sentences hold no line feed
    kept = [found for key, found in distinct.items() if together.count(key) == 1]
    return [_Candidate(sentence, place, number) for place, (sentence, number) in enumerate(kept)]


@cache
def _stop_words() -> frozenset[str]:
    return frozenset(entries("extractive", "stop_words"))


def _terms(text: str) -> frozenset[str]:
    words = (word.casefold() for word in _WORD.findall(text))
    stop_words = _stop_words()
    return frozenset(word if word.isdigit() else word[:_STEM] for word in words if word not in stop_words)


def _scores(question: str, found: list[_Candidate], cosines: npt.NDArray[np.floating]) -> list[float]:
    terms_of_question = sorted(_terms(question))
    held = [candidate.sentence.terms for candidate in found]
    weights = {
        term: math.log((len(held) + 1) / (sum(term in terms for terms in held) + 0.5))
        for term in terms_of_question
    }
    whole = sum(weights.values())
    scores = []
    for cosine, terms in zip(cosines, held, strict=True):
        overlap = sum(weights[term] for term in terms_of_question if term in terms) / whole if whole else 0.0
        # Rounded, so that the last bits, which depend on the batch, never break a tie.
        scores.append(round((1 - OVERLAP_WEIGHT) * float(cosine) + OVERLAP_WEIGHT * overlap, 6))
    return scores


def _composed(best_first: Sequence[_Candidate], max_tokens: int, counts: Mapping[str, int]) -> _Quoted:
    """Join the best sentences that fit, in reading order; the best one of all fits."""
    taken, room = [], max_tokens
    for candidate in best_first:
        if counts[candidate.text] <= room:
            taken.append(candidate)
            room -= counts[candidate.text]
    taken.sort(key=lambda one: one.place)
    ends = list(accumulate((len(one.text) + 1 for one in taken), initial=0))
    pieces = (
        _Piece(start, start + len(one.text), one.passage) for start, one in zip(ends, taken, strict=False)
    )
    return _Quoted(" ".join(one.text for one in taken), tuple(pieces))


def _cut(text: str, max_tokens: int, count_tokens: CountTokens) -> str:
    """Return the longest beginning of whole words that fits, marked with an ellipsis; at least one word."""
    words = text.split()
    low, high = 1, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        if count_tokens([" ".join(words[:middle]) + " …"])[0] <= max_tokens:
            low = middle
        else:
            high = middle - 1
    return " ".join(words[:low]) + " …"
