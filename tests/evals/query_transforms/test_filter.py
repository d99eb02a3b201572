"""Filters: what may be written; mask and LanceDB predicate name the same rows, whatever is in them."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from rag_assay.evals.query_transforms.filter import Filter
from rag_assay.evals.query_transforms.metadata_filters.predicates import (
    MAX_DEPTH,
    MAX_NODES,
    Expression,
    compile_filter,
)
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.study.registry import RETRIEVERS
from rag_assay.warehouse.errors import InputError
from tests.evals.query_transforms.documents import ROWS, index_of, row
from tests.fakes.indexing import read_by, searched, vector_of

HOSTILE = (
    "O'Hara",
    "\\",
    "\\'",
    "''",
    "\\') OR true --",
    "'; DROP TABLE chunks; --",
    "a\nb\tc\x00",
    "%_*?",
    "🛳️\u202e",
    "`title`",
    "",
    "CAST('2020-01-01' AS DATE)",
)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    rows = [row(f"text {n} {name}", "2021-05-05", [name, "all"], name) for n, name in enumerate(HOSTILE)]
    return index_of(tmp_path_factory.mktemp("filter"), [*ROWS, *rows])


def by_predicate(index: OpenIndex, where: str) -> list[int]:
    found = index.table.search().where(where).select(["chunk_id"]).limit(10_000).to_list()
    return sorted(index.positions[one["chunk_id"]] for one in found)


TEXTS = st.one_of(
    st.sampled_from(HOSTILE), st.sampled_from(["de", "en", "Derby", "Jan"]), st.text(max_size=12)
)
DAYS = st.dates(date(2018, 1, 1), date(2024, 12, 31))
LISTS = st.lists(TEXTS, min_size=1, max_size=3)
CONDITIONS = st.one_of(
    st.builds(
        dict,
        field=st.sampled_from(["language", "title", "url"]),
        op=st.sampled_from(["=", "!=", "contains"]),
        value=TEXTS,
    ),
    st.builds(dict, field=st.sampled_from(["language", "title"]), op=st.just("in"), value=LISTS),
    st.builds(
        dict, field=st.sampled_from(["keywords", "tags"]), op=st.sampled_from(["any", "all"]), value=LISTS
    ),
    st.builds(
        dict, field=st.just("published_on"), op=st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), value=DAYS
    ),
    st.builds(
        dict,
        field=st.just("n_tokens"),
        op=st.sampled_from(["=", "<", ">="]),
        value=st.integers(-2, 9) | st.floats(-5, 9),
    ),
    st.builds(
        dict,
        field=st.sampled_from(["published_on", "keywords", "language"]),
        op=st.just("known"),
        value=st.booleans(),
    ),
)
EXPRESSIONS = st.recursive(
    CONDITIONS,
    lambda part: st.one_of(
        st.builds(lambda parts: {"and": parts}, st.lists(part, min_size=1, max_size=3)),
        st.builds(lambda parts: {"or": parts}, st.lists(part, min_size=1, max_size=3)),
        st.builds(lambda one: {"not": one}, part),
    ),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(written=EXPRESSIONS)
def test_mask_and_predicate_name_the_same_rows(index: OpenIndex, written: dict[str, Any]) -> None:
    expression = Expression.model_validate(written)
    found = compile_filter(expression, index)
    assert found.where is not None
    assert by_predicate(index, found.where) == np.flatnonzero(found.mask).tolist()
    opposite = compile_filter(Expression.model_validate({"not": written}), index) if _flat(written) else None
    assert opposite is None or (opposite.mask == ~found.mask).all()


def _flat(written: dict[str, Any]) -> bool:
    return "field" in written


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_finds_itself_and_nothing_else(index: OpenIndex, name: str) -> None:
    for written in (
        {"field": "language", "op": "=", "value": name},
        {"field": "keywords", "op": "any", "value": [name]},
        {"field": "language", "op": "in", "value": [name]},
    ):
        found = compile_filter(Expression.model_validate(written), index)
        assert by_predicate(index, str(found.where)) == [len(ROWS) + HOSTILE.index(name)]
        assert np.flatnonzero(found.mask).tolist() == [len(ROWS) + HOSTILE.index(name)]


@pytest.mark.parametrize("kind", ["dense", "bm25"])
def test_filtering_before_is_filtering_after_over_everything(index: OpenIndex, kind: str) -> None:
    written = {"and": [{"not": {"field": "language", "op": "=", "value": "en"}},
                       {"field": "published_on", "op": ">=", "value": "2022-01-01"}]}  # fmt: skip
    asked = Query("Derby in Kohlenbach, target 2030, text", vector_of("Derby in Kohlenbach"))
    (query,) = read_by(Filter.model_validate({"where": written}), asked, index)
    assert query.allowed is not None
    retriever = RETRIEVERS[kind].model_validate({"k": 1_000})
    before, everything = searched(retriever, query, index), searched(retriever, asked, index)
    kept = [row for row in everything.rows.tolist() if query.allowed[row]]
    assert before.rows.tolist() == kept
    assert 0 < len(kept) < len(everything)


WRONG = [
    ({}, "a filter needs `where`"),
    ({"where": {"field": "publisher", "op": "=", "value": "x"}}, "there is no field `publisher`"),
    ({"where": {"field": "published", "op": "=", "value": "x"}}, "did you mean `published_on`?"),
    ({"where": {"field": "keywords", "op": "=", "value": "x"}}, "`keywords` is a list: use one of any, all"),
    ({"where": {"field": "published_on", "op": "<", "value": "31 February"}}, "a date is needed"),
    ({"where": {"field": "n_tokens", "op": "<", "value": "7"}}, "a number is needed, not '7'"),
    ({"where": {"field": "language", "op": "=", "value": 7}}, "text of at most 1000 characters is needed"),
    ({"where": {"field": "language", "op": "=", "value": "\ud800"}}, "an invalid character"),
    ({"where": {"field": "language", "op": "in", "value": []}}, "takes 1 to 100 values"),
    ({"where": {"field": "language", "value": "de"}}, "use one of ="),
    ({"where": {"op": "=", "value": "de"}}, "give exactly one of `and`, `or`, `not`"),
    ({"where": {"and": []}}, "at least 1 item"),
    ({"where": {"and": [{"field": "url", "op": "known", "value": 1}]}}, "`known` takes true or false"),
    ({"where": {"nand": []}}, "Extra inputs are not permitted"),
    ({"by": "llm"}, "`by: llm` needs a `model`"),
]


@pytest.mark.parametrize(("fields", "message"), WRONG)
def test_what_cannot_be_meant_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Filter.model_validate(fields)
    assert message in str(caught.value)


def test_depth_and_size_are_bounded() -> None:
    one: dict[str, Any] = {"field": "language", "op": "=", "value": "de"}
    deep = one
    for _ in range(MAX_DEPTH - 1):
        deep = {"not": deep}
    Expression.model_validate(deep)
    for wrong in ({"not": deep}, {"and": [one] * MAX_NODES}):
        with pytest.raises(ValidationError, match="at most 8 levels and 100 parts"):
            Expression.model_validate(wrong)
    bottomless = one
    for _ in range(50_000):
        bottomless = {"not": bottomless}
    with pytest.raises(ValidationError, match="at most 8 levels"):
        Expression.model_validate(bottomless)


def test_a_column_that_the_index_lacks_is_named(index: OpenIndex) -> None:
    step = Filter.model_validate({"where": {"field": "source", "op": "=", "value": "reports"}})
    if "source" in index.chunks.columns:
        pytest.skip("indexes know the source now")
    with pytest.raises(InputError, match=r"the index has no column `source`; it has .*language"):
        read_by(step, Query("Who?"), index)


def test_nothing_left_is_empty_with_its_reason_unless_relaxed(index: OpenIndex) -> None:
    where = {"field": "published_on", "op": ">", "value": "2099-01-01"}
    (query,) = read_by(Filter.model_validate({"where": where}), Query("Who?"), index)
    assert query.allowed is not None
    assert not query.allowed.any()
    assert [(note.kind, note.status) for note in list(query.trace.notes)] == [("filter", "empty")]
    assert "published_on > 2099-01-01" in next(iter(query.trace.notes)).reason
    assert by_predicate(index, str(query.where)) == []
    (relaxed,) = read_by(Filter.model_validate({"where": where, "if_empty": "relax"}), Query("Who?"), index)
    assert relaxed.allowed is None
    assert [note.status for note in list(relaxed.trace.notes)] == ["relaxed"]


def test_filters_one_after_the_other_are_both_kept(index: OpenIndex) -> None:
    first = Filter.model_validate({"where": {"field": "language", "op": "=", "value": "de"}})
    second = Filter.model_validate(
        {"where": {"field": "published_on", "op": ">=", "value": date(2022, 9, 1) + timedelta(days=1)}}
    )
    (query,) = read_by(first, Query("Who?"), index)
    (query,) = read_by(second, query, index)
    assert np.flatnonzero(query.allowed).tolist() == [1, 2, 3, 4]  # type: ignore[arg-type]
    assert by_predicate(index, str(query.where)) == [1, 2, 3, 4]
