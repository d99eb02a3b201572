"""A passage that would answer a question, invented by a language model."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from rag_assay.evals.query_transforms.llm.model_transform import DATA_ONLY, ByModel, quote_input
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.query import Query
from rag_assay.warehouse.inference.prompt import Prompt
from rag_assay.warehouse.recipe import Strict

PROMPT = Prompt(
    system=(
        "Write a short passage, in the question's language, as it could stand in a document that answers the "
        "question. Two or three sentences; invent the details that are needed."
    ),
    rules=DATA_ONLY,
)
_LONGEST = 1_200  # characters of the passage
_MAX_TOKENS = 400


class HydeReply(Strict):
    """The model's reply."""

    passage: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=_LONGEST)]


def passage_by_model(transform: ByModel, query: Query, context: RetrievalContext) -> str | None:
    """Return an invented passage; None where the model's reply cannot be used."""
    reply = transform.ask(query, context, HydeReply, quote_input(query.text), _MAX_TOKENS)
    return None if reply is None else reply.passage
