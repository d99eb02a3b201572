"""Filters by metadata: an expression written by hand in the study, or by a model for each question."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from evals.retrieving.contract import Query
from evals.retrieving.index import OpenIndex
from evals.understanding.by_model.model_transform import ByModel, quoted
from evals.understanding.filtering.expressions import FIELDS, Expression, Op
from evals.understanding.filtering.predicates import fields, narrowing
from evals.understanding.filtering.prefilter import IfEmpty, prefiltered
from warehouse.recipe import Strict

_OPS: tuple[Op, ...] = ("=", "!=", "<", "<=", ">", ">=", "contains", "any")
_GROUPS, _TERMS = 4, 4


class _Term(Strict):
    field: Annotated[str, Field(max_length=40)]
    op: Op
    value: Annotated[str, Field(max_length=120)]
    negated: bool

    @property
    def written(self) -> dict[str, Any]:
        """The term as an expression's dict."""
        number = FIELDS.get(self.field) == "number"
        one = {"field": self.field, "op": self.op, "value": float(self.value) if number else self.value}
        return {"not": one} if self.negated else one


class _Said(Strict):
    """What a model says: groups that must all hold, of terms of which one must."""

    groups: Annotated[
        tuple[Annotated[tuple[_Term, ...], Field(max_length=_TERMS)], ...], Field(max_length=_GROUPS)
    ]

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        self.expression()
        return self

    def expression(self) -> Expression | None:
        """Return the checked expression; None where the model wants no filter."""
        groups = [{"or": [term.written for term in group]} for group in self.groups if group]
        return Expression.model_validate({"and": groups}) if groups else None


class Filter(ByModel):
    """Keeps a question to the chunks whose metadata an expression names.

    where: the expression, see `filtering/expressions.py`; with `by: llm`, what is used where the model gives
        nothing usable (None: no filter)
    if_empty: keep (find nothing) | relax (search without the filter, with a note); `keep` unless said, since
        a filter that a person wrote is meant
    """

    code_version: ClassVar[str] = "1"
    kind: ClassVar[str] = "filter"
    prompt: ClassVar[str] = (
        "Turn what a question demands of the documents themselves (language, day of publication, keywords, "
        "title, address) into conditions; what it asks about their content is no condition. Give groups that "
        "must all hold; in a group one condition must hold. Dates are ISO dates. No condition: no groups."
    )

    where: Expression | None = None
    if_empty: IfEmpty = "keep"

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.by == "rules" and self.where is None:
            raise ValueError("a filter needs `where`, or `by: llm` with a model that writes one")
        return self

    def read(self, query: Query, index: OpenIndex) -> list[Query]:
        """Return the query, kept to the rows that the expression names.

        Raises:
            InputError: the index has no column that the study's expression reads.
        """
        if not query.text.strip():
            return [query]
        expression = self._expression(query, index)
        if expression is None:
            return [query]
        part = narrowing(expression, index)
        return [prefiltered(query, self.kind, [part], self.if_empty)] if len(index) else [query]

    def _expression(self, query: Query, index: OpenIndex) -> Expression | None:
        if self.by == "llm":
            there = [name for name in FIELDS if name in index.chunks.columns or name == "published_on"]
            user = f"Asked on: {query.asked_at or 'not known'}\n{quoted(query.text)}"

            def fits(said: _Said) -> None:
                expression = said.expression()
                for name in fields(expression) if expression else ():
                    if name not in there:
                        raise ValueError(f"the index has no column `{name}`")

            said = self.ask(query, _Said, {"groups": _schema(there)}, user, 400, fits)
            if said is not None:
                return said.expression()
        return self.where


def _schema(there: list[str]) -> dict[str, Any]:
    term = {
        "type": "object",
        "properties": {
            "field": {"type": "string", "enum": there},
            "op": {"type": "string", "enum": list(_OPS)},
            "value": {"type": "string", "maxLength": 120},
            "negated": {"type": "boolean"},
        },
        "required": ["field", "op", "value", "negated"],
        "additionalProperties": False,
    }
    group = {"type": "array", "items": term, "maxItems": _TERMS}
    return {"type": "array", "items": group, "maxItems": _GROUPS}
