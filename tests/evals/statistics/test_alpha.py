"""Krippendorff's alpha equals published examples, and its interval says how far it can be trusted."""

import krippendorff
import numpy as np
import pytest

from rag_assay.evals.statistics.raters import krippendorffs_alpha

# Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), example C: four observers, twelve units.
FOUR = """
1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 .
"""
# The same, example A: two observers, binary.
TWO = """
0 1 0 0 0 0 0 0 1 0
1 1 1 0 0 1 0 0 0 0
"""
# Hayes and Krippendorff, Communication Methods and Measures 2007, table 1: forty articles, five observers.
ARTICLES = """
112.2 1101. 2333. .00.0 000.0 000.0 102.1 1.20. 222.2 2111.
.100. 0000. 1222. 33223 111.1 111.1 212.2 1233. 1101. 000.0
0011. 00.00 2333. 0000. 12.22 0111. 00010 1212. 1122. 112.2
110.0 2121. 22.22 3222. 222.2 223.2 222.2 22.12 2222. 111.1
"""


def scores(rows: list[list[str]]) -> tuple[np.ndarray, np.ndarray]:
    """Turn a table (a row a person) into the items and values of its scores."""
    there = [(item, float(value)) for row in rows for item, value in enumerate(row) if value != "."]
    return np.array([item for item, _ in there]), np.array([value for _, value in there])


def observers(table: str) -> tuple[np.ndarray, np.ndarray]:
    return scores([line.split() for line in table.strip().splitlines()])


@pytest.mark.parametrize(("level", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_krippendorffs_own_example(level, alpha):
    found = krippendorffs_alpha(*observers(FOUR), level, seed=7)
    assert round(found.value, 3) == alpha
    assert found.n == 11  # the twelfth unit has one value
    assert found.low < found.value < found.high


def test_krippendorffs_binary_example():
    for level in ("nominal", "ordinal", "interval"):
        assert round(krippendorffs_alpha(*observers(TWO), level, seed=7).value, 3) == 0.095


def test_hayes_and_krippendorffs_articles():
    articles = ARTICLES.split()
    found = krippendorffs_alpha(*scores([list(of) for of in zip(*articles, strict=True)]), "ordinal", seed=7)
    assert round(found.value, 4) == 0.7598
    assert found.n == 40
    # Theirs is 0.7083 to 0.8078, as if the pairs of an article were independent; over articles it is wider.
    assert found.low < 0.7083
    assert 0.8078 < found.high < 0.86


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_a_resample_is_the_packages_alpha_of_the_items_drawn(level, monkeypatch):
    items, values = observers(FOUR)
    table = np.full((4, 12), np.nan)
    table[np.repeat(np.arange(4), [9, 11, 10, 11]), items] = values
    often = np.ones((2, 11))
    often[:, 5] = [0, 2]  # the item that all four differ in
    often[:, 6] = [2, 0]
    drawn = [
        krippendorff.alpha(table[:, :11].repeat(n.astype(int), axis=1), level_of_measurement=level)
        for n in often
    ]
    monkeypatch.setattr(
        "rag_assay.evals.statistics.raters.draws", lambda *_: iter([often.repeat(50, axis=0)])
    )
    found = krippendorffs_alpha(items, values, level, seed=7)
    assert found.value == pytest.approx(krippendorff.alpha(table, level_of_measurement=level), abs=1e-12)
    assert found.low == pytest.approx(min(drawn))
    assert found.high == pytest.approx(max(drawn))


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_alpha_equals_the_reference_on_tables_with_gaps(level):
    chance = np.random.default_rng(11)
    compared = 0
    for _ in range(200):
        people, items, many = chance.integers(2, 7), chance.integers(2, 60), chance.integers(2, 9)
        grades = np.sort(chance.normal(size=many) * 10.0 ** chance.integers(-3, 4))
        table = chance.choice(grades, size=(people, items))
        table[chance.random(table.shape) < chance.choice([0.0, 0.3, 0.7])] = np.nan
        shared = table[:, (~np.isnan(table)).sum(axis=0) > 1]
        if len(np.unique(shared[~np.isnan(shared)])) < 2:
            continue
        person, item = np.nonzero(~np.isnan(table))
        found = krippendorffs_alpha(item, table[person, item], level, seed=7)
        expected = krippendorff.alpha(table, level_of_measurement=level)
        assert found.value == pytest.approx(expected, rel=0, abs=1e-12)
        compared += 1
    assert compared > 150


def test_what_cannot_be_computed_says_why():
    nobody = krippendorffs_alpha(np.zeros(0, int), np.zeros(0), "ordinal", seed=7)
    assert (nobody.value, nobody.n, nobody.reason) == (None, 0, "no item was scored by two people")
    alone = krippendorffs_alpha(np.arange(9), np.arange(9.0), "ordinal", seed=7)
    assert (alone.value, alone.reason) == (None, "no item was scored by two people")
    equal = krippendorffs_alpha(np.array([0, 0, 1, 1, 2]), np.array([5.0, 5, 5, 5, 0]), "interval", seed=7)
    assert (equal.value, equal.n, equal.reason) == (None, 2, "all scores of these items are equal")
    one = krippendorffs_alpha(np.array([0, 0]), np.array([5.0, 3.0]), "interval", seed=7)
    assert one.value == 0.0
    assert one.low is None
    assert "fewer than 5 independent items" in one.reason
    apart = krippendorffs_alpha(np.repeat(np.arange(9), 2), np.tile([0.0, 5.0], 9), "interval", seed=7)
    assert apart.value == pytest.approx(-8 / 9)
    assert apart.reason == "no interval: people differ in all items alike"
    with pytest.raises(ValueError, match="not finite"):
        krippendorffs_alpha(np.array([0, 0]), np.array([5.0, np.nan]), "interval", seed=7)


def test_agreement_without_exception_is_not_certain():
    few = krippendorffs_alpha(np.tile(np.arange(6), 2), np.tile([0.0, 5], 6), "nominal", seed=7)
    many = krippendorffs_alpha(np.tile(np.arange(600), 2), np.tile([0.0, 5], 600), "nominal", seed=7)
    assert few.value == many.value == 1.0
    assert few.low < 0.4
    assert 0.98 < many.low < 1.0
    assert few.high == many.high == 1.0


def test_items_of_one_question_are_drawn_together():
    chance = np.random.default_rng(3)
    truth = np.repeat(chance.integers(0, 3, 20), 10)  # twenty questions, ten alike items each
    wrong = np.repeat(chance.random(20) < 0.3, 10)
    values = np.concatenate([truth, np.where(wrong, (truth + 1) % 3, truth)]).astype(float)
    items = np.tile(np.arange(200), 2)
    loose = krippendorffs_alpha(items, values, "nominal", seed=7)
    held = krippendorffs_alpha(items, values, "nominal", seed=7, clusters=np.repeat(np.arange(20), 10))
    assert held.value == loose.value
    assert held.high - held.low > 2 * (loose.high - loose.low)


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_any_few_scores_have_an_interval_around_their_alpha_or_a_reason(level):
    chance = np.random.default_rng(5)
    for seed in range(60):
        n, people = chance.integers(2, 12), chance.integers(2, 5)
        items, _ = np.nonzero(chance.random((n, people)) < 0.8)
        values = chance.choice([0.0, 3.0, 5.0], size=len(items), p=[0.5, 0.1, 0.4])
        clusters = chance.integers(0, 6, n) if seed % 2 else None
        found = krippendorffs_alpha(items, values, level, seed, clusters)
        if found.low is None:
            assert found.reason, found
            continue
        assert -1 <= found.low <= found.value <= found.high <= 1.0, found


def test_it_does_not_hang_on_the_order_or_on_names_of_items():
    items, values = observers(FOUR)
    other = np.random.default_rng(1).permutation(len(items))
    found = krippendorffs_alpha(items[other], values[other], "ordinal", seed=7)
    assert found == krippendorffs_alpha(items, values, "ordinal", seed=7)
    turned = krippendorffs_alpha(items, -values, "ordinal", seed=7)
    assert turned.value == pytest.approx(found.value)
