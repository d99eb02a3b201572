"""Query transform `hyde`: searches with the vector of an invented answer (HyDE)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import StringConstraints

from rag_assay.evals.query_transforms.model_transform import (
    ByModel,
    keyword_form,
    quote_input,
    statement,
    vector_of,
)
from rag_assay.evals.retrieval.question_words import MAX_READ
from rag_assay.warehouse.recipe import Strict

if TYPE_CHECKING:
    from rag_assay.evals.retrieval.context import RetrievalContext
    from rag_assay.evals.retrieval.index import OpenIndex
    from rag_assay.evals.retrieval.query import Query

_LONGEST = 1_200  # characters of the passage
_MAX_TOKENS = 400


class HydeReply(Strict):
    """The model's reply."""

    passage: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=_LONGEST)]


class Hyde(ByModel):
    """Hypothetical document embeddings (Gao et al., ACL 2023): the vector of an invented answer.

    The vector is that of the mean of the question's and the passage's, as in the paper. Only a model can
    invent an answer; by rules the passage is a mere template, the question as a statement with its keywords,
    which says nothing new: a baseline to measure the model against, no stand-in for it. The passage is
    embedded by the query side of the embedder, which matters where a model has different prompts for both.

    text: question (words are searched as asked, only the vector changes) | passage (both)
    """

    code_version: ClassVar[str] = "3"
    kind: ClassVar[str] = "hyde"

    text: Literal["question", "passage"] = "question"

    def read(self, query: Query, index: OpenIndex, context: RetrievalContext) -> list[Query]:
        passage = self._passage(query, context)
        if not passage or passage == query.text:
            return [query]
        query.understand(self.kind, "passage", "", passage)
        text = passage if self.text == "passage" else query.text
        return [replace(query, text=text, vector=vector_of(query, [query.text, passage], context.embed))]

    def _passage(self, query: Query, context: RetrievalContext) -> str:
        reply = self.ask(query, context, HydeReply, quote_input(query.text), _MAX_TOKENS)
        if reply is not None:
            return reply.passage
        short = query.text[:MAX_READ]
        return " ".join(part for part in (statement(short), keyword_form(short)) if part)
