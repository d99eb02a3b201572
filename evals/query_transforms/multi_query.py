"""Query transform `multi_query`: searches several wordings of a question, fused by reciprocal rank."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from rag_assay.evals.query_transforms.llm.model_transform import ByModel
from rag_assay.evals.query_transforms.llm.multi_query import PROMPT, wordings_by_model
from rag_assay.evals.query_transforms.query_rewriting import rewritten, with_text
from rag_assay.evals.query_transforms.rules.statements import keyword_form, statement
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.contract import OpenTransform
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.question_words import MAX_READ
from rag_assay.warehouse.inference.prompt import Prompt


class MultiQuery(ByModel):
    """Returns the question and other forms of it.

    By rules there are three: the question, its keywords, and a statement, which differ for word search alone:
    their vector is the question's. A model writes as many as asked.

    n: forms at most, the question itself among them
    """

    code_version: ClassVar[str] = "3"
    kind: ClassVar[str] = "multi_query"
    prompt: ClassVar[Prompt] = PROMPT

    n: Annotated[int, Field(ge=1, le=8)] = 3

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenTransform:
        """Read questions in up to `n` forms, themselves first."""
        return OpenTransform(lambda query: self._read(query, context))

    def _read(self, query: Query, context: RetrievalContext) -> list[Query]:
        if not query.text.strip() or self.n == 1:
            return [query]
        by_model = wordings_by_model(self, query, context, self.n - 1) if self.by == "llm" else None
        short = query.text[:MAX_READ]
        forms = (keyword_form(short), statement(short)) if by_model is None else by_model
        texts = dict.fromkeys(text.strip() for text in (query.text, *forms))
        others = [text for text in texts if text and text != query.text.strip()]
        if by_model is None:
            queries = [query, *(with_text(query, text) for text in others)]
        else:
            queries = [query, *(rewritten(query, text, context.embed) for text in others)]
        for one in queries[1 : self.n]:
            query.understand(self.kind, "wording", "", one.text)
        return queries[: self.n]
