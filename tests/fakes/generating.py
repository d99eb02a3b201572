"""Requests and contexts for generators, without a study."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rag_assay.evals.generation.answer_prompt import Prompts
from rag_assay.evals.generation.contract import GenerationContext, Passage, Request
from rag_assay.warehouse.inference.gateway import Gateway, Messages
from tests.fakes.indexing import vector_of


def request(question: str, passages: Sequence[str] = (), language: str | None = "en", **more: Any) -> Request:
    """A request over plain texts."""
    return Request(question, language, passages=tuple(Passage(text) for text in passages), **more)


def answer_messages(question: str, passages: Sequence[str], language: str | None) -> Messages:
    """What a model is told by the prompt of now."""
    return Prompts("answer").messages(request(question, passages, language))


def context_of(gateway: Gateway, **more: Any) -> GenerationContext:
    """A context whose vectors are made of the texts alone, and whose tokens are words."""
    return GenerationContext(
        gateway,
        lambda texts: np.stack([vector_of(text) for text in texts]),
        lambda texts: [len(text.split()) for text in texts],
        **{"seed": 7, **more},
    )
