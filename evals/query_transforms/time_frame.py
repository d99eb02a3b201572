"""Query transform `time_frame`: filters documents by the publication dates that a question asks for."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from rag_assay.evals.query_transforms.metadata_filters.predicates import IfEmpty, in_window, prefilter_query
from rag_assay.evals.query_transforms.model_transform import ByModel, quote_input
from rag_assay.evals.query_transforms.rules.publication_windows import DateWindow, windows
from rag_assay.evals.retrieval.query import Query, window_value
from rag_assay.warehouse.recipe import Strict

if TYPE_CHECKING:
    from rag_assay.evals.retrieval.context import RetrievalContext
    from rag_assay.evals.retrieval.index import OpenIndex

_MAX_TOKENS = 80
_Day = Annotated[str, Field(max_length=10)]


class TimeFrameReply(Strict):
    """The model's reply: the first and last day; an empty text for a side that is open."""

    published_from: _Day
    published_to: _Day

    @model_validator(mode="after")
    def _is_a_window(self) -> Self:
        window = self.window
        if window.first and window.last and window.first > window.last:
            raise ValueError("the window ends before it begins")
        return self

    @property
    def window(self) -> DateWindow:
        ends = (self.published_from, self.published_to)
        first, last = (date.fromisoformat(end) if end else None for end in ends)
        return DateWindow(first, last)


class TimeFrame(ByModel):
    """Filters by the days of publication that a question names ("published before 2005", "gestern").

    Dates that the content is about ("the target for 2030", "the season 2019/20") filter nothing.

    undated: documents without a known day are dropped or kept where a window is asked for
    if_empty: relax (search without the window, with a note) | keep (find nothing)
    """

    code_version: ClassVar[str] = "2"
    kind: ClassVar[str] = "time_frame"

    undated: Literal["drop", "keep"] = "drop"
    if_empty: IfEmpty = "relax"

    def read(self, query: Query, index: OpenIndex, context: RetrievalContext) -> list[Query]:
        if not len(index):
            return [query]
        found, parts = [], []
        for one in self._windows(query, context):
            value = window_value(one.first, one.last)
            known = query.understand(self.kind, "window", one.words, value, "unused")
            if known.status != "removed":
                part = in_window(index, one.first, one.last, undated=self.undated == "keep")
                parts.append(replace(part, of=(known,)))
                found.append(one)
        if not parts:
            return [query]
        both = reduce(and_, parts)
        # "in 2019 or 2021": windows without a common day are alternatives.
        chosen = both if _overlap(found) else reduce(or_, parts)
        return [prefilter_query(query, self.kind, [chosen], self.if_empty)]

    def _windows(self, query: Query, context: RetrievalContext) -> list[DateWindow]:
        user = f"Asked on: {query.asked_at or 'not known'}\n{quote_input(query.text)}"
        reply = self.ask(query, context, TimeFrameReply, user, _MAX_TOKENS)
        if reply is not None:
            return [reply.window] if reply.window != DateWindow(None, None) else []
        return windows(query.text, query.asked_at)


def _overlap(found: list[DateWindow]) -> bool:
    first = max((one.first for one in found if one.first), default=date.min)
    last = min((one.last for one in found if one.last), default=date.max)
    return first <= last
