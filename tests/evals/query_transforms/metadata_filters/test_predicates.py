"""An expression names the same rows in LanceDB, in DuckDB, in its mask, and by plain Python over the rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_assay.evals.query_transforms.metadata_filters.predicates import (
    MAX_TEXT,
    MAX_VALUES,
    Expression,
    compile_filter,
)
from rag_assay.evals.retrieval.index import OpenIndex
from tests.evals.query_transforms.documents import index_of, row

HOSTILE = (
    *(
        "O'Hara",
        "\\",
        "\\'",
        "''",
        "'",
        "\\') OR true --",
        "'; DROP TABLE chunks; --",
        "%",
        "_",
        "%_*?",
        "$1",
        "?",
    ),
    *(
        "a\nb\tc\x00",
        "\x00",
        "🛳️\u202e",
        "ü",
        "u\u0308",
        "Ü",
        "`title`",
        '"',
        "",
        " ",
        "{0}",
        "E'\\n'",
        "NULL",
    ),
    *("CAST('2020-01-01' AS DATE)", "/*", "*/", "\ufeffx", "'||'", "\U0001f600" * 3),
)
DAYS = (None, "2018-12-31", "2021-05-05", "2024-02-29T23:59:59+02:00", "not a day")
COLUMNS = ("language", "title", "url", "keywords", "tags", "published_on", "n_tokens", "ordinal", "doc_id")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    rows = [
        row(f"text {name} {'word ' * n}", DAYS[n % len(DAYS)], [name, "all"] if n % 4 else None, name)
        for n, name in enumerate(HOSTILE)
    ]
    rows.append(row("no language", "2020-01-01", [], None))
    return index_of(tmp_path_factory.mktemp("predicates"), rows)


CONDITIONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "in": lambda a, b: a in b,
    "contains": lambda a, b: b in a,
    "any": lambda a, b: any(one in a for one in b),
    "all": lambda a, b: all(one in a for one in b),
}


def holds(written: dict[str, Any], values: dict[str, Any]) -> bool:
    """Evaluate an expression for one row, as its documentation says it."""
    if "and" in written:
        return all(holds(part, values) for part in written["and"])
    if "or" in written:
        return any(holds(part, values) for part in written["or"])
    if "not" in written:
        return not holds(written["not"], values)
    value = values[written["field"]]
    if written["op"] == "known":
        return (value is not None) == written["value"]
    return value is not None and CONDITIONS[written["op"]](value, written["value"])


def check(written: dict[str, Any], index: OpenIndex) -> list[int]:
    expression = Expression.model_validate(written)
    found = compile_filter(expression, index)
    by_python = [n for n, values in enumerate(index.chunks.iter_rows(named=True)) if holds(written, values)]
    assert np.flatnonzero(found.mask).tolist() == by_python
    assert found.where is not None
    hits = index.table.search().where(found.where).select(["chunk_id"]).limit(10_000).to_list()
    assert sorted(index.positions[hit["chunk_id"]] for hit in hits) == by_python
    return by_python


TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=8))
LISTS = st.lists(TEXTS, min_size=1, max_size=4)
ORDERED = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
LEAVES = st.one_of(
    st.builds(dict, field=st.sampled_from(["language", "title", "url", "doc_id"]),
              op=st.sampled_from(["=", "!=", "contains"]), value=TEXTS),
    st.builds(dict, field=st.sampled_from(["language", "title"]), op=st.just("in"), value=LISTS),
    st.builds(dict, field=st.sampled_from(["keywords", "tags"]), op=st.sampled_from(["any", "all"]),
              value=LISTS),
    st.builds(dict, field=st.just("published_on"), op=ORDERED,
              value=st.dates(date(1, 1, 1), date(9999, 12, 31))),
    st.builds(dict, field=st.just("published_on"), op=ORDERED,
              value=st.sampled_from([date(2018, 12, 31), date(2021, 5, 5), date(2024, 2, 29)])),
    st.builds(dict, field=st.sampled_from(["n_tokens", "ordinal"]), op=ORDERED,
              value=st.integers(-(2**53), 2**53) | st.integers(0, 40) | st.floats(-9, 40)),
    st.builds(dict, field=st.just("n_tokens"), op=st.just("in"),
              value=st.lists(st.integers(0, 40), min_size=1, max_size=4)),
    st.builds(dict, field=st.sampled_from(COLUMNS), op=st.just("known"), value=st.booleans()),
)  # fmt: skip
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda part: st.one_of(
        st.builds(lambda parts: {"and": parts}, st.lists(part, min_size=1, max_size=3)),
        st.builds(lambda parts: {"or": parts}, st.lists(part, min_size=1, max_size=3)),
        st.builds(lambda one: {"not": one}, part),
    ),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(written=EXPRESSIONS)
def test_both_engines_the_mask_and_plain_python_agree(index: OpenIndex, written: dict[str, Any]) -> None:
    check(written, index)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_is_a_value_and_nothing_else(name: str, index: OpenIndex) -> None:
    for field, op, value in (("language", "=", name), ("language", "in", [name])):
        assert check({"field": field, "op": op, "value": value}, index) == [HOSTILE.index(name)]
    check({"not": {"field": "keywords", "op": "any", "value": [name]}}, index)
    check({"field": "title", "op": "contains", "value": name}, index)


def test_the_largest_expression_that_may_be_written(index: OpenIndex) -> None:
    many = [f"'{n}" + "\\" * (MAX_TEXT - 10) for n in range(MAX_VALUES)]
    parts = [{"field": "keywords", "op": "any", "value": many}] * 8
    deep: dict[str, Any] = {"or": [*parts, {"field": "language", "op": "=", "value": "%"}]}
    for _ in range(6):
        deep = {"not": deep}
    assert check(deep, index) == [HOSTILE.index("%")]


WRONG = [float("nan"), float("inf"), -float("inf"), 2**54, 10**5000, True, "7", None]


@pytest.mark.parametrize("value", WRONG, ids=range(len(WRONG)))
def test_what_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"a number (?:is needed|from)"):
        Expression.model_validate({"field": "n_tokens", "op": "<", "value": value})
