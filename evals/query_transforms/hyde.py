"""Query transform `hyde`: searches with the vector of an invented answer (HyDE)."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

from rag_assay.evals.query_transforms.llm.hyde import PROMPT, passage_by_model
from rag_assay.evals.query_transforms.llm.model_transform import ByModel
from rag_assay.evals.query_transforms.query_rewriting import vector_of
from rag_assay.evals.query_transforms.rules.statements import keyword_form, statement
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.contract import OpenTransform
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.question_words import MAX_READ
from rag_assay.warehouse.inference.prompt import Prompt


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
    prompt: ClassVar[Prompt] = PROMPT

    text: Literal["question", "passage"] = "question"

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenTransform:
        """Give questions the vectors of hypothetical passages."""
        return OpenTransform(lambda query: self._read(query, context))

    def _read(self, query: Query, context: RetrievalContext) -> list[Query]:
        if not query.text.strip():
            return [query]
        passage = self._passage(query, context)
        if not passage or passage == query.text:
            return [query]
        query.understand(self.kind, "passage", "", passage)
        text = passage if self.text == "passage" else query.text
        return [replace(query, text=text, vector=vector_of(query, [query.text, passage], context.embed))]

    def _passage(self, query: Query, context: RetrievalContext) -> str:
        if self.by == "llm":
            passage = passage_by_model(self, query, context)
            if passage is not None:
                return passage
        short = query.text[:MAX_READ]
        return " ".join(part for part in (statement(short), keyword_form(short)) if part)
