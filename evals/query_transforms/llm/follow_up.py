"""A follow-up question rewritten to stand alone, by a language model."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from rag_assay.evals.query_transforms.llm.model_transform import DATA_ONLY, ByModel, quote_input
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.question_words import MAX_READ
from rag_assay.warehouse.inference.prompt import Prompt
from rag_assay.warehouse.recipe import Strict

PROMPT = Prompt(
    system=(
        "Given a conversation and a question, say whether the question can only be understood with the "
        "conversation. If so, rewrite it in its own language so that it stands alone, adding nothing that "
        "was not said; else repeat it."
    ),
    rules=DATA_ONLY,
)
_LONGEST = 600  # characters of the rewritten question
_MAX_TOKENS = 300


class StandaloneReply(Strict):
    """The model's reply: whether the question depends on the conversation, and the question by itself."""

    depends: bool
    standalone: Annotated[str, Field(max_length=_LONGEST)]

    @model_validator(mode="after")
    def _stands_alone(self) -> Self:
        if self.depends and not self.standalone.strip():
            raise ValueError("a question that depends is not rewritten")
        return self


def standalone_by_model(
    transform: ByModel, query: Query, context: RetrievalContext, turns: int
) -> str | None:
    """Return the question as it stands alone; None where the model's reply cannot be used.

    turns: questions of the conversation, with their answers, that the model reads
    """
    read = [turn[: MAX_READ // turns] for turn in query.conversation[-2 * turns :]]
    conversation = "\n".join(f"- {turn}" for turn in read)
    user = f"{quote_input(conversation, 'conversation')}\n{quote_input(query.text)}"
    reply = transform.ask(query, context, StandaloneReply, user, _MAX_TOKENS)
    if reply is None:
        return None
    return reply.standalone.strip() if reply.depends else query.text
