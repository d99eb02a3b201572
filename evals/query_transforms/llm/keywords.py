"""The keywords of a question with synonyms, as a language model lists them."""

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
        "List the keywords of a question for a search engine, in the question's language, each with up to "
        "two synonyms that a document might use instead. Leave out words that carry no content."
    ),
    rules=DATA_ONLY,
)
_MAX_TOKENS = 600
Word = Annotated[str, Field(max_length=60)]
MOST = 24  # keywords of one question


class Keyword(Strict):
    """A keyword and up to two synonyms of it."""

    word: Word
    synonyms: Annotated[tuple[Word, ...], Field(max_length=2)]


class KeywordsReply(Strict):
    """The model's reply."""

    keywords: Annotated[tuple[Keyword, ...], Field(min_length=1, max_length=MOST)]

    @model_validator(mode="after")
    def _is_not_blank(self) -> Self:
        if not any(one.word.strip() for one in self.keywords):
            raise ValueError("no keyword has a letter")
        return self


def keywords_by_model(
    transform: ByModel, query: Query, context: RetrievalContext
) -> dict[str, list[str]] | None:
    """Return keyword -> its synonyms; None where the model's reply cannot be used."""
    reply = transform.ask(query, context, KeywordsReply, quote_input(query.text), _MAX_TOKENS)
    if reply is None:
        return None
    return {
        one.word.strip(): [word.strip() for word in one.synonyms if word.strip()]
        for one in reply.keywords
        if one.word.strip()
    }
