"""A purse lets through what its limit leaves room for, and makes the others wait or go."""

from __future__ import annotations

import threading

import pytest

from warehouse.spending import Purse, Purses


def paid(purse: Purse, model: str, usd: float | None) -> bool:
    if not purse.open(model):
        return False
    purse.close(model, usd, answered=True)
    return True


def test_calls_one_by_one_stop_when_the_limit_is_spent() -> None:
    purse = Purse(1.0)
    assert [paid(purse, "m", 0.4) for _ in range(4)] == [True, True, True, False]  # 0.4, 0.8, 1.2
    assert purse.spent_usd == pytest.approx(1.2)


def test_a_limit_of_nothing_lets_nothing_through() -> None:
    assert not Purse(0.0).open("m")


def test_without_a_limit_nobody_waits() -> None:
    purse = Purse(None)
    assert all(purse.open("m") for _ in range(100))


def test_calls_under_way_are_held_at_the_dearest_price_so_far() -> None:
    purse = Purse(1.0)
    assert paid(purse, "m", 0.3)
    assert purse.open("m")  # 0.3 + 0.3 + 0.3 leaves room for one more beside it
    assert purse.open("m")
    waits = threading.Thread(target=purse.open, args=("m",), daemon=True)
    waits.start()
    waits.join(0.2)
    assert waits.is_alive()  # 0.3 + 0.3 + 0.3 + 0.3 > 1
    purse.close("m", 0.1, answered=True)  # cheaper than was held: 0.4 + 0.3 + 0.3 = 1
    waits.join(60)
    assert not waits.is_alive()


def test_the_first_call_of_a_model_is_made_alone_and_a_failed_one_tells_nothing() -> None:
    purse = Purse(1.0)
    assert purse.open("m")
    waits = threading.Thread(target=purse.open, args=("m",), daemon=True)
    waits.start()
    waits.join(0.2)
    assert waits.is_alive()
    purse.close("m", None, answered=False)
    waits.join(60)
    assert not waits.is_alive()  # and is now the first one itself


def test_models_without_a_price_do_not_wait() -> None:
    purse = Purse(1.0)
    assert paid(purse, "free", None)
    assert all(purse.open("free") for _ in range(50))
    assert purse.spent_usd == 0.0


def test_an_owner_has_one_purse_for_a_limit() -> None:
    purses = Purses()
    assert purses.of("town", 1.0) is purses.of("town", 1.0)
    assert purses.of("town", 1.0) is not purses.of("town", 2.0)
    assert purses.of("town", 1.0) is not purses.of("village", 1.0)
    assert purses.of("town", None).limit_usd is None
