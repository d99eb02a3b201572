"""Compiles an expression to a row mask and to LanceDB and DuckDB predicates."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import date
from functools import reduce
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

import numpy as np
import polars as pl
from pydantic import Field, field_validator, model_validator

from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.recipe import Strict
from rag_assay.warehouse.suggestions import did_you_mean

if TYPE_CHECKING:
    import numpy.typing as npt

    from rag_assay.evals.retrieval.index import OpenIndex
    from rag_assay.evals.retrieval.query import Query, QueryInterpretation

Mask: TypeAlias = "npt.NDArray[np.bool_]"
IfEmpty = Literal["relax", "keep"]


@dataclass(frozen=True)
class Prefilter:
    """Rows that keep to a condition, shape (chunks,), and the LanceDB predicate (None: there is none)."""

    mask: Mask
    where: str | None
    words: str
    of: tuple[QueryInterpretation, ...] = ()

    def __and__(self, other: Prefilter) -> Prefilter:
        return self._joined(other, self.mask & other.mask, "and")

    def __or__(self, other: Prefilter) -> Prefilter:
        return self._joined(other, self.mask | other.mask, "or")

    def _joined(self, other: Prefilter, mask: Mask, word: str) -> Prefilter:
        where = f"({self.where}) {word.upper()} ({other.where})" if self.where and other.where else None
        return Prefilter(mask, where, f"{self.words} {word} {other.words}", (*self.of, *other.of))


def in_window(index: OpenIndex, first: date | None, last: date | None, *, undated: bool) -> Prefilter:
    days = index.days
    inside = pl.Series([True]).new_from_index(0, len(days))
    terms: list[str] = []
    if first is not None:
        inside &= days >= first
        terms.append(f"published_on >= {date_literal(first)}")
    if last is not None:
        inside &= days <= last
        terms.append(f"published_on <= {date_literal(last)}")
    where = f"(published_on IS NOT NULL AND {' AND '.join(terms)})" if terms else "true"
    where = f"({where} OR published_on IS NULL)" if undated else where
    words = " ".join([f"published from {first}" if first else "published", *([f"to {last}"] if last else [])])
    return Prefilter(inside.fill_null(undated).to_numpy().astype(np.bool_), where, words)


def prefilter_query(query: Query, kind: str, options: list[Prefilter], if_empty: IfEmpty) -> Query:
    """Narrow by the first option that leaves rows; else `relax` leaves the query, `keep` finds nothing."""
    if not options:
        return query
    strict = options[0]
    for option in options if if_empty == "relax" else options[:1]:
        allowed = option.mask if query.allowed is None else query.allowed & option.mask
        if allowed.any():
            if option is not strict:
                query.remark(kind, "relaxed", f"nothing is {strict.words}; kept: {option.words}")
            _keep(query, strict, option.of)
            return replace(query, allowed=allowed, where=_both(query, option.where))
    if if_empty == "relax":
        query.remark(kind, "relaxed", f"nothing is {strict.words}; searched without that filter")
        _keep(query, strict, ())
        return query
    query.remark(kind, "empty", f"nothing is {strict.words}")
    _keep(query, strict, strict.of)
    return replace(query, allowed=np.zeros(len(strict.mask), np.bool_), where="false")


def _keep(query: Query, strict: Prefilter, used: tuple[QueryInterpretation, ...]) -> None:
    found = (one._replace(status="used" if one in used else "relaxed") for one in strict.of)
    query.trace.include((), (), found)


def _both(query: Query, where: str | None) -> str | None:
    if query.allowed is None and query.where is None:
        return where
    return f"({query.where}) AND ({where})" if query.where and where else None


def date_literal(day: date) -> str:
    return f"CAST('{day.isoformat()}' AS DATE)"


def text_literal(text: str) -> str:
    """Return a text as LanceDB's SQL has it: quotes doubled, and nothing else is special in it.

    Not `lancedb.expr.lit(...).to_sql()`: that of 0.40 leaves a quote after a backslash or a second quote
    alone, so that a text could end its literal and go on as SQL.

    >>> text_literal("O'Hara")
    "'O''Hara'"
    """
    return "'" + text.replace("'", "''") + "'"


Type = Literal["text", "list", "date", "number"]
Op = Literal["=", "!=", "<", "<=", ">", ">=", "in", "contains", "any", "all", "known"]
FIELDS: dict[str, Type] = {
    "doc_id": "text",
    "url": "text",
    "title": "text",
    "language": "text",
    "source": "text",
    "published_on": "date",
    "keywords": "list",
    "tags": "list",
    "ordinal": "number",
    "n_tokens": "number",
    "page": "number",
}
OPS: dict[Type, tuple[Op, ...]] = {
    "text": ("=", "!=", "in", "contains", "known"),
    "list": ("any", "all", "known"),
    "date": ("=", "!=", "<", "<=", ">", ">=", "in", "known"),
    "number": ("=", "!=", "<", "<=", ">", ">=", "in", "known"),
}
MAX_DEPTH, MAX_NODES, MAX_VALUES, MAX_TEXT = 8, 100, 100, 1_000
Scalar = str | int | float | date


class Expression(Strict):
    """One of: a condition (`field`, `op`, `value`), `and`, `or` (lists of expressions), `not` (one).

    and, or: lists of expressions; at most 8 levels and 100 parts
    not: an expression
    field: doc_id, url, title, language, source, published_on, keywords, tags, ordinal, n_tokens or page
    value: that the field is compared with; an unknown value of a field meets no condition
    op: = != < <= > >= · in (one of a list) · contains (a piece of text, as written) · any, all (of a list,
        for keywords and tags) · known (value true or false)
    """

    and_: Annotated[tuple[Expression, ...] | None, Field(alias="and", min_length=1, max_length=MAX_NODES)] = (
        None
    )
    or_: Annotated[tuple[Expression, ...] | None, Field(alias="or", min_length=1, max_length=MAX_NODES)] = (
        None
    )
    not_: Annotated[Expression | None, Field(alias="not")] = None
    field: str | None = None
    op: Op | None = None
    value: object = None

    @model_validator(mode="before")
    @classmethod
    def _within_bounds(cls, value: Any) -> Any:
        # Counted before anything is built, level by level: a deep value must not reach the parser's limit.
        level, depth, nodes = [value], 0, 0
        while level:
            depth, nodes = depth + 1, nodes + len(level)
            if depth > MAX_DEPTH or nodes > MAX_NODES:
                raise ValueError(f"an expression has at most {MAX_DEPTH} levels and {MAX_NODES} parts")
            level = [part for one in level for part in _parts(one)]
        return value

    @field_validator("field")
    @classmethod
    def _is_known(cls, name: str | None) -> str | None:
        if name is None or name in FIELDS:
            return name
        raise ValueError(f"there is no field `{name[:60]}`; {did_you_mean(name, FIELDS)}")

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        forms = [self.and_ is not None, self.or_ is not None, self.not_ is not None, self.field is not None]
        if sum(forms) != 1:
            raise ValueError("give exactly one of `and`, `or`, `not`, or a `field` with `op` and `value`")
        if self.field is None:
            if self.op is not None or self.value is not None:
                raise ValueError("`op` and `value` go with a `field`")
            return self
        self._check(FIELDS[self.field])
        return self

    def _check(self, kind: Type) -> None:
        if self.op not in OPS[kind]:
            raise ValueError(f"`{self.field}` is a {kind}: use one of {', '.join(OPS[kind])}")
        if self.op == "known":
            if not isinstance(self.value, bool):
                raise ValueError("`known` takes true or false")
            return
        self.values()

    def values(self) -> list[Scalar]:
        many = self.op in {"in", "any", "all"}
        listed = self.value if many and isinstance(self.value, list | tuple) else [self.value]
        if not 1 <= len(listed) <= MAX_VALUES:
            raise ValueError(f"`{self.op}` takes 1 to {MAX_VALUES} values")
        return [_typed(one, FIELDS[self.field or ""]) for one in listed]


def _parts(value: Any) -> list[Any]:
    if not isinstance(value, dict):
        return []
    found: list[Any] = []
    for name in ("and", "or"):
        if isinstance(value.get(name), list | tuple):
            found += value[name]
    return [*found, value["not"]] if value.get("not") is not None else found


def _typed(value: Any, kind: Type) -> Scalar:
    if kind == "date":
        if isinstance(value, date):
            return date(value.year, value.month, value.day)
        try:
            return date.fromisoformat(value)
        except (TypeError, ValueError):
            raise ValueError(f"a date is needed, as in 2024-05-31, not {str(value)[:60]!r}") from None
    if kind == "number":
        return _number(value)
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise ValueError(
            f"text of at most {MAX_TEXT} characters is needed (in quotes, if it looks like a number)"
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the text has an invalid character ({error.reason})") from error
    return value


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"a number is needed, not {str(value)[:60]!r}")  # noqa: TRY004 -- for pydantic
    if not -(2**53) <= value <= 2**53:  # NaN too; a float holds every whole number up to there
        raise ValueError("a number from -2^53 to 2^53 is needed")
    return value


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compile_filter(expression: Expression, index: OpenIndex) -> Prefilter:
    names = sorted(set(fields(expression)))
    there = index.stored.names
    missing = [name for name in names if name not in there]
    if missing:
        known = ", ".join(name for name in FIELDS if name in there)
        raise InputError(f"filter: the index has no column `{missing[0]}`; it has {known}")
    strings = pl.List(pl.String)
    types: dict[str, Any] = {"text": pl.String, "list": strings, "date": pl.Date, "number": pl.Float64}
    frame = pl.DataFrame([index.column(name).cast(types[FIELDS[name]]) for name in names])
    mask, where, words = _compiled(expression)
    rows = frame.select(mask.alias("mask"))["mask"].to_numpy().astype(np.bool_)
    return Prefilter(rows, where, words)


def fields(expression: Expression) -> Iterable[str]:
    if expression.field is not None:
        yield expression.field
    for part in children(expression):
        yield from fields(part)


def children(expression: Expression) -> tuple[Expression, ...]:
    return expression.and_ or expression.or_ or ((expression.not_,) if expression.not_ else ())


def _compiled(expression: Expression) -> tuple[pl.Expr, str, str]:
    parts = [_compiled(part) for part in children(expression)]
    if parts:
        masks, wheres, said = zip(*parts, strict=True)
        if expression.not_:
            return ~masks[0], f"(NOT {wheres[0]})", f"not {said[0]}"
        join, word = (operator.and_, " and ") if expression.and_ else (operator.or_, " or ")
        return reduce(join, masks), f"({word.upper().join(wheres)})", f"({word.join(said)})"
    name = expression.field or ""
    words = f"{name} {expression.op} {expression.value}"
    if expression.op == "known":
        mask = pl.col(name).is_not_null() == pl.lit(expression.value)
        return mask, f"({name} IS {'NOT NULL' if expression.value else 'NULL'})", words
    mask, where = _condition(name, expression)
    # Two-valued on purpose: `NOT NULL` would be NULL, and lose rows that the mask keeps.
    return mask.fill_null(value=False), f"({name} IS NOT NULL AND {where})", words


def _condition(name: str, expression: Expression) -> tuple[pl.Expr, str]:
    column, op = pl.col(name), expression.op or ""
    literals, written = zip(*map(_literal, expression.values()), strict=True)
    if op in _COMPARE:
        compared: pl.Expr = _COMPARE[op](column, literals[0])
        return compared, f"{name} {'<>' if op == '!=' else op} {written[0]}"
    if op == "in":
        return pl.any_horizontal(*[column == one for one in literals]), f"{name} IN ({', '.join(written)})"
    if op == "contains":
        return column.str.contains(literals[0], literal=True), f"strpos({name}, {written[0]}) > 0"
    joined, joiner = (pl.any_horizontal, " OR ") if op == "any" else (pl.all_horizontal, " AND ")
    held = joiner.join(f"array_has({name}, {one})" for one in written)
    return joined(*[column.list.contains(one) for one in literals]), f"({held})"


def _literal(value: Scalar) -> tuple[pl.Expr, str]:
    if isinstance(value, date):
        return pl.lit(value, pl.Date), date_literal(value)
    if isinstance(value, str):
        return pl.lit(value, pl.String), text_literal(value)
    return pl.lit(float(value), pl.Float64), f"CAST({text_literal(repr(float(value)))} AS DOUBLE)"
