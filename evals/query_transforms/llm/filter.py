"""A filter on metadata, as a language model writes it for one question."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from rag_assay.evals.query_transforms.llm.model_transform import DATA_ONLY, ByModel, quote_input
from rag_assay.evals.query_transforms.metadata_filters.expressions import FIELDS, Expression
from rag_assay.evals.query_transforms.metadata_filters.predicates import fields
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.query import Query
from rag_assay.warehouse.inference.prompt import Prompt
from rag_assay.warehouse.recipe import Strict

PROMPT = Prompt(
    system=(
        "Turn what a question demands of the documents themselves (language, day of publication, keywords, "
        "title, address) into conditions; what it asks about their content is no condition. Give groups that "
        "must all hold; in a group one condition must hold. Dates are ISO dates. No condition: no groups."
    ),
    rules=DATA_ONLY,
)
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
        """The term as an expression's dict."""
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
        """Return the checked expression; None where the model wants no filter."""
        groups = [{"or": [term.written for term in group]} for group in self.groups if group]
        return Expression.model_validate({"and": groups}) if groups else None


def filter_by_model(
    transform: ByModel, query: Query, context: RetrievalContext, columns: list[str]
) -> FilterReply | None:
    """Return the model's filter for a question; None where its reply cannot be used.

    columns: the fields that the index has; a reply that names another one is not usable
    """

    def check(reply: FilterReply) -> None:
        expression = reply.expression()
        for name in fields(expression) if expression else ():
            if name not in columns:
                raise ValueError(f"the index has no column `{name}`")

    user = f"Asked on: {query.asked_at or 'not known'}\n{quote_input(query.text)}"
    bounds = {"FilterTerm.field": {"enum": columns}}
    return transform.ask(query, context, FilterReply, user, _MAX_TOKENS, bounds, check)
