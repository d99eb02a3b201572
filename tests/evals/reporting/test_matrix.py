from __future__ import annotations

import pytest

from rag_assay.evals.reporting.charts.marks import heat
from rag_assay.evals.reporting.data import MetricInfo
from rag_assay.evals.reporting.figures.heat import effect, effect_sentence, matrix, matrix_section
from rag_assay.evals.reporting.sections import PageHeading, Table, TableFigure, Tiles
from rag_assay.evals.reporting.standings import main_subset
from tests.fakes.report_data import NDCG, board_data


def place(chunking: str, retriever: str, value: float | None, **more: object) -> dict[str, object]:
    return {
        "chunking": chunking,
        "retriever": retriever,
        "value": value,
        "cell": chunking + retriever,
        **more,
    }


def test_the_effect_of_an_axis_is_the_mean_over_the_other() -> None:
    values = {("a", "x"): 0.2, ("a", "y"): 0.4, ("b", "x"): 0.6, ("b", "y"): 0.8}
    rows = effect(values, ["a", "b"], ["x", "y"])
    assert rows.means == pytest.approx({"a": 0.3, "b": 0.7})
    assert rows.span == pytest.approx(0.4)
    assert (rows.over, rows.of) == (2, 2)


def test_a_column_with_a_gap_is_left_out_of_every_mean() -> None:
    # With y, a would seem better than b: (0.2 + 1.0) / 2 = 0.6 against 0.5; where both ran, b is better.
    rows = effect({("a", "x"): 0.2, ("a", "y"): 1.0, ("b", "x"): 0.5}, ["a", "b"], ["x", "y"])
    assert rows.means == {"a": 0.2, "b": 0.5}
    assert (rows.over, rows.of) == (1, 2)
    assert effect_sentence(rows, "chunking", "retriever", NDCG).endswith(
        "each the mean over 1 retriever of 2."
    )


def test_no_common_column_gives_no_effect() -> None:
    rows = effect({("a", "x"): 0.2, ("b", "y"): 0.5}, ["a", "b"], ["x", "y"])
    assert rows.means == {}
    assert rows.span is None
    assert "cannot be given" in effect_sentence(rows, "chunking", "retriever", NDCG)


def test_heat_follows_the_metrics_direction() -> None:
    assert [heat(v, 0.0, 1.0, True) for v in (0.0, 0.5, 1.0)] == [0, 4, 8]
    assert [heat(v, 0.0, 1.0, False) for v in (0.0, 0.5, 1.0)] == [8, 4, 0]


def test_a_matrix_leaves_uncovered_squares_uncoloured_and_out_of_its_means() -> None:
    rows = [
        place("tokens-64", "x", 0.2),
        place("tokens-64", "y", 0.4),
        place("tokens-128", "x", 0.6),
        place("tokens-128", "y", 0.9, coverage=0.5),
    ]
    data = board_data(rows, metric=NDCG)
    _, table, _ = matrix(main_subset(data), NDCG, "e", several=False)
    assert isinstance(table, Table)
    shown = [[one if isinstance(one, str) else (one.text, one.style) for one in row] for row in table.rows]
    assert shown == [
        ["tokens-64", ("0.200", "h0"), ("0.400", "h4"), ("0.200", "mean")],
        ["tokens-128", ("0.600", "h8"), ("0.900†", "low"), ("0.600", "mean")],
    ]
    (foot,) = table.foot
    assert [one.text for one in foot if isinstance(one, TableFigure)] == ["0.200", "0.400"]


def test_each_embedder_has_a_matrix_of_its_own() -> None:
    rows = [place("a", "x", 0.2, embedder="e"), place("a", "x", 0.6, embedder="f", cell="f")]
    data = board_data(rows, metric=NDCG)
    found = matrix_section(data, main_subset(data))
    assert found is not None
    (tiles,) = [one for one in found.blocks if isinstance(one, Tiles)]
    shown = []
    for heading, table, _ in tiles.groups:
        assert isinstance(heading, PageHeading)
        assert isinstance(table, Table)
        value = table.rows[0][1]
        assert isinstance(value, TableFigure)
        shown.append((heading.text, value.text))
    assert shown == [(f"{NDCG.title} · e", "0.200"), (f"{NDCG.title} · f", "0.600")]


def test_only_retrieval_metrics_have_a_matrix() -> None:
    cost = MetricInfo("c", "C", "cost", False, (0, None), "s", "")
    data = board_data([place("a", "x", 0.2)], metric=cost)
    assert matrix_section(data, main_subset(data)) is None
