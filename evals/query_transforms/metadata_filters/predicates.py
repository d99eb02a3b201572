"""Compiles an expression to a row mask and to LanceDB and DuckDB predicates."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from datetime import date
from functools import reduce
from typing import Any, cast

import numpy as np
import polars as pl

from rag_assay.evals.query_transforms.metadata_filters.expressions import FIELDS, Expression, Scalar
from rag_assay.evals.query_transforms.metadata_filters.prefilter import Prefilter, date_literal, text_literal
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.warehouse.errors import InputError

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SQL_OPS = {"=": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_TYPES: dict[str, pl.DataType | type[pl.DataType]] = {
    "text": pl.String,
    "list": pl.List(pl.String),
    "date": pl.Date,
    "number": pl.Float64,
}


def compile_filter(expression: Expression, index: OpenIndex) -> Prefilter:
    """Compile an expression for an index.

    Raises:
        InputError: the index has no such column.
    """
    names = sorted(set(fields(expression)))
    there = index.stored.names
    missing = [name for name in names if name not in there]
    if missing:
        known = ", ".join(name for name in FIELDS if name in there)
        raise InputError(f"filter: the index has no column `{missing[0]}`; it has {known}")
    frame = pl.DataFrame([index.column(name).cast(_TYPES[FIELDS[name]]) for name in names])
    mask = frame.select(mask_of(expression).alias("mask"))["mask"].to_numpy().astype(np.bool_)
    return Prefilter(mask, lance_predicate(expression), words(expression))


def fields(expression: Expression) -> Iterable[str]:
    """Yield the fields that an expression reads."""
    if expression.field is not None:
        yield expression.field
    for part in children(expression):
        yield from fields(part)


def children(expression: Expression) -> tuple[Expression, ...]:
    """Return the parts of `and`, `or` and `not`."""
    return expression.and_ or expression.or_ or ((expression.not_,) if expression.not_ else ())


def mask_of(expression: Expression) -> pl.Expr:
    """Return the expression for polars; never NULL."""
    parts = [mask_of(part) for part in children(expression)]
    if expression.and_:
        return reduce(lambda a, b: a & b, parts)
    if expression.or_:
        return reduce(lambda a, b: a | b, parts)
    if expression.not_:
        return ~parts[0]
    column = pl.col(expression.field or "")
    if expression.op == "known":
        return column.is_not_null() == pl.lit(expression.value)
    return _condition(column, expression).fill_null(value=False)


def _condition(column: pl.Expr, expression: Expression) -> pl.Expr:
    values = [_literal(value) for value in expression.values()]
    op = expression.op or ""
    if op in _COMPARE:
        return cast("pl.Expr", _COMPARE[op](column, values[0]))
    if op == "in":
        return pl.any_horizontal(*[column == value for value in values])
    if op == "contains":
        return column.str.contains(values[0], literal=True)
    joined = pl.any_horizontal if op == "any" else pl.all_horizontal
    return joined(*[column.list.contains(value) for value in values])


def _literal(value: Scalar) -> pl.Expr:
    if isinstance(value, date):
        return pl.lit(value, pl.Date)
    return pl.lit(value, pl.String) if isinstance(value, str) else pl.lit(float(value), pl.Float64)


def lance_predicate(expression: Expression) -> str:
    """Return the expression as a LanceDB predicate, which takes no parameters: values are literals that
    cannot end themselves."""
    return _sql(expression, _literal_of)


def duckdb_predicate(expression: Expression) -> tuple[str, list[Scalar]]:
    """Return the expression as a condition for DuckDB, and the values of its `?` in their order.

    >>> duckdb_predicate(Expression.model_validate({"field": "title", "op": "=", "value": "'; --"}))
    ('(title IS NOT NULL AND title = ?)', ["'; --"])
    """
    bound: list[Scalar] = []

    def bind(value: Scalar) -> str:
        bound.append(value if isinstance(value, date | str) else float(value))
        return "?"

    return _sql(expression, bind), bound


def _sql(expression: Expression, write: Callable[[Scalar], str]) -> str:
    """Return SQL whose columns and operators come from fixed lists; ``write`` puts the values in."""
    parts = [_sql(part, write) for part in children(expression)]
    if expression.and_:
        return "(" + " AND ".join(parts) + ")"
    if expression.or_:
        return "(" + " OR ".join(parts) + ")"
    if expression.not_:
        return f"(NOT {parts[0]})"
    column = expression.field or ""
    if expression.op == "known":
        return f"({column} IS {'NOT NULL' if expression.value else 'NULL'})"
    # Two-valued on purpose: `NOT NULL` would be NULL, and lose rows that the mask keeps.
    return f"({column} IS NOT NULL AND {_sql_condition(column, expression, write)})"


def _sql_condition(column: str, expression: Expression, write: Callable[[Scalar], str]) -> str:
    values = [write(value) for value in expression.values()]
    op = expression.op or ""
    if op in _SQL_OPS:
        return f"{column} {_SQL_OPS[op]} {values[0]}"
    if op == "in":
        return f"{column} IN ({', '.join(values)})"
    if op == "contains":
        return f"strpos({column}, {values[0]}) > 0"
    joiner = " OR " if op == "any" else " AND "
    return "(" + joiner.join(f"array_has({column}, {value})" for value in values) + ")"


def _literal_of(value: Scalar) -> str:
    if isinstance(value, date):
        return date_literal(value)
    if isinstance(value, str):
        return text_literal(value)
    return f"CAST({text_literal(repr(float(value)))} AS DOUBLE)"


def words(expression: Expression) -> str:
    """Write an expression for a note."""
    parts = [words(part) for part in children(expression)]
    if expression.not_:
        return f"not {parts[0]}"
    if parts:
        return "(" + (" and " if expression.and_ else " or ").join(parts) + ")"
    return f"{expression.field} {expression.op} {expression.value}"
