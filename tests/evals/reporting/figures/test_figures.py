"""The charts of a report hold the values of its rows, of whatever study."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import polars as pl
import pytest

from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.contexts import Bought, Front
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.effects import effects
from rag_assay.evals.reporting.figures.bars import (
    full_scores_figure,
    latencies_figure,
    metrics_figure,
    stages_figure,
)
from rag_assay.evals.reporting.figures.heat import pair_figures, questions_figure
from rag_assay.evals.reporting.figures.planes import front_figure, roc_figure
from rag_assay.evals.reporting.page import render_html
from rag_assay.evals.reporting.sections import Row, Table, plain_text
from rag_assay.evals.reporting.standings import main_subset
from rag_assay.evals.statistics.raters import roc_auc
from tests.fakes.drawn import anchors, bars, coordinates, figure
from tests.fakes.judged_data import judged
from tests.fakes.report_data import HIT_RATE, LATENCY, NDCG, SIMILARITY, TOKENS, board_data, report_data

NAMES = ("<b>x</b> & \"q\" 'r'", "x" * 300, "שלום\u202e🙂" + "-" * 3, "{{ 7*7 }}")


def texts(row: Row) -> list[str]:
    """Return the texts of a row's places that have one."""
    found = [plain_text(one if isinstance(one, str) else one.text) for one in row]
    return [one for one in found if one]


def small(row: Row, at: int) -> tuple[str, ...]:
    """Return the small lines at a place of a row."""
    one = row[at]
    return () if isinstance(one, str) else one.small


@pytest.fixture(scope="module")
def data() -> ReportData:
    return dataclasses.replace(report_data(), **judged())


@pytest.fixture(scope="module")
def html(data: ReportData) -> str:
    return render_html(data)


def test_each_chart_stands_on_the_page_once(html: str) -> None:
    assert anchors(html) == {
        "chart-intervals",
        "chart-metrics",
        "chart-full-scores",
        "chart-questions",
        "chart-pair-chunking-retriever",
        "chart-pair-retriever-generator",
        "chart-latencies",
        "chart-front-1",
        "chart-front-2",
        "chart-roc",
        "chart-stages",
    }


def test_bars_are_as_long_as_the_numbers_of_the_leaderboard(data: ReportData, html: str) -> None:
    rows = bars(figure(html, "chart-metrics"))
    board = data.leaderboard.filter(pl.col("subset") == "all")
    wanted = {
        (cell, metric): value for cell, metric, value in board.select("cell", "metric", "value").iter_rows()
    }
    metrics = (NDCG.name, HIT_RATE.name, SIMILARITY.name)
    highest = dict(
        board.filter(pl.col("coverage") >= 0.98).group_by("metric").agg(pl.col("high").max()).iter_rows()
    )
    standings = main_subset(data).standings
    assert len(rows) == len(standings) == 12
    for one, (_, marks) in zip(standings, rows, strict=True):
        for metric, mark in zip(metrics, marks, strict=True):
            assert mark is not None
            start, width, shown = mark
            assert start == 0
            assert shown == pytest.approx(wanted[one.cell.key, metric], abs=0.0006)
            assert width == pytest.approx(100 * wanted[one.cell.key, metric] / highest[metric], abs=0.1)


def test_effects_are_drawn_as_they_are_written(data: ReportData, html: str) -> None:
    for table in effects(data).axes:
        title = table.axis.capitalize()
        path = f'//section[@id="effects"]//th[text()="{title}"]/ancestor::table[@class="effects"]'
        shown = bars(figure(html, "effects").xpath(path)[0])
        first = table.effects[0].found
        for at, (_, marks) in zip(table.effects[0].best_first(), shown, strict=True):
            assert marks[0] is not None
            assert marks[0][2] == pytest.approx(first.mean[at], abs=0.0006)
            assert marks[0][1] == pytest.approx(100 * first.mean[at] / np.nanmax(first.high), abs=0.1)


def test_full_scores_count_values_in_equal_contexts(data: ReportData) -> None:
    found = full_scores_figure(data, main_subset(data))
    assert found is not None
    assert [one.title for one in found.columns] == ["Chunking", "nDCG@10", "Hit rate@5"]
    cells = data.leaderboard.select("cell", "chunking", "retriever", "generator").unique()
    equal = cells.filter((pl.col("retriever") != "dense") & (pl.col("generator") == "extractive"))
    hits = data.scores.filter(pl.col("metric") == HIT_RATE.name).join(equal, on="cell")
    counts = {
        name: (full, of)
        for name, full, of in hits.group_by("chunking")
        .agg((pl.col("value") == 1).sum(), of=pl.len())
        .iter_rows()
    }
    for row in found.rows:
        name, _, share = texts(row)
        full, of = counts[name]
        assert share == f"{100 * full / of:.1f} %"
        assert small(row, 2)[-1] == f"{full} of {of}"


def test_questions_have_the_means_of_their_cells_the_hardest_first(data: ReportData) -> None:
    found = questions_figure(data, main_subset(data))
    assert found is not None
    cells = data.leaderboard.select("cell", "chunking", "retriever", "generator").unique()
    equal = cells.filter((pl.col("retriever") != "dense") & (pl.col("generator") == "extractive"))
    rows = data.scores.filter(pl.col("metric") == NDCG.name).join(equal, on="cell")
    means = {
        (question, chunking): value
        for question, chunking, value in rows.group_by("question_id", "chunking")
        .agg(pl.col("value").mean())
        .iter_rows()
    }
    ordered = []
    names = [one.title for one in found.columns[1:-1]]
    styles = []
    for row in found.rows:
        first, *squares, _ = row
        assert not isinstance(first, str)
        question = first.why.partition(":")[0]
        assert f'href="#q={question}"' in first.text
        shown = [float(one) for one in texts(row)[1:-1]]
        assert shown == pytest.approx([means[question, name] for name in names], abs=0.0006)
        ordered.append(sum(means[question, name] for name in names))
        styles += [(float(one.text), one.style) for one in squares if not isinstance(one, str)]
    assert len(ordered) == 40
    assert ordered == sorted(ordered)
    assert max(styles)[1] == "h8"


def test_two_axes_show_the_means_of_their_test(data: ReportData) -> None:
    for pair, chart in zip(effects(data).pairs, pair_figures(effects(data)), strict=True):
        for row in chart.rows:
            name, *squares, _ = texts(row)
            at = pair.levels[0].index(name)
            for column, one, shown in zip(chart.columns[1:-1], row[1:-1], squares, strict=True):
                here = pair.levels[1].index(column.title)
                assert float(shown) == pytest.approx(pair.found.means[at, here], abs=0.0006)
                assert pair.found.low[at, here] <= pair.found.means[at, here] <= pair.found.high[at, here]
                is_bold = not isinstance(one, str) and one.text.startswith("<b>")
                assert is_bold == (pair.found.best[here].level == at)


def test_generators_have_the_times_of_their_answers_alone(data: ReportData) -> None:
    found = latencies_figure(data)
    assert found is not None
    answers = data.answers.filter(pl.col("status") == "ok")
    for row in found.rows:
        name, median, p95, *_ = texts(row)
        own = answers.filter(pl.col("cell").str.ends_with("." + name))["seconds"]
        assert float(median) == pytest.approx(own.median(), abs=0.0006)
        assert float(p95) == pytest.approx(own.quantile(0.95, "linear"), abs=0.0006)
        assert small(row, 3)[-1] == f"n = {len(own)}"
        assert len(small(row, 3)) == 2, "its interval"
    without = dataclasses.replace(
        data, scores=data.scores.filter(~pl.col("metric").is_in([LATENCY.name, TOKENS.name]))
    )
    assert latencies_figure(without) is None


def test_curves_have_the_area_of_the_card(data: ReportData) -> None:
    found = roc_figure(data)
    assert found is not None
    assert data.judge_pairs is not None
    assert [one.label for one in found.lines] == [
        "sharp.right against people.points",
        "blunt.right against people.points",
    ]
    for line in found.lines:
        own = data.judge_pairs.filter(pl.col("judge") == line.label.partition(".")[0])
        auc = roc_auc(own["good"].to_numpy(), own["value"].to_numpy()).value
        places = [tuple(map(float, one.split(","))) for one in line.points.split()]
        xs, ys = ([one[at] for one in places] for at in (0, 1))
        area = float(np.trapezoid([100 - y for y in ys], xs)) / 10_000
        assert area == pytest.approx(auc, abs=0.002)
        assert line.lines[0].startswith(f"AUC {auc:.3f}")
        assert places[0] == (0.0, 100.0)
        assert places[-1] == (100.0, 0.0)
    assert "[0.700–0.900], n = 60" in found.lines[0].lines[0]
    assert {one.style for one in found.lines} == {0, 1}
    assert "sharp.right against people.points tells them best" in found.about
    assert data.judge_cards is not None
    wide = data.judge_cards.with_columns(low=pl.lit(0.4))
    coins = roc_figure(dataclasses.replace(data, judge_cards=wide))
    assert coins is not None
    assert "None is shown to be better than chance" in coins.about
    assert "tells them best" not in coins.about
    one_sided = data.judge_pairs.with_columns(good=pl.lit(value=True))
    assert roc_figure(dataclasses.replace(data, judge_pairs=one_sided)) is None
    assert roc_figure(dataclasses.replace(data, judge_pairs=None)) is None


def test_stages_sum_what_judging_took(data: ReportData) -> None:
    found = stages_figure(data)
    assert found is not None
    assert [texts(row) for row in found.rows] == [
        ["pronouns of the answer", "6", "3.750", "930", "252"],
        ["entailment", "6", "1.500", "0", "0"],
        ["answer_refusal", "2", "0.400", "20", "5"],
    ]
    assert stages_figure(dataclasses.replace(data, judgements=None)) is None


def test_points_of_a_front_lie_where_their_numbers_are() -> None:
    points = (Bought("a", 1.0, 0.2, low=0.1, high=0.3), Bought("b", 2.0, 0.6, tied=True))
    found = front_figure(Front("Recall", "Latency", "s", points, (*points, Bought("c", 2.0, 0.1))), 1)
    assert [(one.full, one.number, one.shape) for one in found.points] == [
        ("c: Recall 0.100, Latency 2.000 s", None, "disc"),
        ("a: Recall 0.200, Latency 1.000 s", 1, "disc"),
        ("b: Recall 0.600, Latency 2.000 s", 2, "diamond"),
    ]
    c, a, b = found.points
    assert a.x < b.x == c.x
    assert b.y < a.y < c.y, "the best is at the top"
    assert a.low is not None
    assert a.high is not None
    assert a.high < a.y < a.low
    assert found.lines[0].points.split()[0] == f"{a.x:.5g},{a.y:.5g}"
    many = tuple(Bought(str(n), 1.0 + n, 0.01 * (n % 7)) for n in range(500))
    crowd = front_figure(Front("Recall", "Latency", "s", many[:1], many), 1)
    assert len(crowd.points) == limits.PLANE_POINTS + 1
    assert crowd.rest.startswith("339 further points")


@pytest.mark.parametrize(
    ("unit", "costs", "words"),
    [
        ("tokens", (100.0, 6123.0), "0.400 better than a, for 61 times the tokens."),
        ("s", (0.001, 5.2343), "0.400 better than a, for 5\u202f200 times the time."),
        ("US$", (0.01, 0.0104), "0.400 better than a, for 1.0 times the price."),
        ("US$", (0.0, 0.5), "0.400 better than a, for US$ 0.5000 instead of none."),
        ("calls", (2.0, 3.0), "0.400 better than a, for 1.5 times the cost."),
    ],
)
def test_a_front_says_what_there_is_more_of(unit: str, costs: tuple[float, float], words: str) -> None:
    cheap, dear = (Bought(n, cost, v) for n, cost, v in zip("ab", costs, (0.2, 0.6), strict=True))
    assert front_figure(Front("Recall", "C", unit, (cheap, dear), (cheap, dear)), 1).about.endswith(words)


def test_the_cheapest_of_a_front_is_named_only_where_prices_differ() -> None:
    best, equal, worse = Bought("a", 0.0, 0.6), Bought("b", 0.0, 0.5), Bought("c", 1.0, 0.1)
    alone = front_figure(Front("Recall", "Price", "US$", (best,), (best, worse)), 1).about
    assert alone.endswith("a is both the cheapest and the best.")
    shared = front_figure(Front("Recall", "Price", "US$", (best,), (best, equal, worse)), 1).about
    assert shared.endswith("a is the best; none is cheaper, 1 costs the same.")
    two = Bought("a", 1.0, 0.4, tied=True), Bought("b", 2.0, 0.6, tied=True)
    assert "Of the diamonds" in front_figure(Front("Recall", "Price", "US$", two, two), 1).about
    level = Bought("c", 2.0, 0.5, tied=True)
    one = (Bought("a", 1.0, 0.4), two[1])
    assert "Of the diamonds" not in front_figure(Front("Recall", "Price", "US$", one, (*one, level)), 1).about


def turned(data: ReportData, change: Any) -> ReportData:
    """Change the values of all scores and of the leaderboard alike."""
    ends = ("value", "low", "high", "worst", "best")
    return dataclasses.replace(
        data,
        scores=data.scores.with_columns(value=change(pl.col("value"))),
        leaderboard=data.leaderboard.with_columns(**{name: change(pl.col(name)) for name in ends}),
        metrics=tuple(dataclasses.replace(one, bounds=(None, None)) for one in data.metrics),
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda value: -value,
        lambda value: pl.when(value.is_not_null()).then(0.5),
        lambda value: pl.when(value.is_not_null()).then(0.0),
        lambda value: pl.lit(None, pl.Float64),
        lambda value: pl.when(value > 0.3).then(math.nan).otherwise(value),
        lambda value: value * 1e9,
    ],
    ids=["negative", "equal", "zero", "none", "nan", "huge"],
)
def test_whatever_the_values_nothing_is_drawn_beyond_the_chart(change: Any) -> None:
    page = render_html(turned(report_data(n_questions=12, chunkings=2, retrievers=2), change))
    places = coordinates(page)
    assert places
    assert all(math.isfinite(one) for one in places)


def test_names_are_whole_escaped_and_cut(data: ReportData) -> None:
    old = data.leaderboard["chunking"].unique().sort().to_list()
    named = dict(zip(old, NAMES, strict=False))
    board = data.leaderboard.with_columns(
        chunking=pl.col("chunking").replace(named), generator=pl.lit(NAMES[3])
    )
    page = render_html(dataclasses.replace(data, leaderboard=board))
    assert "<b>x</b>" not in page
    assert "&lt;b&gt;x&lt;/b&gt; &amp;" in page
    assert "\u202e" not in page
    chart = figure(page, "chart-metrics")
    cut = [row for row in chart.xpath(".//tbody/tr/th") if row.text_content().startswith("xxx")]
    assert len(cut) == 4
    for row in cut:
        assert len(row.text_content()) <= 80
        assert row.get("title").startswith("x" * 300)
    assert "{{ 7*7 }}" in page


def test_one_cell_has_no_chart_of_several() -> None:
    one = board_data([{"chunking": "a", "value": 0.5, "low": 0.4, "high": 0.6, "rank": 1}], metric=NDCG)
    assert anchors(render_html(one)) == {"chart-intervals"}


def test_many_cells_and_metrics_leave_the_last_out_and_say_so() -> None:
    metrics = [MetricInfo(f"m{n}", f"M{n}", "answer", True, (0.0, 1.0), "", "") for n in range(12)]
    rows = [
        {"chunking": f"c{n}", "value": n / 100, "low": n / 200, "high": n / 50, "rank": 100 - n}
        for n in range(100)
    ]
    boards = [board_data(rows, metric=metric) for metric in metrics]
    data = dataclasses.replace(
        boards[0], metrics=tuple(metrics), leaderboard=pl.concat([one.leaderboard for one in boards])
    )
    found = metrics_figure(data, main_subset(data), {})
    assert isinstance(found, Table)
    assert (len(found.rows), len(found.columns)) == (limits.METRICS_ROWS, limits.METRICS_COLUMNS + 1)
    assert found.rest.startswith("70 further cells and 2 further metrics left out")
