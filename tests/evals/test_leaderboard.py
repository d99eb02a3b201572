"""Cells are compared on the same questions, a failure is no value, ties share a rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

from evals import leaderboard
from evals.leaderboard import subsets
from evals.measuring import get_metric
from evals.study import Cell
from tests.fakes.tiny import partial_study
from warehouse.parquet import frame
from warehouse.schemas import LEADERBOARD, SCORES, Status

STUDY = partial_study(study="s", seed=7, metrics=("ndcg@10",))


def cell(name: str, sample: int | None = None) -> Cell:
    return Cell("s", "t16", "minilm", name, "gen", sample)


def scores(values: Sequence[float | None], metric: str = "ndcg@10", first: int = 0) -> pl.DataFrame:
    rows: list[dict[str, object]] = [
        {
            "question_id": f"q{number:03}",
            "metric": metric,
            "status": str(Status.OK if value is not None else Status.TIMEOUT),
            "value": value,
            "reason": None if value is not None else "no answer within 1 s",
        }
        for number, value in enumerate(values, first)
    ]
    return frame(rows, SCORES)


def board(found: dict[Cell, pl.DataFrame], metric: str = "ndcg@10") -> dict[tuple[str, str], dict[str, Any]]:
    """Return the rows of the leaderboard by subset and retriever."""
    rows: list[dict[str, Any]] = []
    for subset, ids in subsets(STUDY, found).items():
        rows += leaderboard._compare(STUDY, get_metric(metric), subset, ids, found)
    rows = leaderboard._with_ranks(rows, get_metric(metric))
    assert frame(rows, LEADERBOARD).height == len(rows)
    return {(row["subset"], row["retriever"]): row for row in rows}


def test_means_intervals_and_ranks_by_hand() -> None:
    rows = board({cell("a"): scores([1, 0, 0, 0]), cell("b"): scores([1, 1, 1, 0])})
    a, b = rows["all", "a"], rows["all", "b"]
    assert (a["value"], a["n"], a["coverage"], a["rank"]) == (0.25, 4, 1.0, 2)
    assert (b["value"], b["n"], b["coverage"], b["rank"]) == (0.75, 4, 1.0, 1)
    assert b["low"] <= 0.75 <= b["high"]
    assert (a["worst"], a["best"]) == (0.25, 0.25)


def test_equal_values_share_a_rank() -> None:
    third = [0.1, 0.2, 0.3]
    rows = board(
        {
            cell("d"): scores([0, 0, 0]),
            cell("c"): scores(third[::-1]),  # the same mean but for the last binary digit, perhaps
            cell("b"): scores(third),
            cell("a"): scores([1, 1, 1]),
        }
    )
    assert {name: row["rank"] for (_, name), row in rows.items()} == {"a": 1, "b": 2, "c": 2, "d": 4}


def test_a_tie_at_the_top_is_1_1_3() -> None:
    values = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [0.0, 0.0]}
    rows = board({cell(name): scores(found) for name, found in values.items()})
    assert [rows["all", name]["rank"] for name in "abc"] == [1, 1, 3]


def test_a_failed_value_is_neither_zero_nor_gone() -> None:
    rows = board({cell("a"): scores([1.0, None, None, None]), cell("b"): scores([0.5] * 4)})
    a = rows["all", "a"]
    assert (a["value"], a["n"], a["coverage"]) == (1.0, 4, 0.25)
    assert (a["worst"], a["best"]) == (0.25, 1.0)
    assert a["rank"] is None
    assert rows["all", "b"]["rank"] == 1


@pytest.mark.parametrize(("missing", "rank"), [(2, 1), (3, None)])
def test_below_98_percent_a_cell_has_no_rank(missing: int, rank: int | None) -> None:
    values: list[float | None] = [1.0] * (100 - missing) + [None] * missing
    rows = board({cell("a"): scores(values), cell("b"): scores([0.5] * 100)})
    assert rows["all", "a"]["rank"] == rank
    assert rows["all", "b"]["rank"] == (2 if rank else 1)


def test_without_any_value_there_is_no_mean() -> None:
    rows = board({cell("a"): scores([None, None]), cell("b"): scores([0.5, 0.5])})
    a = rows["all", "a"]
    assert (a["value"], a["low"], a["high"], a["rank"]) == (None, None, None, None)
    assert (a["n"], a["coverage"], a["worst"], a["best"]) == (2, 0.0, 0.0, 1.0)


def test_where_less_is_better() -> None:
    values: dict[str, list[float | None]] = {"slow": [2.0, 4.0], "fast": [1.0, 1.0], "gappy": [0.5, None]}
    found = {cell(name): scores(value, "answer_latency") for name, value in values.items()}
    rows = board(found, "answer_latency")
    assert (rows["all", "fast"]["rank"], rows["all", "slow"]["rank"]) == (1, 2)
    gappy = rows["all", "gappy"]
    assert (gappy["rank"], gappy["best"], gappy["worst"]) == (
        None,
        0.25,
        None,
    )  # a latency has no upper bound


def test_the_bounds_of_the_metric_make_the_worst_case() -> None:
    rows = board({cell("a"): scores([0.5, None], "semantic_similarity")}, "semantic_similarity")
    assert (rows["all", "a"]["worst"], rows["all", "a"]["best"]) == (-0.25, 0.75)


def test_a_sampled_cell_is_compared_on_its_sample_only() -> None:
    everything = [1.0, 0, 1.0, 0, 0, 0]
    found = {
        cell("full"): scores(everything),
        cell("part", sample=2): scores([0.5, 0.5], first=2),
        cell("other", sample=3): scores([1.0, 1.0, 1.0]),
    }
    rows = board(found)
    assert set(rows) == {
        ("all", "full"),
        ("sample of 2", "full"),
        ("sample of 2", "part"),
        ("sample of 3", "full"),
        ("sample of 3", "other"),
    }
    assert rows["all", "full"]["n"] == 6
    full, part = rows["sample of 2", "full"], rows["sample of 2", "part"]
    assert (full["n"], part["n"]) == (2, 2)
    assert full["value"] == pytest.approx(0.5)  # its values on q002 and q003
    assert (full["rank"], part["rank"]) == (1, 1)
    assert rows["sample of 3", "full"]["value"] == pytest.approx(2 / 3)
    assert {row["n"] for (subset, _), row in rows.items() if subset == "sample of 3"} == {3}


def test_only_samples_have_no_subset_of_all() -> None:
    assert list(subsets(STUDY, {cell("a", sample=2): scores([1.0, 1.0])})) == ["sample of 2"]


def test_equal_questions_give_equal_intervals() -> None:
    rows = board({cell("a"): scores([0.0, 1.0, 0.5] * 9), cell("b"): scores([0.0, 1.0, 0.5] * 9)})
    a, b = rows["all", "a"], rows["all", "b"]
    assert (a["low"], a["high"]) == (b["low"], b["high"])
