"""Which cell is recommended, by every rule that the recommendation states."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from evals.measuring.running_costs import RunningCost, running_costs
from evals.statistics.recommendation import NOT_RANKED, NOT_RUN, Recommendation, recommend
from evals.study.simplicity import Simplicity
from tests.fakes.report_data import LATENCY, NDCG, SIMILARITY

PLAIN = Simplicity(0, 0, 1, 100)


def row(cell: str, rank: int | None, tied: bool | None = True, metric: str = NDCG.name, **more: Any) -> Any:
    return {
        "subset": "all",
        "cell": cell,
        "metric": metric,
        "rank": rank,
        "tied": tied if rank != 1 else True,
        "n": 50,
        "leader": "a",
        "difference": 0.0 if cell == "a" else -0.1,
        "difference_low": None if cell == "a" else -0.25,
        "difference_high": None if cell == "a" else 0.05,
        **more,
    }


def taken(
    rows: list[Any], simple: dict[str, Simplicity], costs: dict[str, RunningCost] | None = None
) -> Recommendation:
    return recommend(rows, [NDCG, SIMILARITY, LATENCY], simple, costs or {})


@pytest.mark.parametrize(
    "simpler",
    [
        (Simplicity(0, 9, 9, 900), Simplicity(1, 0, 1, 100)),
        (Simplicity(1, 0, 9, 900), Simplicity(1, 1, 1, 100)),
        (Simplicity(1, 1, 2, 900), Simplicity(1, 1, 3, 100)),
        (Simplicity(1, 1, 3, 99), Simplicity(1, 1, 3, 100)),
        (Simplicity(1, 1, 3, 100), Simplicity(1, 1, 3, None)),
    ],
)
def test_the_simplest_of_what_ties_is_taken_by_the_order_of_the_rules(
    simpler: tuple[Simplicity, Simplicity],
) -> None:
    simple, elaborate = simpler
    rows = [row("a", 1), row("b", 2)]
    assert taken(rows, {"a": elaborate, "b": simple}).cell == "b"
    assert taken(rows, {"a": simple, "b": elaborate}).cell == "a"


def test_the_price_decides_before_the_size_of_the_index_and_what_is_not_known_is_dear() -> None:
    rows = [row("a", 1), row("b", 2)]
    simple = {"a": PLAIN._replace(chunks=10), "b": PLAIN}
    assert taken(rows, simple, {"a": RunningCost(2.0), "b": RunningCost(1.0)}).cell == "b"
    assert taken(rows, simple, {"a": RunningCost(None), "b": RunningCost(1.0)}).cell == "b"
    assert taken(rows, simple, {"a": RunningCost(1.0), "b": RunningCost(1.0)}).cell == "a"


def test_what_is_worse_by_more_than_chance_is_never_taken() -> None:
    rows = [row("a", 1), row("b", 2, tied=False), row("c", None, None)]
    found = taken(rows, {"a": Simplicity(9, 9, 9, 9), "b": PLAIN, "c": PLAIN})
    assert (found.cell, found.tied, found.difference, found.gives_up) == ("a", ("a",), 0.0, 0.0)


def test_what_is_given_up_is_the_far_end_of_the_interval_whichever_way_is_better() -> None:
    rows = [row("a", 1), row("b", 2)]
    simple = {"a": Simplicity(1, 1, 1, 1), "b": PLAIN}
    found = taken(rows, simple)
    assert (found.cell, found.leader, found.difference, found.gives_up) == ("b", "a", 0.1, 0.25)
    slow = [row("a", 1, metric=LATENCY.name), row("b", 2, metric=LATENCY.name, difference=0.2)]
    assert recommend(slow, [LATENCY], simple, {}).gives_up == 0.05
    few = [row("a", 1), row("b", 2, difference_low=None, difference_high=None)]
    assert taken(few, simple).gives_up is None
    better = [row("a", 1), row("b", 2, difference=0.01, difference_low=0.001)]  # on the questions of both
    assert (taken(better, simple).difference, taken(better, simple).gives_up) == (0.0, 0.0)


def test_the_cheapest_may_be_another_one() -> None:
    rows = [row("a", 1), row("b", 2), row("c", 3)]
    simple = {"a": PLAIN, "b": Simplicity(1, 0, 1, 1), "c": Simplicity(1, 0, 1, 1)}
    costs = {"a": RunningCost(None, 0.1), "b": RunningCost(1.0, 0.3), "c": RunningCost(1.0, 0.2)}
    found = taken(rows, simple, costs)
    assert (found.cell, found.cheapest) == ("a", "c")


def test_without_a_rank_nothing_is_recommended() -> None:
    assert taken([row("a", None, None)], {"a": PLAIN}).reason == NOT_RANKED
    assert taken([], {}).reason == NOT_RUN
    assert taken([row("a", None, None)], {"a": PLAIN}).cell is None
    beside = [row("a", None, None), row("b", 1, subset="sample of 6")]
    assert taken(beside, {"b": PLAIN}).cell is None  # a sample says nothing of all questions
    assert taken(beside[1:], {"b": PLAIN}).subset == "sample of 6"


def test_a_metric_of_rankings_leaves_the_choice_of_a_generator_to_one_of_answers() -> None:
    first = [row("a", 1), row("b", 1), row("c", 1)]
    simple = {"a": PLAIN, "b": Simplicity(1, 0, 1, 100), "c": Simplicity(2, 0, 1, 100)}

    def by_answers(b: float, tied_b: bool | None, c: float, tied_c: bool) -> Recommendation:
        others = [
            row("a", 1, metric=SIMILARITY.name),
            row("b", 1, metric=SIMILARITY.name, difference=b) | {"tied": tied_b},
            row("c", 1, metric=SIMILARITY.name, difference=c) | {"tied": tied_c},
        ]
        return taken([*first, *others], simple)

    assert by_answers(0.2, False, 0.3, False).cell == "b"  # both are better than the leader
    assert by_answers(0.2, False, 0.3, False).second == SIMILARITY.name
    assert by_answers(0.2, True, 0.3, True).cell == "a"
    assert by_answers(0.2, True, 0.3, True).second is None
    assert by_answers(0.2, True, -0.3, False).among == ("a", "b")
    assert by_answers(0.2, None, 0.3, False).cell == "c"
    answers = [one | {"metric": SIMILARITY.name} for one in first]
    assert recommend(answers, [SIMILARITY, NDCG], simple, {}).cell == "a"


def test_costs_count_whole_questions_and_prices_that_are_known() -> None:
    def scored(cell: str, question: str, metric: str, value: float | None, replicate: int = 1) -> Any:
        status = "ok" if value is not None else "timeout"
        return (cell, replicate, question, metric, status, value)

    scores = pl.DataFrame(
        [
            *(scored("c", name, "find", 1.0) for name in "abc"),
            *(scored("c", name, "write", value) for name, value in zip("abc", (1.0, 3.0, None), strict=True)),
            scored("r", "a", "find", 0.5),
            scored("r", "a", "ndcg", 1.0),
            scored("x", "a", "find", None),
        ],
        ["cell", "replicate", "question_id", "metric", "status", "value"],
        orient="row",
    )
    answers = pl.DataFrame(
        [("c", 0.002, 10, 5), ("c", 0.004, 20, 5), ("c", None, None, None), ("x", None, 10, 5)],
        ["cell", "usd", "prompt_tokens", "completion_tokens"],
        orient="row",
    )
    found = running_costs(scores, answers, ["find", "write"])
    assert found["c"] == RunningCost(3.0, 3.0, 3.9, 20.0)  # the question without an answer is in none of them
    assert found["r"] == RunningCost(0.0, 0.5, 0.5, None)
    assert found["x"] == RunningCost(None, None, None, 15.0)
    assert running_costs(scores, answers, ["find"], {"r"})["r"].usd is None
