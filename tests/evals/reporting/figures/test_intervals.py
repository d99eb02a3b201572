from __future__ import annotations

import pytest

from rag_assay.evals.reporting.charts.marks import Mark
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.figures.bars import intervals_figure, small_bars
from rag_assay.evals.reporting.standings import entries, main_subset
from tests.fakes.report_data import NDCG, SIMILARITY, board_data, report_data


@pytest.fixture(scope="module")
def data() -> ReportData:
    return report_data()


def test_every_entry_stands_at_its_values_in_order(data: ReportData) -> None:
    found = [one for one in entries(data, main_subset(data)) if one.result.value is not None]
    drawn = intervals_figure(data, found, 24)
    assert drawn is not None
    (column,) = drawn.columns
    marks = [row.marks[0] for row in drawn.rows]
    for entry, row, mark in zip(found, drawn.rows, marks, strict=True):
        assert row.full == entry.label
        assert isinstance(mark, Mark)
        assert mark.value == entry.result.value
        assert mark.at == column.scale.at(mark.value)
        assert mark.left is not None
        assert mark.right is not None
        assert column.scale.left <= mark.left <= mark.at <= mark.right <= column.scale.right
        if entry.result.covered:
            assert mark.left == column.scale.at(entry.result.low or 0.0)
    assert [one.style for one in marks if isinstance(one, Mark)].count("leader") == 1
    assert drawn.rows[0].emphasis
    assert all(column.scale.left <= tick.at <= column.scale.right for tick in column.ticks)
    bars = small_bars(data.primary, found)
    assert {cell for entry in found for cell in entry.cells} == set(bars)


def test_one_value_alone_still_has_a_scale() -> None:
    data = board_data([{"chunking": "a", "value": 1.0, "low": 1.0, "high": 1.0, "rank": 1}], metric=NDCG)
    drawn = intervals_figure(data, entries(data, main_subset(data)), 1)
    assert drawn is not None
    scale = drawn.columns[0].scale
    assert scale.low < 1.0 <= scale.high


def test_no_value_has_no_chart() -> None:
    data = board_data([{"chunking": "a", "coverage": 0.0}], metric=SIMILARITY)
    assert intervals_figure(data, entries(data, main_subset(data)), 1) is None
    assert small_bars(SIMILARITY, entries(data, main_subset(data))) == {}
