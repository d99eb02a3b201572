"""Other wordings of a question, as a language model writes them."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from rag_assay.evals.query_transforms.llm.model_transform import DATA_ONLY, ByModel, quote_input
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.query import Query
from rag_assay.warehouse.inference.prompt import Prompt
from rag_assay.warehouse.recipe import Strict

PROMPT = Prompt(
    system=(
        "Write other wordings of a question for a search engine, in its own language: same meaning, other "
        "words, as different from each other as they can be."
    ),
    rules=DATA_ONLY,
)
_LONGEST = 400  # characters of one wording
_MAX_TOKENS = 120  # of each wording, the question's own among them


class MultiQueryReply(Strict):
    """The model's reply."""

    questions: Annotated[
        tuple[Annotated[str, Field(max_length=_LONGEST)], ...], Field(min_length=1, max_length=8)
    ]

    @model_validator(mode="after")
    def _is_not_blank(self) -> Self:
        if not any(text.strip() for text in self.questions):
            raise ValueError("no question has a letter")
        return self


def wordings_by_model(
    transform: ByModel, query: Query, context: RetrievalContext, count: int
) -> tuple[str, ...] | None:
    """Return up to ``count`` other wordings of a question; None where the model's reply cannot be used."""
    bounds = {"MultiQueryReply.questions": {"maxItems": count}}
    user = f"Write {count}.\n{quote_input(query.text)}"
    reply = transform.ask(query, context, MultiQueryReply, user, _MAX_TOKENS * (count + 1), bounds)
    return None if reply is None else reply.questions
