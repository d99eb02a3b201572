"""Equal lengths of context and Pareto fronts, on the page and in the rows of a real report."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl
import pytest

from rag_assay.evals.reporting.contexts import (
    BUDGETS,
    CURVES,
    DEPTHS,
    context_words,
    contexts,
    cost_fronts,
    costs,
    costs_section,
    usd_by_cell,
)
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.effects import effect_rows, effects
from rag_assay.evals.reporting.figures.heat import effects_section
from rag_assay.evals.reporting.figures.planes import contexts_section
from rag_assay.evals.reporting.page import render_html
from rag_assay.evals.reporting.sections import plain_text
from rag_assay.evals.reporting.standings import cell_labels, main_subset
from rag_assay.evals.reporting.texts import Language
from rag_assay.evals.reporting.view import fronts_of
from tests.fakes.report_data import report_data


def curves(data: ReportData) -> pl.DataFrame:
    """Small chunks hold more of what a token can hold, and less of what a passage can."""
    chance = random.Random(7)
    rows: list[dict[str, Any]] = []
    board = data.leaderboard.filter((pl.col("subset") == "all") & (pl.col("generator") == "extractive"))
    for cell, chunking in board.select("cell", "chunking").unique().sort("cell").iter_rows():
        small = chunking == "tokens-128-42"
        for question in data.questions["question_id"].sort():
            much = chance.random()
            rows.append(
                {"cell": cell, "question_id": question}
                | {f"at_{n}": min(1.0, much * n / 4_000 * (1.5 if small else 1)) for n in BUDGETS}
                | {f"value_{n}": min(1.0, much * n / 10 * (1 if small else 2)) for n in DEPTHS}
                | {f"characters_{n}": n * (500.0 if small else 2_000.0) for n in DEPTHS}
            )
    return pl.DataFrame(rows, schema=CURVES)


@pytest.fixture(scope="module")
def data() -> ReportData:
    plain = report_data(n_questions=30)
    return dataclasses.replace(plain, contexts=curves(plain))


def test_levels_are_compared_in_each_length_of_context(data: ReportData) -> None:
    found = contexts(data)
    assert found is not None
    assert found.quality == "Evidence coverage"
    chunking = next(one for one in found.axes if one.axis == "chunking")
    assert list(chunking.budgets) == list(BUDGETS)
    assert data.contexts is not None
    cells = data.leaderboard.select("cell", "chunking").unique()
    means = data.contexts.join(cells, on="cell").group_by("chunking").agg(pl.col("at_1000").mean())
    by_hand = dict(means.iter_rows())
    at_1000 = chunking.budgets[1_000].mean.tolist()
    if not chunking.crossing.unused:
        assert dict(zip(chunking.levels, at_1000, strict=True)) == pytest.approx(by_hand)
    assert all(chunking.levels[one.best] == "tokens-128-42" for one in chunking.budgets.values())
    words = context_words(found)
    assert any("the best chunking by Evidence coverage is tokens-128-42 in 500, 1" in one for one in words)


def test_the_front_goes_from_little_context_to_much(data: ReportData) -> None:
    found = contexts(data)
    assert found is not None
    assert found.front is not None
    points = found.front.points
    assert [one.cost for one in points] == sorted(one.cost for one in points)
    assert [one.value for one in points] == sorted(one.value for one in points)
    assert points[0].cost == 125
    assert points[0].depth == 1
    assert found.front.of == len(DEPTHS) * data.contexts["cell"].n_unique()  # type: ignore[index]


def test_costs_have_fronts_and_lower_quality_may_be_better(data: ReportData) -> None:
    main, spent, usd = main_subset(data), costs(data), usd_by_cell(data)
    found = cost_fronts(data, main, spent, usd, {})
    assert {one.unit for one in found} <= {"s", "tokens", "US$"}
    for one in found:
        assert [point.value for point in one.points] == sorted(point.value for point in one.points)
    turned = tuple(dataclasses.replace(m, higher_is_better=m.kind == "cost") for m in data.metrics)
    for one in cost_fronts(dataclasses.replace(data, metrics=turned), main, spent, usd, {}):
        assert [point.value for point in one.points] == sorted((p.value for p in one.points), reverse=True)


def test_costs_that_are_all_equal_have_no_front(data: ReportData) -> None:
    main, spent = main_subset(data), costs(data)
    free = dict.fromkeys(usd_by_cell(data), 0.0)
    assert "US$" not in {one.unit for one in cost_fronts(data, main, spent, free, {})}


def test_the_page_and_the_rows_show_them(data: ReportData) -> None:
    page = render_html(data)
    assert 'id="contexts"' in page
    assert "At equal context" in page
    rows = [row for row in effect_rows(data) if row["metric"].startswith("context:")]
    assert data.contexts is not None
    assert len(rows) == len(BUDGETS) * data.contexts["cell"].n_unique()
    one = rows[0]
    own = data.contexts.filter(pl.col("cell") == one["cell"])[f"at_{one['metric'][8:]}"]
    assert one["value"] == pytest.approx(own.mean())
    assert one["n"] == len(own)


@pytest.mark.parametrize("few", [None, 0, 1])
def test_nothing_to_compare_is_not_shown(data: ReportData, few: int | None) -> None:
    assert data.contexts is not None
    cells = data.contexts["cell"].unique().sort().to_list()[: few or 0]
    kept = None if few is None else data.contexts.filter(pl.col("cell").is_in(cells))
    bare = dataclasses.replace(data, contexts=kept)
    assert contexts(bare) is None
    assert "At equal context, the best" not in render_html(bare)


def test_a_ranking_that_failed_for_a_question_is_left_out_of_its_means(data: ReportData) -> None:
    assert data.contexts is not None
    gone = data.contexts.with_row_index().filter(pl.col("index") % 7 > 0).drop("index")
    found = contexts(dataclasses.replace(data, contexts=gone))
    assert found is not None
    assert all(0 < one.n <= 30 for axis in found.axes for one in axis.budgets.values())


def _prose(found: object) -> Iterator[str]:
    """Yield every text of blocks, tooltips and what stands in tables included."""
    if isinstance(found, str):
        yield plain_text(found)
    elif isinstance(found, Mapping):
        yield from _prose(tuple(found.values()))
    elif isinstance(found, tuple | list):
        for one in found:
            yield from _prose(one)
    elif dataclasses.is_dataclass(found):
        for each in dataclasses.fields(found):
            if each.name in {"style", "short"}:  # classes, and names of the report's navigation
                continue
            yield from _prose(getattr(found, each.name))


def test_the_sections_of_the_page_compare_say_nothing_in_english_to_german_readers(
    data: ReportData,
) -> None:
    at_length, labels = contexts(data), cell_labels(data)

    def said(language: Language) -> set[str]:
        found = (
            effects_section(effects(data), language),
            contexts_section(at_length, fronts_of(data, at_length), language),
            costs_section(data, labels, {}, language),
        )
        assert all(found)
        return set(_prose(found))

    english, german = said("en"), said("de")
    names = {*labels.values(), "Hit rate@5"}  # a title that is none of ours
    same = {one for one in english & german if re.search(r"[a-z]{2,} [a-z]{2,}", one)}
    assert same - names == set()
    assert len({one for one in german if len(one) > 60}) > 15
