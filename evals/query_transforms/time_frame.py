"""Query transform `time_frame`: filters documents by the publication dates that a question asks for."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from functools import reduce
from operator import and_, or_
from typing import ClassVar, Literal

from rag_assay.evals.query_transforms.llm.model_transform import ByModel
from rag_assay.evals.query_transforms.llm.time_frame import PROMPT, window_by_model
from rag_assay.evals.query_transforms.metadata_filters.prefilter import IfEmpty, in_window, prefilter_query
from rag_assay.evals.query_transforms.rules.publication_windows import DateWindow, windows
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.contract import OpenTransform
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.query_interpretation import window_value
from rag_assay.warehouse.inference.prompt import Prompt


class TimeFrame(ByModel):
    """Filters by the days of publication that a question names ("published before 2005", "gestern").

    Dates that the content is about ("the target for 2030", "the season 2019/20") filter nothing.

    undated: documents without a known day are dropped or kept where a window is asked for
    if_empty: relax (search without the window, with a note) | keep (find nothing)
    """

    code_version: ClassVar[str] = "2"
    kind: ClassVar[str] = "time_frame"
    prompt: ClassVar[Prompt] = PROMPT

    undated: Literal["drop", "keep"] = "drop"
    if_empty: IfEmpty = "relax"

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenTransform:
        """Keep questions to their windows where they have one."""
        return OpenTransform(lambda query: self._read(query, index, context))

    def _read(self, query: Query, index: OpenIndex, context: RetrievalContext) -> list[Query]:
        if not len(index) or not query.text.strip():
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
        if self.by == "llm":
            window = window_by_model(self, query, context)
            if window is not None:
                return [window] if window != DateWindow(None, None) else []
        return windows(query.text, query.asked_at)


def _overlap(found: list[DateWindow]) -> bool:
    first = max((one.first for one in found if one.first), default=date.min)
    last = min((one.last for one in found if one.last), default=date.max)
    return first <= last
