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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from assets.chunking.sentence_splitter import sentences
from assets.embedding.embedder import EmbedderRecipe
from evals.generating.citations import claims
from evals.generating.contract import Answer, Citation, GenerationContext, Generator, Request, citation
from evals.gold.unanswered import unanswered
from evals.word_lists import entries
from warehouse.schemas import Status

Embed = Callable[[list[str]], npt.NDArray[np.floating]]
"""Texts -> their embeddings: (n, d), each row of length 1."""

OVERLAP_WEIGHT = 0.3

_WORD = re.compile(r"\w+")
_STEM = 6  # letters: a crude stem that serves German and English alike ("directive", "directives")


class Extractive(Generator):
    """Quotes the best sentences of the first passages within a token budget; needs no model but the embedder.

    max_tokens: budget of the answer, by the tokenizer of the embedder
    min_score: below this score of the best sentence it says that the documents do not say; None: never
    """

    kind: ClassVar[str] = "extractive"
    code_version: ClassVar[str] = "3"
    varies: ClassVar[bool] = False
    writes_markers: ClassVar[bool] = False

    max_tokens: Annotated[int, Field(ge=8, le=4096)] = 80
    min_score: Annotated[float, Field(ge=-1, le=2)] | None = None

    def generate(self, requests: Sequence[Request], context: GenerationContext) -> list[Answer]:
        """Quote what fits each question best; the sentences of all requests are embedded together, each once.

        An answer's seconds are those of its own question; embedding is not among them.
        """
        read = [_read(request) for request in requests]
        vectors = _embedded([draft for draft, _ in read], context.embed)
        return [
            self._answer(request, draft, seconds, vectors, context)
            for request, (draft, seconds) in zip(requests, read, strict=True)
        ]

    def dependencies(self, seed: int, embedder: EmbedderRecipe) -> list[str | int]:
        """Return the revision of the embedder, which compares sentences with the question."""
        return [embedder.revision()]

    def _answer(
        self, request: Request, draft: _Draft, seconds: float, vectors: Vectors, context: GenerationContext
    ) -> Answer:
        begin = time.perf_counter()
        quoted = draft.answer(
            vectors, self.max_tokens, lambda text: context.count_tokens([text])[0], self.min_score
        )
        seconds += time.perf_counter() - begin
        return Answer(
            status=Status.OK if quoted.text else Status.REFUSED,
            reason=None if quoted.text else "no sentence reaches the generator's min_score",
            text=quoted.text or unanswered(request.language),
            raw=quoted.text,
            citations=tuple(_citations(quoted, request)),
            seconds=seconds,
            prompt_tokens=sum(context.count_tokens([passage.text for passage in request.passages])),
            completion_tokens=context.count_tokens([quoted.text])[0],
            usd=0.0,
            cached=False,
        )


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


def _read(request: Request) -> tuple[_Draft, float]:
    """Return a request's sentences, and the seconds that finding them took."""
    begin = time.perf_counter()
    draft = _Draft.of(request.question, [passage.text for passage in request.passages])
    return draft, time.perf_counter() - begin


def extract(
    question: str,
    passages: Sequence[str],
    embed: Embed,
    max_tokens: int,
    count_tokens: Callable[[str], int],
    minimum: float | None = None,
) -> str:
    """Answer ``question`` with the best sentences of ``passages``, in reading order, each once.

    passages: most relevant first; equal scores go to the sentence that is read first
    max_tokens: bound of the answer by ``count_tokens``; a best sentence that is longer is cut at a word
    minimum: abstain (return "") when no sentence scores this much (scores lie within -0.7 … 1); None: never

    Returns "" when the passages hold no sentence.
    """
    return extract_many([(question, passages)], embed, max_tokens, count_tokens, minimum)[0]


def extract_many(
    requests: Sequence[tuple[str, Sequence[str]]],
    embed: Embed,
    max_tokens: int,
    count_tokens: Callable[[str], int],
    minimum: float | None = None,
) -> list[str]:
    """Answer many (question, passages) as `extract` does, embedding each distinct text once, in one batch."""
    drafts = [_Draft.of(question, passages) for question, passages in requests]
    vectors = _embedded(drafts, embed)
    return [draft.answer(vectors, max_tokens, count_tokens, minimum).text for draft in drafts]


@dataclass(frozen=True)
class _Candidate:
    text: str
    place: int  # in reading order
    passage: int  # the first one that holds it, from 0


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

    @staticmethod
    def of(question: str, passages: Sequence[str]) -> _Draft:
        return _Draft(question, _candidates(passages))

    def answer(
        self, vectors: Vectors, max_tokens: int, count_tokens: Callable[[str], int], minimum: float | None
    ) -> _Quoted:
        rows = [vectors.rows[candidate.text] for candidate in self.candidates]
        cosines = vectors.matrix[rows] @ vectors.matrix[vectors.rows[self.question]]
        scores = _scores(self.question, self.candidates, cosines)
        return _compose(self.candidates, scores, max_tokens, count_tokens, minimum)


@dataclass(frozen=True)
class Vectors:
    """Unit vectors, shape (texts, dimensions), and the row of each text."""

    matrix: npt.NDArray[np.floating]
    rows: Mapping[str, int]


def _embedded(drafts: Sequence[_Draft], embed: Embed) -> Vectors:
    """Embed the questions and sentences of all drafts, each text once."""
    texts = dict.fromkeys(draft.question for draft in drafts)
    texts.update(dict.fromkeys(candidate.text for draft in drafts for candidate in draft.candidates))
    matrix = embed(list(texts)) if texts else np.empty((0, 1))
    return Vectors(matrix, {text: row for row, text in enumerate(texts)})


def _candidates(passages: Sequence[str]) -> list[_Candidate]:
    """Return the distinct sentences in reading order.

    Chunks overlap, so one also begins or ends within a sentence: a part of another candidate is left out.
    """
    distinct: dict[str, tuple[str, int]] = {}
    for number, passage in enumerate(passages):
        for sentence in sentences(passage):
            distinct.setdefault(sentence.casefold(), (sentence, number))
    kept = [found for key, found in distinct.items() if not any(key in o and key != o for o in distinct)]
    return [_Candidate(text, place, number) for place, (text, number) in enumerate(kept)]


@cache
def _stop_words() -> frozenset[str]:
    """Return words that say nothing of a question's subject, though they may be rare among the passages."""
    return frozenset(entries("extractive", "stop_words"))


def _terms(text: str) -> set[str]:
    words = (word.casefold() for word in _WORD.findall(text))
    return {word if word.isdigit() else word[:_STEM] for word in words if word not in _stop_words()}


def _scores(question: str, found: list[_Candidate], cosines: npt.NDArray[np.floating]) -> list[float]:
    terms_of_question = sorted(_terms(question))
    held = [_terms(candidate.text) for candidate in found]
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


def _compose(
    found: list[_Candidate],
    scores: list[float],
    max_tokens: int,
    count_tokens: Callable[[str], int],
    minimum: float | None,
) -> _Quoted:
    """Join the best sentences that fit; the best one of all is always among them."""
    best_first = sorted(found, key=lambda candidate: (-scores[candidate.place], candidate.place))
    if not best_first or (minimum is not None and scores[best_first[0].place] < minimum):
        return _Quoted()
    best = best_first[0]
    if count_tokens(best.text) > max_tokens:
        cut = _cut(best.text, max_tokens, count_tokens)
        return _Quoted(cut, (_Piece(0, len(cut), best.passage),))
    taken = [best]
    for candidate in best_first[1:]:
        longer = sorted([*taken, candidate], key=lambda one: one.place)
        if count_tokens(" ".join(one.text for one in longer)) <= max_tokens:
            taken = longer
    ends = list(accumulate((len(one.text) + 1 for one in taken), initial=0))
    pieces = (
        _Piece(start, start + len(one.text), one.passage) for start, one in zip(ends, taken, strict=False)
    )
    return _Quoted(" ".join(one.text for one in taken), tuple(pieces))


def _cut(text: str, max_tokens: int, count_tokens: Callable[[str], int]) -> str:
    """Return the longest beginning of whole words that fits, marked with an ellipsis; at least one word."""
    words = text.split()
    low, high = 1, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        if count_tokens(" ".join(words[:middle]) + " …") <= max_tokens:
            low = middle
        else:
            high = middle - 1
    return " ".join(words[:low]) + " …"
