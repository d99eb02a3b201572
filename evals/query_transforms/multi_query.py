"""Query transform `multi_query`: searches several wordings of a question, fused by reciprocal rank."""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from rag_assay.evals.query_transforms.model_transform import (
    ByModel,
    keyword_form,
    quote_input,
    rewritten,
    statement,
    with_text,
)
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.question_words import MAX_READ
from rag_assay.warehouse.recipe import Strict

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


class MultiQuery(ByModel):
    """Returns the question and other forms of it.

    By rules there are three: the question, its keywords, and a statement, which differ for word search alone:
    their vector is the question's. A model writes as many as asked.

    n: forms at most, the question itself among them
    """

    code_version: ClassVar[str] = "3"
    kind: ClassVar[str] = "multi_query"

    n: Annotated[int, Field(ge=1, le=8)] = 3

    def read(self, query: Query, index: OpenIndex, context: RetrievalContext) -> list[Query]:
        if self.n == 1:
            return [query]
        bounds = {"MultiQueryReply.questions": {"maxItems": self.n - 1}}
        user = f"Write {self.n - 1}.\n{quote_input(query.text)}"
        reply = self.ask(query, context, MultiQueryReply, user, _MAX_TOKENS * self.n, bounds)
        short = query.text[:MAX_READ]
        forms = (keyword_form(short), statement(short)) if reply is None else reply.questions
        texts = dict.fromkeys(text.strip() for text in (query.text, *forms))
        others = [text for text in texts if text and text != query.text.strip()]
        reword = with_text if reply is None else partial(rewritten, embed=context.embed)
        queries = [query, *(reword(query, one) for one in others)]
        for one in queries[1 : self.n]:
            query.understand(self.kind, "wording", "", one.text)
        return queries[: self.n]
