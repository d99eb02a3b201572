"""Keeps a question to the documents that were published in the window that it asks for."""

from __future__ import annotations

from datetime import date
from functools import reduce
from operator import and_, or_
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from evals.retrieving.contract import Query
from evals.retrieving.index import OpenIndex
from evals.understanding.by_model.model_transform import ByModel, quoted
from evals.understanding.filtering.prefilter import IfEmpty, in_window, prefiltered
from evals.understanding.rules.publication_windows import Window, windows
from warehouse.recipe import Strict

_Day = Annotated[str, Field(max_length=10)]


class _Said(Strict):
    """What a model says of a question's window; empty texts: open, or no window at all."""

    published_from: _Day
    published_to: _Day

    @model_validator(mode="after")
    def _is_a_window(self) -> Self:
        window = self.window
        if window.first and window.last and window.first > window.last:
            raise ValueError("the window ends before it begins")
        return self

    @property
    def window(self) -> Window:
        """The window in days."""
        ends = (self.published_from, self.published_to)
        first, last = (date.fromisoformat(end) if end else None for end in ends)
        return Window(first, last)


class TimeFrame(ByModel):
    """Filters by the days of publication that a question names ("published before 2005", "gestern").

    Dates that the content is about ("the target for 2030", "the season 2019/20") filter nothing.

    undated: documents without a known day are dropped or kept where a window is asked for
    if_empty: relax (search without the window, with a note) | keep (find nothing)
    """

    code_version: ClassVar[str] = "2"
    kind: ClassVar[str] = "time_frame"
    prompt: ClassVar[str] = (
        "Say in which days the documents that a question asks for were published, as ISO dates; leave a side "
        "empty that is open. A question without words of publishing asks for no window: leave both empty. "
        "Dates that the content is about (a target for 2030, a season, an event, a deadline) are no window."
    )

    undated: Literal["drop", "keep"] = "drop"
    if_empty: IfEmpty = "relax"

    def read(self, query: Query, index: OpenIndex) -> list[Query]:
        """Return the query, kept to its window where it has one."""
        if not len(index) or not query.text.strip():
            return [query]
        found = self._windows(query)
        parts = [in_window(index, one.first, one.last, undated=self.undated == "keep") for one in found]
        if not parts:
            return [query]
        both = reduce(and_, parts)
        # "in 2019 or 2021": windows without a common day are alternatives.
        chosen = both if _overlap(found) else reduce(or_, parts)
        return [prefiltered(query, self.kind, [chosen], self.if_empty)]

    def _windows(self, query: Query) -> list[Window]:
        if self.by == "llm":
            user = f"Asked on: {query.asked_at or 'not known'}\n{quoted(query.text)}"
            day: dict[str, Any] = {"type": "string", "maxLength": 10}
            said = self.ask(query, _Said, {"published_from": day, "published_to": day}, user, 80)
            if said is not None:
                return [said.window] if said.window != Window(None, None) else []
        return windows(query.text, query.asked_at)


def _overlap(found: list[Window]) -> bool:
    first = max((one.first for one in found if one.first), default=date.min)
    last = min((one.last for one in found if one.last), default=date.max)
    return first <= last
