"""The entities of a question, as a language model lists them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from rag_assay.evals.query_transforms.llm.model_transform import DATA_ONLY, ByModel, quote_input
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.query import Query
from rag_assay.warehouse.inference.prompt import Prompt
from rag_assay.warehouse.recipe import Strict

PROMPT = Prompt(
    system=(
        "List the named things in a question: clubs, people, places, organisations, topics, and dates. "
        "Copy each as it stands in the question, with its type in one word. An empty list is fine."
    ),
    rules=DATA_ONLY,
)
MOST = 16  # entities that a model may name
_MAX_TOKENS = 400


class NamedEntity(Strict):
    """An entity: its type in one word, and its text as it stands in the question."""

    kind: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=40)]
    text: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=120)]


class EntitiesReply(Strict):
    """The model's reply."""

    entities: Annotated[tuple[NamedEntity, ...], Field(max_length=MOST)]


def entities_by_model(
    transform: ByModel, query: Query, context: RetrievalContext
) -> list[tuple[str, str]] | None:
    """Return (type, text) of each entity of a question; None where the model's reply cannot be used."""
    reply = transform.ask(query, context, EntitiesReply, quote_input(query.text), _MAX_TOKENS)
    if reply is None:
        return None
    # A model also names what the question does not: only words of the question count.
    question = query.text.casefold()
    return [(one.kind, one.text) for one in reply.entities if one.text.casefold() in question]
