"""What is expected of cells on further questions: invariances, gaps, equal columns, few clusters."""

from __future__ import annotations

import numpy as np
import pytest

from rag_assay.evals.statistics.comparison import posterior


def values(
    cells: int = 6, documents: int = 20, each: int = 3, spread: float = 0.1
) -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(5)
    of = np.repeat(np.arange(documents), each)
    truth = spread * np.linspace(0, -1, cells)
    noise = 0.1 * chance.standard_normal((documents, cells))[of]
    return 0.6 + truth + noise + 0.1 * chance.standard_normal((len(of), cells)), of


def test_chances_sum_to_one_and_losses_are_against_the_leader() -> None:
    table, of = values()
    found = posterior(table, 7, 0.02, 1.0, of)
    leader = int(table.mean(axis=0).argmax())
    assert found.p_best.sum() == pytest.approx(1)
    assert found.p_best.argmax() == leader
    assert found.expected_loss[leader] == 0
    assert (found.expected_loss >= 0).all()
    assert (found.bound <= 0).all()
    measured = table.mean(axis=0).max() - table.mean(axis=0)
    assert (found.expected_loss <= measured + 0.01).all(), "losses are shrunk, the leader has been lucky too"


def test_equal_columns_share_their_chance_and_have_one_loss() -> None:
    table, of = values()
    twice = np.hstack([table, table[:, :2]])
    one, two = posterior(table, 7, 0.02, 1.0, of), posterior(twice, 7, 0.02, 1.0, of)
    assert two.p_best[:2] == pytest.approx(two.p_best[6:])
    assert two.p_best[0] * 2 == pytest.approx(one.p_best[0], abs=0.03)
    assert two.expected_loss[0] == two.expected_loss[6]
    alike = posterior(np.repeat(table[:, :1], 3, axis=1), 7, 0.02, 1.0, of)
    assert alike.p_best == pytest.approx([1 / 3] * 3)
    assert alike.expected_loss.tolist() == [0.0] * 3


@pytest.mark.parametrize("scale", [1.0, 5.0, 1000.0])
def test_the_unit_of_the_metric_does_not_matter(scale: float) -> None:
    table, of = values()
    one, other = posterior(table, 7, 0.02, 1.0, of), posterior(scale * table - 3, 7, 0.02 * scale, scale, of)
    assert other.p_best == pytest.approx(one.p_best, abs=1e-9)
    assert other.expected_loss / scale == pytest.approx(one.expected_loss)
    assert other.bound / scale == pytest.approx(one.bound)


def test_few_documents_say_less_than_as_many_questions() -> None:
    table, of = values(documents=6, each=20)
    by_documents, by_questions = posterior(table, 7, 0.02, 1.0, of), posterior(table, 7, 0.02, 1.0)
    assert by_documents.p_best.max() < by_questions.p_best.max()
    assert (by_documents.bound <= by_questions.bound + 0.01).all()


def test_gaps_leave_the_rest_as_it_is() -> None:
    table, of = values()
    gappy = table.copy()
    gappy[3, 2] = np.nan
    whole, gap = posterior(table, 7, 0.02, 1.0, of), posterior(gappy, 7, 0.02, 1.0, of)
    assert gap.p_best == pytest.approx(whole.p_best, abs=0.05)
    assert np.isfinite(gap.expected_loss).all()


@pytest.mark.parametrize("shape", [(1, 3), (2, 2), (40, 1), (1, 1)])
def test_small_studies_have_finite_chances(shape: tuple[int, int]) -> None:
    table = np.random.default_rng(1).random(shape)
    found = posterior(table, 7, 0.02, 1.0)
    assert found.p_best.sum() == pytest.approx(1)
    assert np.isfinite(found.expected_loss).all()


def test_without_a_margin_no_chance_of_losing_more_than_it() -> None:
    found = posterior(values()[0], 7, np.nan, 1.0)
    assert np.isnan(found.p_loss).all()
    assert np.isfinite(found.expected_loss).all()


def test_a_clear_winner_is_shown_to_be_one() -> None:
    table, of = values(spread=2.0, cells=3)
    found = posterior(table, 7, 0.02, 1.0, of)
    assert found.p_best[0] > 0.99
    assert found.bound[0] == 0
    assert found.p_loss[1] > 0.99
