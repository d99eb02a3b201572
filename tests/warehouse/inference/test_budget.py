"""A budget lets through what its limit leaves room for, and makes the others wait or go."""

from __future__ import annotations

import threading

import pytest

from warehouse.inference.budget import Budget, Budgets


def paid(budget: Budget, model: str, usd: float | None) -> bool:
    if not budget.open(model):
        return False
    budget.close(model, usd, answered=True)
    return True


def test_calls_one_by_one_stop_when_the_limit_is_spent() -> None:
    budget = Budget(1.0)
    assert [paid(budget, "m", 0.4) for _ in range(4)] == [True, True, True, False]  # 0.4, 0.8, 1.2
    assert budget.spent_usd == pytest.approx(1.2)


def test_a_limit_of_nothing_lets_nothing_through() -> None:
    assert not Budget(0.0).open("m")


def test_without_a_limit_nobody_waits() -> None:
    budget = Budget(None)
    assert all(budget.open("m") for _ in range(100))


def test_calls_under_way_are_held_at_the_dearest_price_so_far() -> None:
    budget = Budget(1.0)
    assert paid(budget, "m", 0.3)
    assert budget.open("m")  # 0.3 + 0.3 + 0.3 leaves room for one more beside it
    assert budget.open("m")
    waits = threading.Thread(target=budget.open, args=("m",), daemon=True)
    waits.start()
    waits.join(0.2)
    assert waits.is_alive()  # 0.3 + 0.3 + 0.3 + 0.3 > 1
    budget.close("m", 0.1, answered=True)  # cheaper than was held: 0.4 + 0.3 + 0.3 = 1
    waits.join(60)
    assert not waits.is_alive()


def test_the_first_call_of_a_model_is_made_alone_and_a_failed_one_tells_nothing() -> None:
    budget = Budget(1.0)
    assert budget.open("m")
    waits = threading.Thread(target=budget.open, args=("m",), daemon=True)
    waits.start()
    waits.join(0.2)
    assert waits.is_alive()
    budget.close("m", None, answered=False)
    waits.join(60)
    assert not waits.is_alive()  # and is now the first one itself


def test_models_without_a_price_do_not_wait() -> None:
    budget = Budget(1.0)
    assert paid(budget, "free", None)
    assert all(budget.open("free") for _ in range(50))
    assert budget.spent_usd == 0.0


def test_an_owner_has_one_purse_for_a_limit() -> None:
    budgets = Budgets()
    assert budgets.of("town", 1.0) is budgets.of("town", 1.0)
    assert budgets.of("town", 1.0) is not budgets.of("town", 2.0)
    assert budgets.of("town", 1.0) is not budgets.of("village", 1.0)
    assert budgets.of("town", None).limit_usd is None


def test_a_budget_within_another_lets_through_what_both_have_room_for() -> None:
    whole = Budget(1.0)
    part, other = Budget(0.5, within=whole), Budget(None, within=whole)
    assert [paid(part, "m", 0.3) for _ in range(3)] == [True, True, False]
    assert part.refusal == "The budget of 0.5 USD is spent."
    assert [paid(other, "m", 0.3) for _ in range(3)] == [True, True, False]
    assert other.refusal == "The budget of 1.0 USD is spent."
    assert (part.spent_usd, other.spent_usd) == (pytest.approx(0.6), pytest.approx(0.6))
    assert whole.spent_usd == pytest.approx(1.2)


def test_what_the_outer_budget_refuses_leaves_room_in_the_inner_one() -> None:
    whole = Budget(1.0)
    part = Budget(5.0, within=whole)
    assert paid(part, "m", 1.0)
    assert not part.open("m")
    whole.limit_usd = 9.0  # as if another run had more to spend
    assert part.open("m"), "the refused call is not counted as under way"
