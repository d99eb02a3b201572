"""Query transform `filter`: filters chunks by metadata, with an expression of the study or of a model."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import ClassVar, Self

from pydantic import model_validator

from rag_assay.evals.query_transforms.llm.filter import PROMPT, filter_by_model
from rag_assay.evals.query_transforms.llm.model_transform import ByModel
from rag_assay.evals.query_transforms.metadata_filters.expressions import FIELDS, Expression
from rag_assay.evals.query_transforms.metadata_filters.predicates import compile_filter
from rag_assay.evals.query_transforms.metadata_filters.prefilter import IfEmpty, prefilter_query
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.contract import OpenTransform
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.warehouse.inference.prompt import Prompt


class Filter(ByModel):
    """Keeps a question to the chunks whose metadata an expression names.

    where: the expression, see `filtering/expressions.py`; with `by: llm`, what is used where the model gives
        nothing usable (None: no filter)
    if_empty: keep (find nothing) | relax (search without the filter, with a note); `keep` unless said, since
        a filter that a person wrote is meant
    """

    code_version: ClassVar[str] = "1"
    kind: ClassVar[str] = "filter"
    prompt: ClassVar[Prompt] = PROMPT

    where: Expression | None = None
    if_empty: IfEmpty = "keep"

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.by == "rules" and self.where is None:
            raise ValueError("a filter needs `where`, or `by: llm` with a model that writes one")
        return self

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenTransform:
        """Keep questions to the rows that the expression names.

        A question fails where the index has no column that the study's expression reads.
        """
        return OpenTransform(lambda query: self._read(query, index, context))

    def _read(self, query: Query, index: OpenIndex, context: RetrievalContext) -> list[Query]:
        if not query.text.strip():
            return [query]
        expression = self._expression(query, index, context)
        if expression is None:
            return [query]
        written = json.dumps(expression.model_dump(mode="json", by_alias=True, exclude_none=True))
        known = query.understand(self.kind, "expression", "", written, "unused")
        part = replace(compile_filter(expression, index), of=(known,))
        return [prefilter_query(query, self.kind, [part], self.if_empty)] if len(index) else [query]

    def _expression(self, query: Query, index: OpenIndex, context: RetrievalContext) -> Expression | None:
        if self.by == "llm":
            columns = [name for name in FIELDS if name in index.stored.names]
            reply = filter_by_model(self, query, context, columns)
            if reply is not None:
                return reply.expression()
        return self.where
