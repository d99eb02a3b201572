"""A budget in US dollars that many threads may spend from at once."""

from __future__ import annotations

import threading
from collections import Counter


class Budget:
    """US dollars that calls may cost together.

    A call is let through while what was spent, and what the calls under way will cost, leave room for it:
    each is taken to cost as much as the dearest call of its model so far, and the first call of a model is
    made alone. Otherwise it waits for those under way, and is refused once the limit is spent. So the limit
    is passed by one call, as it is where calls are made one by one, or by what calls cost beyond the dearest.

    limit_usd: None: no limit
    within: a further budget that the same calls are paid from

    Safe to use from many threads.
    """

    def __init__(self, limit_usd: float | None, within: Budget | None = None) -> None:
        self.limit_usd = limit_usd
        self.within = within
        self.spent_usd = 0.0
        self._dearest: dict[str, float] = {}
        self._under_way: Counter[str] = Counter()
        self._changed = threading.Condition()

    def open(self, model: str) -> bool:
        """Wait for room for a call of a model; return False when the limit is spent.

        Whoever was let through calls `close`, whatever became of the call.
        """
        with self._changed:
            while not self._has_room(model):
                if self._is_spent():
                    return False
                self._changed.wait()
            self._under_way[model] += 1
        if self.within is None or self.within.open(model):
            return True
        self._book(model, 0.0, answered=False)
        return False

    def close(self, model: str, usd: float | None, *, answered: bool) -> None:
        """Book what a call cost.

        usd: None: not known; such calls do not count
        answered: a call that failed tells nothing of the model's price
        """
        self._book(model, usd or 0.0, answered=answered)
        if self.within is not None:
            self.within.close(model, usd, answered=answered)

    def _book(self, model: str, usd: float, *, answered: bool) -> None:
        with self._changed:
            self._under_way[model] -= 1
            self.spent_usd += usd
            if answered:
                self._dearest[model] = max(self._dearest.get(model, 0.0), usd)
            self._changed.notify_all()

    @property
    def refusal(self) -> str:
        """Why no call is let through any more, in one sentence."""
        if self.within is not None and not self._is_spent():
            return self.within.refusal
        return f"The budget of {self.limit_usd} USD is spent."

    def _is_spent(self) -> bool:
        return self.limit_usd is not None and self.spent_usd >= self.limit_usd

    def _has_room(self, model: str) -> bool:
        if self.limit_usd is None:
            return True
        if self._is_spent():
            return False
        if not self._under_way.total():
            return True
        if model not in self._dearest:
            return not self._under_way[model]
        held = sum(count * self._dearest.get(name, 0.0) for name, count in self._under_way.items())
        return self.spent_usd + held + self._dearest[model] <= self.limit_usd


class Budgets:
    """The budgets of one run, by whose they are: what one stage has spent is gone for the next."""

    def __init__(self) -> None:
        self._held: dict[tuple[object, float | None], Budget] = {}
        self._lock = threading.Lock()

    def of(self, whose: object, limit_usd: float | None, within: Budget | None = None) -> Budget:
        """Return the one budget of an owner with that limit, in US dollars; None: no limit.

        within: a further budget that it is a part of
        """
        with self._lock:
            return self._held.setdefault((whose, limit_usd), Budget(limit_usd, within))
