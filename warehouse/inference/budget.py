"""A budget in US dollars, tokens and calls that many threads may spend from at once."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import NamedTuple

from rag_assay.warehouse.cancellation import LOOK, CancelledError, is_cancelled
from rag_assay.warehouse.fair_slots import FairSlots

STALLED = 600.0  # seconds without the end of a call under way, after which those that wait for it give up


class Caps(NamedTuple):
    """The most that may be spent: US dollars, tokens (read and written), calls; None: no cap."""

    usd: float | None = None
    tokens: int | None = None
    calls: int | None = None

    def in_words(self) -> list[str]:
        """Return what is capped, each with its unit.

        >>> Caps(usd=5, calls=10_000).in_words()
        ['5 USD', '10,000 calls']
        """
        written = zip(("{:g} USD", "{:,} tokens", "{:,} calls"), self, strict=True)
        return [words.format(cap) for words, cap in written if cap is not None]

    def left(self, spent: Amount, share: float = 1.0, of_share: Amount | None = None) -> Caps:
        """Return a share of what is left, less what of that share was spent; calls and tokens are whole.

        >>> Caps(usd=5, calls=11).left(Amount(usd=1, calls=1), 0.5, Amount(usd=0.5))
        Caps(usd=1.5, tokens=None, calls=5)
        """
        mine = of_share or NOTHING
        return Caps(
            None if self.usd is None else max(0.0, (self.usd - spent.usd) * share - mine.usd),
            None if self.tokens is None else max(0, int((self.tokens - spent.tokens) * share) - mine.tokens),
            None if self.calls is None else max(0, int((self.calls - spent.calls) * share) - mine.calls),
        )

    def reached(self, spent: Amount) -> Caps:
        """Return those of the caps that leave nothing to be spent.

        >>> Caps(usd=5, calls=10).reached(Amount(usd=0.5, calls=10))
        Caps(usd=None, tokens=None, calls=10)
        """
        return Caps(
            None if self.usd is None or spent.usd < self.usd else self.usd,
            None if self.tokens is None or spent.tokens < self.tokens else self.tokens,
            None if self.calls is None or spent.calls < self.calls else self.calls,
        )


class Amount(NamedTuple):
    """What calls cost, in the units of `Caps`."""

    usd: float = 0.0
    tokens: int = 0
    calls: int = 0

    def plus(self, other: Amount, times: int = 1) -> Amount:
        """Add another amount, so often.

        >>> Amount(0.5, 100, 1).plus(Amount(0.25, 10, 1), 2)
        Amount(usd=1.0, tokens=120, calls=3)
        """
        return Amount(
            self.usd + times * other.usd, self.tokens + times * other.tokens, self.calls + times * other.calls
        )

    def largest(self, other: Amount) -> Amount:
        return Amount(max(self.usd, other.usd), max(self.tokens, other.tokens), max(self.calls, other.calls))


NOTHING = Amount()


class Budget:
    """What calls may cost together: US dollars, tokens, and calls. Thread-safe.

    A call begins while what was spent and what the calls under way will cost leave room for it; each is
    taken to cost as much as the dearest call of its model so far, and the first one of a model is made
    alone. Calls are admitted in the order in which they asked. A cap in dollars or tokens is passed by one
    call at most, or by what calls cost beyond the dearest; a cap in calls never.

    caps: a number is US dollars; None: no cap
    within: a further budget that the same calls are paid from
    spent: of ended calls; uncounted tokens and unknown prices are not in it
    """

    def __init__(self, caps: Caps | float | None, within: Budget | None = None) -> None:
        self.caps = caps if isinstance(caps, Caps) else Caps(caps)
        self.within = within
        self.spent = NOTHING
        self._dearest: dict[str, Amount] = {}
        self._under_way: Counter[str] = Counter()
        self._of_model: dict[str, FairSlots] = {}
        self._of_all = FairSlots()
        self._changed = threading.Condition()
        self._changed_at = monotonic()

    @property
    def spent_usd(self) -> float:
        return self.spent.usd

    def open(self, model: str) -> bool:
        """False: a cap is reached. Raises TimeoutError: no call has ended for `STALLED` seconds."""
        if self.caps == Caps():
            with self._changed:
                self._under_way[model] += 1
        elif not self._open(model):
            return False
        is_open = False
        try:
            is_open = self.within is None or self.within.open(model)
        finally:
            if not is_open:
                self._book(model, NOTHING, answered=False)
        return is_open

    def _open(self, model: str) -> bool:
        since = monotonic()
        with self._changed:
            of_model = self._of_model.setdefault(model, FairSlots())
        with of_model.slot():
            self._wait(lambda: not self._is_first_under_way(model), since)
            with self._of_all.slot(), self._changed:
                self._wait(lambda: self._has_room(model), since)
                if self._is_spent():
                    return False
                self._under_way[model] += 1
        return True

    def _wait(self, is_ready: Callable[[], bool], since: float) -> None:
        with self._changed:
            while not (self._is_spent() or is_ready()):
                if is_cancelled():
                    raise CancelledError
                if monotonic() - max(since, self._changed_at) >= STALLED:
                    raise TimeoutError(f"The calls that hold the budget have not ended for {STALLED:g} s.")
                self._changed.wait(LOOK)

    def close(self, model: str, usd: float | None, tokens: int | None = None, *, answered: bool) -> None:
        self._book(model, Amount(usd or 0.0, tokens or 0, 1), answered=answered)
        if self.within is not None:
            self.within.close(model, usd, tokens, answered=answered)

    def _book(self, model: str, cost: Amount, *, answered: bool) -> None:
        with self._changed:
            self._under_way[model] -= 1
            self.spent = self.spent.plus(cost)
            if answered:
                self._dearest[model] = self._dearest.get(model, NOTHING).largest(cost)
            self._changed_at = monotonic()
            self._changed.notify_all()

    @property
    def refusal(self) -> str:
        reached = self.caps.reached(self.spent)
        if self.within is not None and not reached.in_words():
            return self.within.refusal
        return f"The budget of {' and of '.join(reached.in_words())} is spent."

    def _is_spent(self) -> bool:
        return self.caps.reached(self.spent) != Caps()

    def _is_first_under_way(self, model: str) -> bool:
        has_cost = self.caps.usd is not None or self.caps.tokens is not None
        return has_cost and model not in self._dearest and self._under_way[model] > 0

    def _has_room(self, model: str) -> bool:
        under_way = self._under_way.total()
        if not under_way:
            return True
        if self.caps.calls is not None and self.spent.calls + under_way >= self.caps.calls:
            return False
        after = self.spent.plus(self._dearest.get(model, NOTHING))
        for name, count in self._under_way.items():
            after = after.plus(self._dearest.get(name, NOTHING), count)
        return _within(after.usd, self.caps.usd) and _within(after.tokens, self.caps.tokens)


def _within(amount: float, cap: float | None) -> bool:
    return cap is None or amount <= cap


class Budgets:
    """The budgets of one run, by whose they are: what one stage has spent is gone for the next.

    share: the part that may be spent here, of what ``before`` has left
    here: what of the part itself was spent, by a run that was killed
    within: a budget that all of them are parts of
    """

    def __init__(
        self,
        share: float = 1.0,
        before: Mapping[str, Amount] | None = None,
        here: Mapping[str, Amount] | None = None,
        within: Budget | None = None,
    ) -> None:
        self._share = share
        self._before = before or {}
        self._here = here or {}
        self._within = within
        self._held: dict[tuple[object, Caps], Budget] = {}
        self._lock = threading.Lock()

    def of(self, whose: object, caps: Caps | float | None, within: Budget | None = None) -> Budget:
        known = caps if isinstance(caps, Caps) else Caps(caps)
        name = _name(whose)
        with self._lock:
            if (whose, known) not in self._held:
                left = known.left(self._before.get(name, NOTHING), self._share, self._here.get(name, NOTHING))
                self._held[(whose, known)] = Budget(left, within or self._within)
            return self._held[(whose, known)]

    def spent(self) -> dict[str, Amount]:
        """Return what was spent here, by whose budget it was of.

        >>> budgets = Budgets()
        >>> budgets.of("news", 5).close("m", 0.5, 100, answered=True)
        >>> budgets.spent()
        {'"news"': Amount(usd=0.5, tokens=100, calls=1)}
        """
        with self._lock:
            held = [{_name(whose): budget.spent} for (whose, _), budget in self._held.items()]
        return {name: amount for name, amount in sum_of(held).items() if amount != NOTHING}


def sum_of(parts: Sequence[Mapping[str, Amount]]) -> dict[str, Amount]:
    """Add up what was spent, by the name of the budget.

    >>> sum_of([{"a": Amount(1, 2, 3)}, {"a": Amount(1, 0, 0), "b": Amount()}])["a"]
    Amount(usd=2.0, tokens=2, calls=3)
    """
    total: dict[str, Amount] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, Amount()).plus(amount)
    return total


def _name(whose: object) -> str:
    return json.dumps(whose, default=str)
