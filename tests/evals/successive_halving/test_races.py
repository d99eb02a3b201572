"""Races: what is dropped, what must not be, and how far what is said of it holds, with a known truth."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.search import race
from rag_assay.evals.statistics.question_clusters import Clustering
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.successive_halving.rungs import (
    EliminationRules,
    StratifiedQuestion,
    draw_cells,
    look,
    one_factor,
    question_order,
    regret_of,
    rungs,
    stays,
)

Values = dict[str, dict[str, float]]


def values_of(means: list[float], n: int, seed: int, noise: float = 0.25) -> Values:
    """Values of cells that share the difficulty of their questions."""
    chance = np.random.default_rng(seed)
    hard = chance.normal(0, 0.3, n)
    return {
        f"c{at}": {f"q{q:03}": float(mean + hard[q] + chance.normal(0, noise)) for q in range(n)}
        for at, mean in enumerate(means)
    }


def blocks_of(n: int, first: int = 24) -> list[list[str]]:
    return rungs([[f"q{q:03}"] for q in range(n)], first, 2.0)


def test_rungs_are_nested_samples_with_whole_clusters_and_all_types() -> None:
    questions = [StratifiedQuestion(f"q{n}", n // 3, "rare" if n >= 90 else "common") for n in range(120)]
    order = question_order(questions, 7)
    assert order == question_order(list(reversed(questions)), 7) or [sorted(ids) for ids in order] == [
        sorted(ids) for ids in question_order(list(reversed(questions)), 7)
    ], "the order of the file is nothing"
    assert order != question_order(questions, 8)
    blocks = rungs(order, 24, 2.0)
    assert sorted(name for block in blocks for name in block) == sorted(one.question for one in questions)
    assert [len(block) for block in blocks] == [24, 24, 72]
    for block in blocks:
        assert len({int(name[1:]) // 3 for name in block}) * 3 == len(block), "no cluster is halved"
        assert sum(int(name[1:]) >= 90 for name in block) == len(block) / 4, "each type has its share"
    huge = rungs([[str(n) for n in range(90)], *([str(n)] for n in range(90, 100))], 12, 2.0)
    assert len(huge) == 1, "too few clusters for a rung before the last"
    assert rungs([["a"]], 24, 2.0) == [["a"]]


def test_a_worse_cell_is_dropped_and_equal_ones_are_not() -> None:
    values = values_of([0.8, 0.78, 0.3], 48, seed=1)
    values["c3"] = values["c0"]
    found = look([*values], values, EliminationRules(0.05, 7))
    assert [one.cell for one in found.dropped] == ["c2"]
    assert found.dropped[0].rule == "significance"
    assert found.dropped[0].difference == pytest.approx(-0.5, abs=0.15)
    assert found.dropped[0].high < 0
    all_tied = dict.fromkeys(("a", "b", "c"), values["c0"])
    assert look([*all_tied], all_tied, EliminationRules(0.05, 7)).dropped == []
    ended = race([*all_tied], all_tied, blocks_of(48, 12), EliminationRules(0.05, 7))
    assert (ended.left, ended.evaluations) == (["a", "b", "c"], 3 * 48), "all tied: nothing is spared"
    assert race(["a"], all_tied, blocks_of(48, 12), EliminationRules(0.05, 7)).left == ["a"]


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_a_cell_within_the_margin_may_be_recommended_and_stays(higher_is_better: bool) -> None:
    leader = {f"q{q:02}": 0.5 + q % 3 / 10 for q in range(48)}
    loss = -0.01 if higher_is_better else 0.01
    values = {"best": leader, "near": {name: one + loss for name, one in leader.items()}}
    rules = EliminationRules(0.05, 7, higher_is_better)
    assert [one.cell for one in look([*values], values, rules).dropped] == ["near"]
    assert look([*values], values, rules._replace(margin=0.02)).dropped == []
    assert [one.cell for one in look([*values], values, rules._replace(margin=0.005)).dropped] == ["near"]
    within_budget = look([*values], values, rules._replace(margin=0.02, keep=1))
    assert [(one.cell, one.rule) for one in within_budget.dropped] == [("near", "budget")]


def test_lower_is_better_where_the_metric_says_so() -> None:
    values = values_of([0.8, 0.2], 40, seed=2)
    found = look([*values], values, EliminationRules(0.05, 7, higher_is_better=False))
    assert (found.leader, [one.cell for one in found.dropped]) == ("c1", ["c0"])
    assert found.dropped[0].low > 0, "the difference is in the metric's own direction"
    behind = regret_of(["c0"], "c1", values, 7, higher_is_better=False)
    assert behind.cells[0].difference > 0
    assert behind.chance < 0.001


def test_failures_are_no_reason_to_drop_a_cell() -> None:
    values = values_of([0.8, 0.75, 0.1], 40, seed=3)
    values["c2"] = {}
    values["c1"] = dict([*values["c1"].items()][:30])
    for rules in (EliminationRules(0.05, 7), EliminationRules(0.05, 7, keep=1)):
        found = look([*values], values, rules)
        assert found.unmeasured == ["c1", "c2"]
        assert found.left == [*values]
        assert found.dropped == []
    nothing: Values = {"a": {}, "b": {}}
    assert look(["a", "b"], nothing, EliminationRules(0.05, 7)).left == ["a", "b"]


def test_few_clusters_tell_nothing_apart() -> None:
    values = values_of([0.9, 0.1], 40, seed=4)
    together = Clustering("ids", {f"q{q:03}": q % 4 for q in range(40)})
    assert look([*values], values, EliminationRules(0.05, 7), together).dropped == []
    assert len(look([*values], values, EliminationRules(0.05, 7)).dropped) == 1


def test_the_budget_is_kept_to_and_says_so() -> None:
    values = values_of([0.5 + at / 1000 for at in range(16)], 96, seed=5)
    blocks = blocks_of(96, 12)
    for cap in (300, 400, 700, 1000):
        ended = race([*values], values, blocks, EliminationRules(0.001, 7), cap=cap)
        assert 96 <= ended.evaluations <= cap
        assert {one.rule for found in ended.dropped.values() for one in found} == {"budget"}
        assert race([*values], values, blocks, EliminationRules(0.001, 7), cap=cap) == ended, (
            "the seed decides all"
        )
    assert stays([1.0], [10], 0, 0) == 1, "one cell always stays"
    assert stays([1.0, 100.0, 1.0], [10], 0, 40) == 1, "a dear cell leaves no room for those behind it"


def test_the_level_bounds_how_often_the_best_is_dropped() -> None:
    """Of equal cells the one that is truly best is dropped by a test in at most 5 % of races."""
    lost = 0
    for seed in range(60):
        values = values_of([0.5] * 6, 96, seed)
        blocks = blocks_of(96)
        ended = race([*values], values, blocks, EliminationRules(0.05 / (len(blocks) - 1), seed))
        lost += "c0" not in ended.left
    assert lost <= 6, lost  # of 60, P(more than 6 | 5 %) < 0.05; in truth it is far rarer


def test_what_could_have_been_missed_holds() -> None:
    """The bound on how much better a dropped cell is holds what is true of all questions nearly always."""
    beyond = better = 0
    said = 0.0
    for seed in range(25):
        values = values_of([0.5 + at / 100 for at in range(8)], 192, seed)
        ended = race([*values], values, blocks_of(192), EliminationRules(0.0125, seed), cap=700)
        means = {cell: float(np.mean([*found.values()])) for cell, found in values.items()}
        winner = max(ended.left, key=means.__getitem__)
        gone = [one.cell for found in ended.dropped.values() for one in found]
        asked = {cell: dict([*found.items()][:24]) for cell, found in values.items() if cell in gone}
        found = regret_of(gone, winner, {**asked, winner: values[winner]}, seed, comparisons=8 * 3)
        most = max(means[cell] - means[winner] for cell in gone)
        beyond += found.most is not None and most > found.most
        better += most > 0
        said += found.chance
    assert beyond <= 2
    assert better <= said, "a better cell is lost no more often than is said"


GRID = [Cell("s", t, "e", r, g) for t in ("t1", "t2", "t3") for r in ("r1", "r2") for g in ("g1", "g2")]


def test_one_factor_at_a_time_is_a_sum_of_levels() -> None:
    found = one_factor(GRID)
    assert len(found) == 1 + 2 + 1 + 1
    assert one_factor(GRID, "t2.e.r2.g1")[0].short == "t1.e.r2.g1"
    closed = Cell("s", "-", "-", "-", "g3")
    assert closed in one_factor([*GRID, closed])
    assert one_factor([closed]) == [closed]
    assert one_factor([]) == []


def test_a_draw_holds_what_a_smaller_one_held() -> None:
    held: set[Cell] = set()
    for n in range(1, len(GRID) + 1):
        found = draw_cells(GRID, 7, lambda some, n=n: len(some) <= n, always=[GRID[-1]])
        assert len(found) == n
        assert held < set(found)
        assert GRID[-1] in found
        held = set(found)
    assert draw_cells(GRID, 7, lambda some: len(some) <= 3) != draw_cells(
        GRID, 8, lambda some: len(some) <= 3
    )
    assert draw_cells(GRID, 7, lambda _: False) == []
