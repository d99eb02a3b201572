"""Query transform `filter`: filters chunks by metadata, with an expression of the study or of a model."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from rag_assay.evals.query_transforms.metadata_filters.predicates import (
    FIELDS,
    Expression,
    IfEmpty,
    compile_filter,
    fields,
    prefilter_query,
)
from rag_assay.evals.query_transforms.model_transform import ByModel, quote_input
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.warehouse.recipe import Strict

_Op = Literal["=", "!=", "<", "<=", ">", ">=", "contains", "any"]
_GROUPS, _TERMS = 4, 4
_MAX_TOKENS = 400


class FilterTerm(Strict):
    """One condition on one field; `negated`: it must not hold."""

    field: Annotated[str, Field(max_length=40)]
    op: _Op
    value: Annotated[str, Field(max_length=120)]
    negated: bool

    @property
    def written(self) -> dict[str, object]:
        number = FIELDS.get(self.field) == "number"
        value = float(self.value) if number else self.value
        one: dict[str, object] = {"field": self.field, "op": self.op, "value": value}
        return {"not": one} if self.negated else one


class FilterReply(Strict):
    """The model's reply: groups that must all hold, of terms of which one must."""

    groups: Annotated[
        tuple[Annotated[tuple[FilterTerm, ...], Field(max_length=_TERMS)], ...], Field(max_length=_GROUPS)
    ]

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        self.expression()
        return self

    def expression(self) -> Expression | None:
        groups = [{"or": [term.written for term in group]} for group in self.groups if group]
        return Expression.model_validate({"and": groups}) if groups else None


class Filter(ByModel):
    """Keeps a question to the chunks whose metadata an expression names.

    where: the expression (docs/grid.md); with `by: llm`, what is used where the model
        gives nothing usable (None: no filter)
    if_empty: keep (find nothing) | relax (search without the filter, with a note); default: `keep`, since
        a filter that a person wrote is meant
    """

    code_version: ClassVar[str] = "1"
    kind: ClassVar[str] = "filter"

    where: Expression | None = None
    if_empty: IfEmpty = "keep"

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.by == "rules" and self.where is None:
            raise ValueError("a filter needs `where`, or `by: llm` with a model that writes one")
        return self

    def read(self, query: Query, index: OpenIndex, context: RetrievalContext) -> list[Query]:
        expression = self._expression(query, index, context)
        if expression is None:
            return [query]
        written = json.dumps(expression.model_dump(mode="json", by_alias=True, exclude_none=True))
        known = query.understand(self.kind, "expression", "", written, "unused")
        part = replace(compile_filter(expression, index), of=(known,))
        return [prefilter_query(query, self.kind, [part], self.if_empty)] if len(index) else [query]

    def _expression(self, query: Query, index: OpenIndex, context: RetrievalContext) -> Expression | None:
        if self.by == "rules":
            return self.where
        columns = [name for name in FIELDS if name in index.stored.names]

        def check(reply: FilterReply) -> None:
            expression = reply.expression()
            for name in fields(expression) if expression else ():
                if name not in columns:
                    raise ValueError(f"the index has no column `{name}`")

        user = f"Asked on: {query.asked_at or 'not known'}\n{quote_input(query.text)}"
        bounds = {"FilterTerm.field": {"enum": columns}}
        reply = self.ask(query, context, FilterReply, user, _MAX_TOKENS, bounds, check)
        return self.where if reply is None else reply.expression()
