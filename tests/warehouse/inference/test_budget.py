"""A budget lets through what its limit leaves room for, and makes the others wait or go."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest

from rag_assay.warehouse.cancellation import CancelledError, cancel_scope
from rag_assay.warehouse.inference import budget as module
from rag_assay.warehouse.inference.budget import Amount, Budget, Budgets, Caps
from tests.fakes.processes import wait_until


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
    assert budgets.of("town", 1.0) is not budgets.of("town", Caps(usd=1.0, calls=9))
    assert budgets.of("town", None).caps == Caps()


def test_a_budget_within_another_lets_through_what_both_have_room_for() -> None:
    whole = Budget(1.0)
    part, other = Budget(0.5, within=whole), Budget(None, within=whole)
    assert [paid(part, "m", 0.3) for _ in range(3)] == [True, True, False]
    assert part.refusal == "The budget of 0.5 USD is spent."
    assert [paid(other, "m", 0.3) for _ in range(3)] == [True, True, False]
    assert other.refusal == "The budget of 1 USD is spent."
    assert (part.spent_usd, other.spent_usd) == (pytest.approx(0.6), pytest.approx(0.6))
    assert whole.spent_usd == pytest.approx(1.2)


def test_what_the_outer_budget_refuses_leaves_room_in_the_inner_one() -> None:
    whole = Budget(1.0)
    part = Budget(5.0, within=whole)
    assert paid(part, "m", 1.0)
    assert not part.open("m")
    whole.caps = Caps(9.0)  # as if another run had more to spend
    assert part.open("m"), "the refused call is not counted as under way"


@pytest.mark.parametrize(
    ("caps", "refusal"),
    [
        (Caps(usd=1.0), "The budget of 1 USD is spent."),
        (Caps(tokens=2_000), "The budget of 2,000 tokens is spent."),
        (Caps(calls=4), "The budget of 4 calls is spent."),
        (Caps(usd=9.0, tokens=2_000, calls=9), "The budget of 2,000 tokens is spent."),
        (Caps(1.0, 2_000, 4), "The budget of 1 USD and of 2,000 tokens and of 4 calls is spent."),
    ],
)
def test_any_cap_that_is_reached_stops_the_calls_and_is_named(caps: Caps, refusal: str) -> None:
    budget = Budget(caps)
    for _ in range(4):
        assert budget.open("m")
        budget.close("m", 0.25, 500, answered=True)
    assert budget.spent == Amount(1.0, 2_000, 4)
    assert not budget.open("m")
    assert budget.refusal == refusal


@pytest.mark.parametrize("caps", [Caps(usd=0.0), Caps(tokens=0), Caps(calls=0)])
def test_a_cap_of_nothing_lets_nothing_through(caps: Caps) -> None:
    assert not Budget(caps).open("m")


def test_calls_of_unknown_price_count_as_tokens_and_calls() -> None:
    budget = Budget(Caps(usd=0.01, tokens=1_000))
    assert [paid_in(budget, None, 600) for _ in range(3)] == [True, True, False]
    assert budget.spent == Amount(0.0, 1_200, 2)
    budget = Budget(Caps(usd=0.01, calls=2))
    assert [paid_in(budget, None, None) for _ in range(3)] == [True, True, False]


def paid_in(budget: Budget, usd: float | None, tokens: int | None) -> bool:
    if not budget.open("m"):
        return False
    budget.close("m", usd, tokens, answered=True)
    return True


def test_a_call_that_failed_is_a_call() -> None:
    budget = Budget(Caps(calls=2))
    for _ in range(2):
        assert budget.open("m")
        budget.close("m", None, answered=False)
    assert not budget.open("m")


def test_calls_under_way_are_held_at_the_most_tokens_so_far() -> None:
    budget = Budget(Caps(tokens=1_000))
    assert paid_in(budget, 5.0, 300)
    assert budget.open("m")
    assert budget.open("m")
    waits = threading.Thread(target=budget.open, args=("m",), daemon=True)
    waits.start()
    waits.join(0.2)
    assert waits.is_alive()  # 300 + 300 + 300 + 300 > 1,000
    budget.close("m", 5.0, 100, answered=True)
    waits.join(60)
    assert not waits.is_alive()


@pytest.mark.parametrize(("cap", "threads"), product([1, 7, 40], [2, 16]))
def test_a_cap_in_calls_is_never_passed(cap: int, threads: int) -> None:
    budget = Budget(Caps(calls=cap))

    def call(number: int) -> bool:
        if not budget.open(f"model {number % 3}"):
            return False
        budget.close(f"model {number % 3}", None, None, answered=number % 5 > 0)
        return True

    with ThreadPoolExecutor(threads) as pool:
        made = sum(pool.map(call, range(60)))
    assert (made, budget.spent.calls) == (cap, cap)


def test_an_outer_cap_in_calls_counts_what_its_parts_made() -> None:
    whole = Budget(Caps(calls=3))
    part, other = Budget(1.0, within=whole), Budget(None, within=whole)
    assert [paid_in(one, 0.1, 5) for one in (part, other, part, other, part)] == [True] * 3 + [False] * 2
    assert (whole.spent.calls, part.spent.calls, other.spent.calls) == (3, 2, 1)
    assert part.refusal == "The budget of 3 calls is spent."


class Callers:
    """Threads that ask a budget for a call one after another, so that their order is known."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.let_through: list[str] = []
        self.refused: list[str] = []
        self.threads: list[threading.Thread] = []

    def ask(self, name: str, model: str = "m", is_cancelled: Callable[[], bool] = lambda: False) -> None:
        def work() -> None:
            with cancel_scope(is_cancelled):
                try:
                    is_open = self.budget.open(model)
                    (self.let_through if is_open else self.refused).append(name)
                except (CancelledError, TimeoutError) as error:
                    self.refused.append(f"{name}: {type(error).__name__}")

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(0.1)  # it waits by now
        self.threads.append(thread)

    def join(self) -> None:
        for thread in self.threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in self.threads)


MODELS = ("m", "n", "o")


def one_at_a_time(caps: Caps) -> Callers:
    """Callers of a budget that has room for one call at a time, and a call of "m" under way."""
    budget = Budget(caps)
    for model in MODELS:
        assert budget.open(model)
        budget.close(model, 0.5, 500, answered=True)
    assert budget.open("m")
    return Callers(budget)


@pytest.mark.parametrize("caps", [Caps(usd=2.0), Caps(tokens=2_000)])
def test_calls_are_let_through_in_the_order_in_which_they_asked(caps: Caps) -> None:
    callers = one_at_a_time(caps)
    models = [MODELS[number % 3] for number in range(12)]
    for number, model in enumerate(models):
        callers.ask(str(number), model)
    for number, model in enumerate(["m", *models][:12]):
        assert len(callers.let_through) == number
        callers.budget.close(model, 0.0, 0, answered=False)
        assert wait_until(lambda number=number: len(callers.let_through) > number, 60)
    callers.join()
    assert callers.let_through == [str(number) for number in range(12)]


def test_the_first_call_of_a_model_holds_up_no_other_model() -> None:
    budget = Budget(1.0)
    assert budget.open("slow")
    callers = Callers(budget)
    callers.ask("second", "slow")
    callers.ask("other", "m")
    assert callers.let_through == ["other"]
    budget.close("slow", 0.1, answered=True)
    callers.join()
    assert callers.let_through == ["other", "second"]


def test_cancelled_calls_leave_the_queue_and_take_no_room() -> None:
    callers, gone = one_at_a_time(Caps(usd=2.0)), threading.Event()
    callers.ask("first", is_cancelled=gone.is_set)
    callers.ask("second", is_cancelled=gone.is_set)
    callers.ask("third")
    gone.set()
    assert wait_until(lambda: len(callers.refused) == 2, 60)
    assert sorted(callers.refused) == ["first: CancelledError", "second: CancelledError"]
    callers.budget.close("m", 0.0, answered=True)
    callers.join()
    assert callers.let_through == ["third"]


def test_nobody_waits_for_calls_that_do_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STALLED", 0.5)
    whole = Budget(1.0)
    part = Budget(5.0, within=whole)
    assert whole.open("m")  # and never closed
    callers = Callers(part)
    for number in range(3):
        callers.ask(str(number))
    callers.join()
    assert sorted(callers.refused) == [f"{number}: TimeoutError" for number in range(3)]
    whole.close("m", 0.1, answered=True)
    assert part.open("m"), "who gave up is not counted as under way"
