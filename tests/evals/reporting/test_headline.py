from __future__ import annotations

import dataclasses
from typing import Any

import polars as pl

from evals.reporting.headline import headline
from tests.fakes.report_data import LATENCY, NDCG, SIMILARITY, board_data, report_data


def row(
    chunking: str, value: float | None, low: float | None, high: float | None, rank: int | None, **more: Any
) -> dict[str, Any]:
    return {"chunking": chunking, "value": value, "low": low, "high": high, "rank": rank, **more}


def test_a_winner_is_named_when_all_others_are_told_apart_from_it() -> None:
    data = board_data([row("a", 0.8, 0.75, 0.85, 1), row("b", 0.6, 0.5, 0.79, 2, tied=False)])
    assert headline(data) == (
        "a is the best by Semantic similarity with 0.800 [0.750–0.850] on 64 questions: "
        "every other ranked cell can be told apart from it."
    )


def test_no_winner_among_cells_that_cannot_be_told_apart() -> None:
    rows = [row("a", 0.8, 0.7, 0.9, 1)]
    rows += [row(name, 0.7, 0.6, 0.71, rank, tied=True) for rank, name in enumerate("bcde", 2)]
    rows += [row("f", 0.69, 0.6, 0.8, 6, tied=False), row("g", 0.2, 0.1, 0.3, 7, tied=False)]
    assert headline(board_data(rows)) == (
        "a leads by Semantic similarity with 0.800 [0.700–0.900], "
        "but b, c and 2 more cannot be told apart from it on 64 questions; 2 of 6 can."
    )


def test_intervals_decide_nothing() -> None:
    meeting = [row("a", 0.8, 0.7, 0.9, 1), row("b", 0.75, 0.7, 0.89, 2, tied=False)]
    assert headline(board_data(meeting)).startswith("a is the best")
    distant = [row("a", 0.8, 0.79, 0.81, 1), row("b", 0.1, 0.05, 0.2, 2, tied=True)]
    assert "but b cannot be told apart" in headline(board_data(distant))


def test_a_missing_comparison_is_never_a_win() -> None:
    text = headline(board_data([row("a", 0.8, None, None, 1), row("b", 0.1, 0.05, 0.2, 2)]))
    assert "leads by Semantic similarity with 0.800 (no interval), but b cannot be told apart" in text


def test_lower_is_better_where_the_metric_says_so() -> None:
    data = board_data([row("a", 0.2, 0.1, 0.3, 1), row("b", 0.6, 0.31, 0.8, 2, tied=False)], metric=LATENCY)
    assert headline(data).startswith("a is the best by Latency with 0.200 [0.100–0.300] s on 64 questions")


def test_cells_below_98_percent_coverage_have_no_rank_and_might_do_as_well() -> None:
    ranked = [row("a", 0.8, 0.75, 0.85, 1), row("b", 0.6, 0.5, 0.7, 2, tied=False)]
    reaching = row("c", 0.9, 0.8, 0.95, None, coverage=0.9, worst=0.7, best=0.92)
    hopeless = row("d", 0.1, 0.05, 0.2, None, coverage=0.97, worst=0.1, best=0.2)
    assert headline(board_data([*ranked, reaching])).endswith(
        "; 1 cell below 98 % coverage has no rank, and might do as well."
    )
    assert headline(board_data([*ranked, hopeless])).endswith("; 1 cell below 98 % coverage has no rank.")
    assert headline(board_data([*ranked, reaching])).startswith("a is the best")  # of the ranked ones


def test_nothing_is_ranked_when_all_lack_coverage() -> None:
    data = board_data(
        [row("a", 0.8, 0.7, 0.9, None, coverage=0.9), row("b", 0.5, 0.4, 0.6, None, coverage=0.5)]
    )
    assert headline(data) == (
        "No cell can be ranked by Semantic similarity on 64 questions: "
        "none of 2 cells has 98 % coverage (the most is 90 %)."
    )


def test_coverage_just_below_the_line_is_not_rounded_up_to_it() -> None:
    data = board_data([row("a", 0.8, 0.7, 0.9, None, coverage=0.97999)])
    assert "(the most is 97.9 %)" in headline(data)


def test_a_single_cell_is_compared_with_nothing() -> None:
    assert headline(board_data([row("a", 0.8, 0.7, 0.9, 1)])) == (
        "a · r · g has Semantic similarity 0.800 [0.700–0.900] on 64 questions, "
        "and no other ranked cell stands beside it."
    )


def test_no_ok_rows_have_no_headline_number() -> None:
    data = board_data(
        [row("a", None, None, None, None, coverage=0.0), row("b", None, None, None, None, coverage=0.0)]
    )
    assert headline(data) == (
        "No cell has a value of Semantic similarity on 64 questions: 2 cells ran without a usable result."
    )
    assert headline(board_data([])) == "No cell was run, so there is nothing to compare."


def test_cells_that_share_a_ranking_are_not_said_to_be_tied_with_each_other() -> None:
    shared = {"value": 0.8, "low": 0.75, "high": 0.85, "rank": 1, "chunking": "a"}
    rows = [{**shared, "cell": "1", "generator": "g"}, {**shared, "cell": "2", "generator": "h", "rank": 2}]
    rows.append(row("b", 0.6, 0.5, 0.7, 3, tied=False))
    assert headline(board_data(rows, metric=NDCG)).startswith("a is the best by nDCG@10")
    # An answer metric does depend on the generator.
    assert headline(board_data(rows, metric=SIMILARITY)).startswith("a · g leads by Semantic similarity")


def test_without_a_table_of_all_questions_the_headline_names_its_sample() -> None:
    data = report_data(n_questions=14)
    only = dataclasses.replace(data, leaderboard=data.leaderboard.filter(pl.col("subset") != "all"))
    assert "on 12 questions (sample of 12)" in headline(only)


def test_a_cell_without_answers_is_told_though_another_shares_its_ranking() -> None:
    shared = {"value": 0.8, "low": 0.75, "high": 0.85, "chunking": "a"}
    mute = {**shared, "cell": "1", "generator": "mute", "rank": None, "answered": 0.0}
    rows = [mute, {**shared, "cell": "2", "generator": "g", "rank": 1, "answered": 1.0}]
    rows.append(row("b", 0.6, 0.5, 0.7, 2, tied=False))
    assert headline(board_data(rows, metric=NDCG)) == (
        "a is the best by nDCG@10 with 0.800 [0.750–0.850] on 64 questions: every other ranked cell can be "
        "told apart from it; 1 cell below 98 % coverage has no rank, and might do as well."
    )
    assert headline(board_data([mute], metric=NDCG)) == (
        "No cell can be ranked by nDCG@10 on 64 questions: "
        "none of 1 cell has 98 % coverage (the most is 0 %)."
    )
