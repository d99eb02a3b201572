"""What was understood of a question beside its words, and what of it a person takes away again."""

from __future__ import annotations

from datetime import date
from typing import Literal, NamedTuple, Self

Use = Literal["used", "unused", "relaxed", "removed"]
"""What became of it: it was searched with; it limits nothing (a day to come, a name that no document
carries); it was dropped because nothing was left with it; the person took it away."""

REMOVABLE = ("follow_up", "time_frame", "entities")
"""Query transforms whose understanding can be taken away; what others do is the cell's own way to search."""
LONGEST = 4_000  # characters of a text or value that are kept
_FIRMNESS: tuple[Use, ...] = ("unused", "removed", "relaxed", "used")


class QueryInterpretation(NamedTuple):
    """One thing that was understood of a question.

    step: kind of the query transform that understood it
    kind: standalone (of follow_up), window (of time_frame), the type of an entity (date, season, keyword,
        club, …), expression (of filter), passage (of hyde), wording (of multi_query), word or synonym (of
        keywords)
    text: the words of the question that say it; empty where it is no words of its own
    value: what it is taken for: the question that stands alone, a window as `days_of` reads it, what the
        corpus calls an entity, an expression in JSON, a text or word that is searched for
    status: what became of it
    """

    step: str
    kind: str
    text: str
    value: str
    status: Use = "used"

    @property
    def fact(self) -> tuple[str, str, str]:
        """What makes it the same thing when it is understood twice, from other words."""
        return self.step, self.kind, self.value

    @property
    def is_removable(self) -> bool:
        """Whether a question can be asked without it."""
        return self.step in REMOVABLE

    def or_firmer(self, other: QueryInterpretation) -> QueryInterpretation:
        """Return it with the status of another reading of the same, if that weighs more."""
        firmer = max(self.status, other.status, key=_FIRMNESS.index)
        return self if firmer == self.status else self._replace(status=firmer)


class Removal(NamedTuple):
    """What a question is asked without.

    step: follow_up | time_frame | entities
    kind: of what the step understands; None: every kind
    value: of one thing alone; None: all of the kind

    >>> known = QueryInterpretation("entities", "club", "Kohlenbach", "SV Kohlenbach 07")
    >>> Removal("entities", "club").covers(known), Removal("entities", "season").covers(known)
    (True, False)
    """

    step: str
    kind: str | None = None
    value: str | None = None

    @classmethod
    def of(cls, one: QueryInterpretation) -> Self:
        """Return the removal of that one thing."""
        return cls(one.step, one.kind, one.value)

    @classmethod
    def read(cls, text: str) -> Self:
        """Return what `STEP`, `STEP:KIND` or `STEP:KIND:VALUE` takes away.

        >>> Removal.read("entities:club:FC: the first")
        Removal(step='entities', kind='club', value='FC: the first')

        Raises:
            ValueError: the step is none that can be taken away.
        """
        step, _, rest = text.strip().partition(":")
        kind, _, value = rest.partition(":")
        if step not in REMOVABLE:
            raise ValueError(f"{step[:40]!r} cannot be taken away; {', '.join(REMOVABLE)} can")
        return cls(step, kind or None, value or None)

    def covers(self, one: QueryInterpretation) -> bool:
        """Return whether it takes that thing away."""
        return self.step == one.step and self.kind in {None, one.kind} and self.value in {None, one.value}


def window_value(first: date | None, last: date | None) -> str:
    """Return the days of a window, both included, as an interval of ISO 8601; `..`: that end is open.

    >>> window_value(None, date(2004, 12, 31))
    '../2004-12-31'
    """
    return "/".join(day.isoformat() if day else ".." for day in (first, last))


def days_of(value: str) -> tuple[date | None, date | None]:
    """Return the first and last day of a window's value; None: that end is open.

    >>> days_of("../2004-12-31")
    (None, datetime.date(2004, 12, 31))

    Raises:
        ValueError: it is no window.
    """
    first, _, last = value.partition("/")
    return _day(first), _day(last)


def _day(text: str) -> date | None:
    return None if text == ".." else date.fromisoformat(text)
