"""The window of publication that a question asks for, as a language model reads it."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Self

from pydantic import Field, model_validator

from rag_assay.evals.query_transforms.llm.model_transform import DATA_ONLY, ByModel, quote_input
from rag_assay.evals.query_transforms.rules.publication_windows import DateWindow
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.query import Query
from rag_assay.warehouse.inference.prompt import Prompt
from rag_assay.warehouse.recipe import Strict

PROMPT = Prompt(
    system=(
        "Say in which days the documents that a question asks for were published, as ISO dates; leave a side "
        "empty that is open. A question without words of publishing asks for no window: leave both empty. "
        "Dates that the content is about (a target for 2030, a season, an event, a deadline) are no window."
    ),
    rules=DATA_ONLY,
)
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
        """The window in days."""
        ends = (self.published_from, self.published_to)
        first, last = (date.fromisoformat(end) if end else None for end in ends)
        return DateWindow(first, last)


def window_by_model(transform: ByModel, query: Query, context: RetrievalContext) -> DateWindow | None:
    """Return the window of a question, open on both sides where it asks for none.

    None where the model's reply cannot be used.
    """
    user = f"Asked on: {query.asked_at or 'not known'}\n{quote_input(query.text)}"
    reply = transform.ask(query, context, TimeFrameReply, user, _MAX_TOKENS)
    return None if reply is None else reply.window
