"""Prefilters: the rows of an index that a query may find."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query, QueryInterpretation

Mask = npt.NDArray[np.bool_]
IfEmpty = Literal["relax", "keep"]


@dataclass(frozen=True)
class Prefilter:
    """A condition on rows.

    mask: the rows that keep to it, shape (chunks,)
    where: the same as a LanceDB predicate; None: it cannot be said in one
    """

    mask: Mask
    where: str | None
    words: str
    of: tuple[QueryInterpretation, ...] = ()

    def __and__(self, other: Prefilter) -> Prefilter:
        where = f"({self.where}) AND ({other.where})" if self.where and other.where else None
        both = (*self.of, *other.of)
        return Prefilter(self.mask & other.mask, where, f"{self.words} and {other.words}", both)

    def __or__(self, other: Prefilter) -> Prefilter:
        where = f"({self.where}) OR ({other.where})" if self.where and other.where else None
        both = (*self.of, *other.of)
        return Prefilter(self.mask | other.mask, where, f"{self.words} or {other.words}", both)


def in_window(index: OpenIndex, first: date | None, last: date | None, *, undated: bool) -> Prefilter:
    """Keep what was published from ``first`` to ``last``, both included; rows without a date if asked."""
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
    """Narrow the query by the first of the options that leaves something.

    options: strictest first; where none of them leaves a row, the query stays as it was (`relax`) or finds
        nothing (`keep`), each with a note. What was understood for the strictest is then used or relaxed.
    """
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
    """Return a day as LanceDB's SQL has it.

    >>> date_literal(date(2024, 2, 29))
    "CAST('2024-02-29' AS DATE)"
    """
    return f"CAST('{day.isoformat()}' AS DATE)"


def text_literal(text: str) -> str:
    """Return a text as LanceDB's SQL has it: quotes doubled, and nothing else is special in it.

    Not `lancedb.expr.lit(...).to_sql()`: that of 0.40 leaves a quote after a backslash or a second quote
    alone, so that a text could end its literal and go on as SQL.

    >>> text_literal("O'Hara")
    "'O''Hara'"
    """
    return "'" + text.replace("'", "''") + "'"
