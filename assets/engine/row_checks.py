"""Checks of rows: how many have a fault, which come first, and how many may have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rag_assay.assets.engine.stage import Check
from rag_assay.warehouse.status import Status

FIRST = 10  # rows with a fault that are named
LONGEST = 200  # characters of a row's name: it may be crawled text
WITHIN_BUDGET = "No call was left out because the budget was spent; the next run makes it."


def at_most(
    name: str,
    share: float,
    found: Sequence[str],
    of: int,
    what: str,
    *,
    severe: bool = False,
    numbers: Mapping[str, object] | None = None,
) -> Check:
    """Return a check that fails if more than a share (0 to 1) of rows have a fault. ``what`` continues "2
    of 9".

    >>> at_most("whole", 0.5, ["b: gone", "c: gone"], 3, "pages are gone").sentence
    'the check `whole` fails: 2 of 3 pages are gone, first b: gone'
    """
    first = [_cut(one) for one in found[:FIRST]]
    text = f"{len(found)} of {of} {what}{f', first {first[0]}' if first else ''}"
    counted = {"count": len(found), "of": of, "threshold": share, "first": first}
    return Check(name, len(found) <= share * of, text, {**counted, **(numbers or {})}, severe=severe)


def within_budget(rows: Iterable[tuple[str, str]]) -> Check:
    """Return the check that no row (name, status) was skipped because the budget was spent.

    >>> within_budget([("q1", "ok"), ("q2", "over_budget")]).passed
    False
    """
    known = list(rows)
    unasked = [name for name, status in known if status == Status.OVER_BUDGET]
    return at_most("within_budget", 0, unasked, len(known), "calls were not made: the budget was spent")


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
