"""Cells are compared on the same questions, a failure is no value, ties share a rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

from rag_assay.evals.generation.no_context import NoContext, OracleContext
from rag_assay.evals.statistics.board import board_rows, subsets
from rag_assay.evals.statistics.question_clusters import ALONE, Clustering
from rag_assay.evals.study.cells import Cell
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import LEADERBOARD, SCORES, Status
from tests.fakes.tiny import partial_study

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


def board(
    found: dict[Cell, pl.DataFrame], metric: str = "ndcg@10", shares: Mapping[str, float | None] | None = None
) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the rows of the leaderboard by subset and retriever; shares: what its cell answered."""
    study = partial_study(study="s", seed=7, metrics=(metric,))
    rows = board_rows(study, found, lambda one, _ids: (shares or {}).get(one.retriever))
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
    assert list(subsets({cell("a", sample=2): scores([1.0, 1.0])})) == ["sample of 2"]


def test_equal_questions_give_equal_intervals() -> None:
    rows = board({cell("a"): scores([0.0, 1.0, 0.5] * 9), cell("b"): scores([0.0, 1.0, 0.5] * 9)})
    a, b = rows["all", "a"], rows["all", "b"]
    assert (a["low"], a["high"]) == (b["low"], b["high"])


def test_cells_are_compared_in_pairs_and_not_by_their_intervals() -> None:
    hard = [0.02 * number for number in range(50)]  # questions differ far more than cells do
    rows = board(
        {
            cell("best"): scores([value + 0.06 for value in hard]),
            cell("good"): scores([value + 0.03 + 0.001 * (number % 3) for number, value in enumerate(hard)]),
            cell("same"): scores([value + 0.06 + 0.06 * (-1) ** number for number, value in enumerate(hard)]),
        }
    )
    best, good, same = (rows["all", name] for name in ("best", "good", "same"))
    assert good["high"] > best["low"], "the intervals meet"
    assert (good["tied"], same["tied"], best["tied"]) == (False, True, True)
    assert good["p"] < 0.01
    assert same["p"] > 0.05
    assert best["p"] is None
    assert {row["leader"] for row in rows.values()} == {"s.t16.minilm.best.gen"}
    assert good["difference"] == pytest.approx(good["value"] - best["value"])
    assert good["difference_low"] < good["difference"] < good["difference_high"] < 0


def test_pairs_are_made_by_question_and_not_by_place() -> None:
    values = [0.1 * (number % 10) for number in range(40)]
    shuffled = scores(values).sample(fraction=1, shuffle=True, seed=1)
    rows = board({cell("a"): scores(values), cell("b"): shuffled})
    assert (rows["all", "b"]["difference"], rows["all", "b"]["p"]) == (0, 1)


def test_a_cell_with_gaps_is_compared_on_the_questions_of_both() -> None:
    values: list[float | None] = [0.5] * 100
    rows = board({cell("a"): scores([0.75] * 100), cell("b"): scores([None, *values[1:]])})
    assert rows["all", "b"]["difference"] == pytest.approx(-0.25)
    assert rows["all", "b"]["rank"] == 2
    assert rows["all", "b"]["tied"] is False


def test_what_has_no_rank_is_not_compared() -> None:
    rows = board({cell("a"): scores([1.0, 1, 1, 1]), cell("b"): scores([0.0, None, None, None])})
    b = rows["all", "b"]
    assert (b["leader"], b["difference"], b["p"], b["tied"]) == ("s.t16.minilm.a.gen", None, None, None)
    assert rows["all", "a"]["tied"] is True


def test_three_questions_tell_nothing_apart() -> None:
    rows = board({cell("a"): scores([1, 1, 1]), cell("b"): scores([0, 0, 0])})
    assert rows["all", "b"]["tied"] is True
    assert rows["all", "b"]["p"] == 0.25


def test_sampled_cells_are_compared_on_the_sample() -> None:
    found = {
        cell("full"): scores([1.0] * 20 + [0.0] * 20),
        cell("part", sample=20): scores([0.0] * 20),
        cell("poor"): scores([0.5] * 40),
    }
    rows = board(found)
    assert rows["sample of 20", "part"]["difference"] == -1
    assert rows["sample of 20", "poor"]["difference"] == -0.5
    assert rows["all", "poor"]["difference"] == 0
    assert rows["all", "poor"]["tied"] is True
    assert not rows["sample of 20", "part"]["tied"]


@pytest.mark.parametrize(("share", "rank"), [(0.0, None), (0.5, None), (0.97, None), (0.98, 1), (1.0, 1)])
def test_a_generator_without_answers_cannot_win_by_its_ranking(share: float, rank: int | None) -> None:
    found = {cell("mute"): scores([1.0] * 100), cell("plain"): scores([0.5] * 100)}
    rows = board(found, shares={"mute": share, "plain": 1.0})
    mute, plain = rows["all", "mute"], rows["all", "plain"]
    assert (mute["rank"], mute["answered"]) == (rank, share)
    assert plain["rank"] == (2 if rank else 1)
    assert (mute["value"], mute["coverage"]) == (1, 1), "its ranking is what it is"
    assert (plain["leader"] == plain["cell"]) == (rank is None)


def test_cells_that_only_retrieve_need_no_answers() -> None:
    found = {cell("alone"): scores([1.0] * 9), cell("answering"): scores([0.5] * 9)}
    rows = board(found, shares={"alone": None, "answering": 1.0})
    assert rows["all", "alone"]["rank"] == 1
    assert rows["all", "answering"]["rank"] == 2


def test_a_metric_that_applies_to_no_question_ranks_nothing() -> None:
    study = partial_study(study="s", seed=7, metrics=("evidence_coverage@5", "ndcg@10"))
    found = {cell("a"): scores([0.0] * 9), cell("b"): scores([1.0] * 9)}
    rows = board_rows(study, found, lambda *_: None)
    assert {(row["retriever"], row["metric"], row["rank"]) for row in rows} == {
        ("a", "ndcg@10", 2),
        ("b", "ndcg@10", 1),
    }
    assert {row["leader"] for row in rows} == {"s.t16.minilm.b.gen"}


def asked(name: str, *values: Sequence[float | None]) -> dict[Cell, pl.DataFrame]:
    """Return the scores of a cell's replicates."""
    replicates = cell(name).replicates(len(values))
    return {one: scores(found) for one, found in zip(replicates, values, strict=True)}


def test_the_value_of_a_question_is_the_mean_over_its_replicates() -> None:
    rows = board(asked("a", [1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0]) | asked("b", [0.25] * 4))
    a, b = rows["all", "a"], rows["all", "b"]
    assert (a["cell"], a["n"], a["value"], a["coverage"]) == ("s.t16.minilm.a.gen", 4, 0.5, 1.0)
    assert (a["replicates"], a["replicate_low"], a["replicate_high"]) == (2, 0.5, 0.5)
    assert (b["replicates"], b["replicate_low"], b["replicate_high"]) == (1, None, None)
    assert b["difference"] == pytest.approx((0.25 - 0.5 + 0.25 - 0 + 0.25 - 0.5 + 0.25 - 1) / 4)
    assert rows.keys() == {("all", "a"), ("all", "b")}, "a row a cell, however often it was asked"


def test_asking_more_often_makes_nothing_look_surer() -> None:
    values = [0.1 * (number % 7) for number in range(40)]
    other = [0.1 * (number % 5) for number in range(40)]
    once = board(asked("a", values) | asked("b", other))
    often = board(asked("a", *[values] * 5) | asked("b", *[other] * 5))
    same = ("value", "n", "low", "high", "worst", "best", "rank", "difference", "difference_low", "p", "tied")
    for place, row in once.items():
        assert [often[place][name] for name in same] == pytest.approx([row[name] for name in same])


def test_a_replicate_without_a_value_lowers_the_coverage_by_its_share() -> None:
    (row,) = board(asked("a", [1.0, 0.5], [1.0, None], [0.0, 1.0])).values()
    assert row["value"] == pytest.approx((2 / 3 + 0.75) / 2)
    assert row["coverage"] == pytest.approx(5 / 6)
    assert (row["worst"], row["best"]) == pytest.approx(((2 / 3 + 0.5) / 2, (2 / 3 + 2.5 / 3) / 2))
    assert (row["replicate_low"], row["replicate_high"]) == (0.0, 1.0), "of the first question alone"
    assert row["rank"] is None


def test_a_question_that_no_replicate_has_a_value_of_has_none() -> None:
    (row,) = board(asked("a", [1.0, None], [0.5, None])).values()
    assert (row["n"], row["value"], row["coverage"]) == (2, 0.75, 0.5)
    (nothing,) = board(asked("a", [None], [None])).values()
    assert (nothing["value"], nothing["coverage"], nothing["replicate_low"]) == (None, 0.0, None)


def test_replicates_of_which_no_question_is_whole_have_no_spread() -> None:
    (row,) = board(asked("a", [1.0, None], [None, 0.0])).values()
    assert (row["value"], row["replicates"]) == (0.5, 2)
    assert (row["replicate_low"], row["replicate_high"]) == (None, None)


def random_cells(means: Mapping[str, float], n: int = 120, noise: float = 0.1) -> dict[Cell, pl.DataFrame]:
    chance = np.random.default_rng(5)
    hard = chance.normal(0.5, 0.3, n)
    return {cell(name): scores([*(hard + mean + chance.normal(0, noise, n))]) for name, mean in means.items()}


def test_tie_groups_are_what_cannot_be_told_apart_from_their_first_cell() -> None:
    rows = board(random_cells({"a": 0.2, "b": 0.195, "c": 0.1, "d": 0.12, "e": -0.3}))
    assert {name: row["tie_group"] for (_, name), row in rows.items()} == {
        "a": 1,
        "b": 1,
        "c": 2,
        "d": 2,
        "e": 3,
    }
    for row in rows.values():
        assert (row["tie_group"] == 1) == row["tied"]


def test_the_chance_of_being_the_best_sums_to_one_and_is_of_ranked_cells() -> None:
    found = random_cells({"a": 0.2, "b": 0.19, "c": 0.0}) | {cell("gappy"): scores([1.0, None] * 60)}
    rows = board(found)
    chances = {name: row["p_best"] for (_, name), row in rows.items()}
    assert chances.pop("gappy") is None
    assert rows["all", "gappy"]["tie_group"] is None
    assert sum(chances.values()) == pytest.approx(1)
    assert chances["a"] > chances["b"] > chances["c"] == 0


def test_where_less_is_better_the_least_is_likely_the_best() -> None:
    found = {
        cell("slow"): scores([2.0] * 9, "answer_latency"),
        cell("fast"): scores([1.0] * 9, "answer_latency"),
    }
    rows = board(found, "answer_latency")
    assert (rows["all", "fast"]["p_best"], rows["all", "slow"]["p_best"]) == (1, 0)
    assert (rows["all", "fast"]["tie_group"], rows["all", "slow"]["tie_group"]) == (1, 2)


def test_the_gold_evidence_has_no_group_and_no_chance() -> None:
    generators = {"gold": OracleContext.model_construct(), "plain": NoContext.model_construct()}
    study = partial_study(study="s", seed=7, metrics=("rouge_l",), generators=generators)
    ceiling, plain = Cell("s", "-", "-", "-", "gold"), Cell("s", "-", "-", "-", "plain")
    rows = board_rows(
        study, {ceiling: scores([1.0] * 9, "rouge_l"), plain: scores([0.5] * 9, "rouge_l")}, lambda *_: 1.0
    )
    by_name = {row["generator"]: row for row in rows}
    assert (by_name["gold"]["tie_group"], by_name["gold"]["p_best"], by_name["gold"]["tied"]) == (
        None,
        None,
        None,
    )
    assert (by_name["plain"]["tie_group"], by_name["plain"]["p_best"]) == (1, 1.0)


def test_questions_of_one_cluster_count_together() -> None:
    found = random_cells({"a": 0.2, "b": 0.0})
    study = partial_study(study="s", seed=7, metrics=("ndcg@10",))
    ids = [f"q{number:03}" for number in range(120)]

    def compared(clusters: Clustering) -> dict[str, Any]:
        rows = board_rows(study, found, lambda *_: None, clusters)
        return {row["retriever"]: row for row in rows}

    alone = compared(ALONE)
    few = compared(Clustering("ids", {name: number // 40 for number, name in enumerate(ids)}))
    one = compared(Clustering("ids", dict.fromkeys(ids, 0)))
    assert [found["b"]["clusters"] for found in (alone, few, one)] == [120, 3, 1]
    assert [found["b"]["tied"] for found in (alone, few, one)] == [False, True, True]
    assert (one["b"]["p"], one["b"]["low"], one["b"]["difference_low"]) == (1, None, None)
    assert few["b"]["difference"] == alone["b"]["difference"]


def test_an_open_comparison_says_what_would_settle_it() -> None:
    rows = board(random_cells({"a": 0.0, "b": 0.0, "far": -0.5}, noise=0.2))
    tied, far = rows["all", "b"], rows["all", "far"]
    assert (tied["tied"], far["tied"]) == (True, False)
    assert tied["questions_needed"] > tied["n"]
    assert tied["detectable"] > -tied["difference"]
    assert far["questions_needed"] is None
    assert far["detectable"] < -far["difference"]


def test_intervals_stay_within_the_metrics_bounds() -> None:
    rows = board({cell("a"): scores([1.0] * 20 + [0.3] * 4), cell("b"): scores([0.0] * 20 + [0.7] * 4)})
    for row in rows.values():
        assert 0 <= row["low"] < row["value"] < row["high"] <= 1


def test_noise_of_replicates_apart_from_that_of_questions() -> None:
    chance = np.random.default_rng(3)
    hard = chance.normal(0.5, 0.3, 400)
    rows = board(
        asked("a", *([*(hard + chance.normal(0, 0.1, 400))] for _ in range(3))) | asked("b", [0.1] * 400)
    )
    a, b = rows["all", "a"], rows["all", "b"]
    assert (a["question_sd"], a["replicate_sd"]) == pytest.approx((0.3, 0.1), rel=0.1)
    assert (b["question_sd"], b["replicate_sd"]) == (None, None)
    same = board(asked("a", [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]))["all", "a"]
    assert same["replicate_sd"] == 0


def test_one_question_and_one_cell() -> None:
    rows = board({cell("a"): scores([1.0]), cell("b"): scores([0.0])})
    a, b = rows["all", "a"], rows["all", "b"]
    assert (a["low"], a["high"], b["tied"], b["p"], b["detectable"]) == (None, None, True, 1, None)
    alone = board({cell("a"): scores([0.5] * 9)})["all", "a"]
    assert (alone["tie_group"], alone["p_best"], alone["tied"]) == (1, 1.0, True)


def test_all_equal_cells_are_one_group_and_share_the_chance() -> None:
    rows = board({cell(name): scores([0.0, 1.0, 0.5] * 9) for name in "abcd"})
    assert {row["tie_group"] for row in rows.values()} == {1}
    assert {row["p_best"] for row in rows.values()} == {0.25}
    assert {row["questions_needed"] for row in rows.values()} == {None}
