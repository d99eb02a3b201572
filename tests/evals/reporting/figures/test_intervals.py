from __future__ import annotations

import re

import pytest

from rag_assay.evals.reporting.charts.marks import Scale, domain
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.display import number
from rag_assay.evals.reporting.figures.bars import intervals_figure, small_bars
from rag_assay.evals.reporting.sections import TableFigure
from rag_assay.evals.reporting.standings import entries, main_subset
from tests.fakes.report_data import NDCG, SIMILARITY, board_data, report_data


@pytest.fixture(scope="module")
def data() -> ReportData:
    return report_data()


def test_every_entry_stands_at_its_values_in_order(data: ReportData) -> None:
    found = [one for one in entries(data, main_subset(data)) if one.result.value is not None]
    drawn = intervals_figure(data, found, 24)
    assert drawn is not None
    ends = [end for one in found for end in (one.result.value, one.result.low, one.result.high)]
    ends += [end for one in found if not one.result.covered for end in (one.result.worst, one.result.best)]
    scale = Scale(*domain(ends, NDCG.bounds), left=1.0, right=99.0)
    for entry, (name, chart, figure) in zip(found, drawn.rows, strict=True):
        assert isinstance(name, TableFigure)
        assert isinstance(chart, TableFigure)
        assert isinstance(figure, TableFigure)
        assert name.text == entry.label
        assert figure.text.rstrip("† ≈=") == number(entry.result.value)
        assert f'x="{scale.at(entry.result.value or 0.0)}%" y="11"' in chart.drawn
        if entry.result.covered:
            assert f'x1="{scale.at(entry.result.low or 0.0)}%"' in chart.drawn
    places = [chart.drawn for _, chart, _ in drawn.rows if isinstance(chart, TableFigure)]
    assert sum('class="mark dot leader"' in one for one in places) == 1
    assert drawn.row_styles == {0: "first"}
    assert all(0 <= float(at) <= 100 for at in re.findall(r'<text x="(.*?)%"', drawn.columns[1].drawn))
    bars = small_bars(data.primary, found)
    assert {cell for entry in found for cell in entry.cells} == set(bars)


def test_one_value_alone_still_has_a_scale() -> None:
    data = board_data([{"chunking": "a", "value": 1.0, "low": 1.0, "high": 1.0, "rank": 1}], metric=NDCG)
    drawn = intervals_figure(data, entries(data, main_subset(data)), 1)
    assert drawn is not None
    (chart,) = [row[1] for row in drawn.rows]
    assert isinstance(chart, TableFigure)
    assert re.search(r'<line x1="(\S+)%" x2="\1%"', chart.drawn)


def test_no_value_has_no_chart() -> None:
    data = board_data([{"chunking": "a", "coverage": 0.0}], metric=SIMILARITY)
    assert intervals_figure(data, entries(data, main_subset(data)), 1) is None
    assert small_bars(SIMILARITY, entries(data, main_subset(data))) == {}
