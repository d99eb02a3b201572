"""Extractive answers: the sentences of the passages that answer a question best; no model writes them.

`quotation.py` chooses them. Where each sentence stands is known, so citations need no markers in the text.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.evals.generation.citations import claims
from rag_assay.evals.generation.contract import (
    Answer,
    Citation,
    GenerationContext,
    Generator,
    Passage,
    Request,
    citation,
)
from rag_assay.evals.generation.quotation import (
    CODE_VERSION,
    CountTokens,
    Draft,
    Embed,
    Quoted,
    counted,
    embedded,
    fitted,
    sentences_of,
    weights_revision,
)
from rag_assay.evals.question_sets.no_answer_sentence import unanswered
from rag_assay.warehouse.status import Status


class Extractive(Generator):
    """Quotes the best sentences of the first passages within a token budget; needs only the embedder.

    A date, number or name that is asked for comes first. It declines where no sentence is likely to answer.

    max_tokens: budget of the answer, by the tokenizer of the embedder
    min_score: it refuses if the probability that the best sentence answers is lower; null: it never refuses,
        which is the default of one with a `gate`
    """

    kind: ClassVar[str] = "extractive"
    code_version: ClassVar[str] = CODE_VERSION
    varies: ClassVar[bool] = False
    writes_markers: ClassVar[bool] = False

    max_tokens: Annotated[int, Field(ge=8, le=4096)] = 120
    min_score: Annotated[float, Field(ge=-1, le=2)] | None = fitted()["confidence"]["threshold"]

    @model_validator(mode="before")
    @classmethod
    def _leaves_refusing_to_a_gate(cls, written: Any) -> Any:
        is_gated = isinstance(written, dict) and written.get("gate") is not None
        return {"min_score": None, **written} if is_gated else written

    @property
    def declines(self) -> bool:
        return super().declines or self.min_score is not None

    def generate(self, requests: Sequence[Request], context: GenerationContext) -> list[Answer]:
        """Quote what fits each question best; the sentences of all requests are embedded together, each once.

        An answer's seconds are those of its own question; embedding and counting are not among them.
        """
        drafts = [
            Draft.of(request.question, request.passages, request.own_words, request.conversation)
            for request in requests
        ]
        vectors = embedded(drafts, context.embed)
        passages = counted(
            (passage.text for request in requests for passage in request.passages), context.count_tokens
        )
        counts = counted(sentences_of(drafts), context.count_tokens)
        quoted = []
        for draft in drafts:
            begin = time.perf_counter()
            found = draft.answer(vectors, self.max_tokens, counts, context.count_tokens, self.min_score)
            quoted.append((found, draft.seconds + time.perf_counter() - begin))
        written = context.count_tokens([found.text for found, _ in quoted]) if quoted else []
        return [
            Answer(
                status=Status.OK if found.text else Status.REFUSED,
                reason=None if found.text else _reason(found, self.min_score),
                text=found.text or unanswered(request.language),
                raw=found.text,
                citations=tuple(_citations(found, request)),
                seconds=seconds,
                prompt_tokens=sum(passages[passage.text] for passage in request.passages),
                completion_tokens=tokens,
                usd=0.0,
                cached=False,
                confidence=None if self.gate else found.confidence,
            )
            for request, (found, seconds), tokens in zip(requests, quoted, written, strict=True)
        ]

    def dependencies(self, seed: int, embedder: EmbedderRecipe) -> list[str | int]:
        return [embedder.revision(), weights_revision()]


def _reason(found: Quoted, minimum: float | None) -> str:
    if found.confidence is None or minimum is None:
        return "the passages hold no sentence"
    return f"no sentence reaches the min_score of {minimum:.2g}: the best one has {found.confidence:.2g}"


def _citations(quoted: Quoted, request: Request) -> list[Citation]:
    """Return for each sentence of the text the passage of each piece in it.

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
    minimum: abstain (return "") when the best sentence is less likely to answer; None: never

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
    drafts = [Draft.of(question, list(map(Passage, passages))) for question, passages in requests]
    vectors = embedded(drafts, embed)
    counts = counted(sentences_of(drafts), count_tokens)
    return [draft.answer(vectors, max_tokens, counts, count_tokens, minimum).text for draft in drafts]
