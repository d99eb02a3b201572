"""Which part of a cell said that the documents do not say."""

from __future__ import annotations

from typing import Literal

from rag_assay.evals.generation.contract import Answer, Generator, Request
from rag_assay.warehouse.schemas import Status

Decliner = Literal["no_passages", "gate", "min_score", "model"]
"""The retriever, which found nothing; the gate, by the scores of the passages; the least score, which no
sentence reached; the language model, which said so."""


def decliner_of(generator: Generator, request: Request, answer: Answer) -> Decliner | None:
    """Return what declined a request; None: it was answered, or failed."""
    if answer.status is Status.NO_CONTEXT:
        return "no_passages"
    if answer.status is not Status.REFUSED:
        return None
    scores = [passage.score for passage in request.passages]
    if generator.gate is not None and generator.gate.refusal(scores) is not None:
        return "gate"
    return "model" if generator.chat is not None else "min_score"
