"""Which cells of a grid with gaps are compared."""

from __future__ import annotations

import random
from itertools import product

import pytest

from rag_assay.evals.statistics.full_crossing import find_crossing

GRID = list(product("ab", "xyz", "mn"))


def test_a_whole_grid_is_compared_whole() -> None:
    found = find_crossing(GRID, [1])
    assert found is not None
    assert found.levels == (("x", "y", "z"),)
    assert sorted(found.contexts) == sorted(product("ab", "mn"))
    assert (found.left_out, found.unused) == (((),), 0)
    assert found.place([1], ["y"], ("a", "n")) == ("a", "y", "n")


def test_two_axes_have_the_third_for_context() -> None:
    found = find_crossing(GRID, [0, 2])
    assert found is not None
    assert found.levels == (("a", "b"), ("m", "n"))
    assert found.contexts == (("x",), ("y",), ("z",))
    assert found.place([0, 2], ["b", "m"], ("z",)) == ("b", "z", "m")


def test_a_hole_costs_its_context_and_no_level() -> None:
    found = find_crossing([place for place in GRID if place != ("a", "x", "m")], [1])
    assert found is not None
    assert found.levels == (("x", "y", "z"),)
    assert found.contexts == (("a", "n"), ("b", "m"), ("b", "n"))
    assert found.unused == 2  # the two others of that context


def test_a_level_that_is_nearly_nowhere_is_left_out() -> None:
    grid = [*product([f"c{n}" for n in range(9)], ["small", "large"]), ("c0", "restricted")]
    found = find_crossing(grid, [1])
    assert found is not None
    assert found.levels == (("large", "small"),)
    assert (len(found.contexts), found.left_out, found.unused) == (9, (("restricted",),), 1)


@pytest.mark.parametrize("grid", [[], [("a", "x")], [("a", "x"), ("a", "y")], [("a", "x"), ("b", "y")]])
def test_what_cannot_be_compared_is_not(grid: list[tuple[str, ...]]) -> None:
    assert find_crossing(grid, [0]) is None
    assert find_crossing(grid, [0, 1]) is None


@pytest.mark.parametrize("share", [0.5, 0.9, 1.0])
@pytest.mark.parametrize("seed", range(10))
def test_the_levels_are_those_of_all_that_dropping_the_rarest_leads_to(seed: int, share: float) -> None:
    chance = random.Random(seed)
    grid = [place for place in product("abcd", "uvxyz", "mn") if chance.random() < share]
    levels = sorted({place[1] for place in grid})
    tried: list[tuple[list[str], int]] = []
    while len(levels) > 1:
        tried.append(
            (levels, sum(all((a, level, m) in grid for level in levels) for a in "abcd" for m in "mn"))
        )
        held = {level: sum(place[1] == level for place in grid) for level in levels}
        levels = [level for level in levels if level != min(levels, key=lambda one: (held[one], one))]
    most = max(contexts for _, contexts in tried)
    wanted = next((one for one, contexts in tried if contexts and 2 * contexts >= most), None)
    found = find_crossing(grid, [1])
    assert (list(found.levels[0]) if found else None) == wanted


@pytest.mark.parametrize("seed", range(40))
def test_every_combination_of_levels_and_contexts_is_a_cell(seed: int) -> None:
    chance = random.Random(seed)
    grid = [
        place for place in product("abcd", "xyz", "mn") if chance.random() < chance.choice([0.4, 0.7, 0.95])
    ]
    for axes in ([0], [1], [2], [0, 1], [1, 2]):
        found = find_crossing(grid, axes)
        if found is None:
            continue
        used = {
            found.place(axes, own, context) for own in product(*found.levels) for context in found.contexts
        }
        assert used <= set(grid)
        assert found.unused == len(grid) - len(used)
        for axis, names, left in zip(axes, found.levels, found.left_out, strict=True):
            assert {*names, *left} == {place[axis] for place in grid}
            assert len(names) > 1
        assert found == find_crossing(chance.sample(grid, len(grid)), axes), "the order of cells says nothing"
