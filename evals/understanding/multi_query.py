"""Query transform `multi_query`: searches several wordings of a question, fused by reciprocal rank."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from evals.retrieving.contract import Query
from evals.retrieving.index import OpenIndex
from evals.retrieving.question_words import MAX_READ
from evals.understanding.by_model.model_transform import ByModel
from evals.understanding.by_model.multi_query import PROMPT, wordings_by_model
from evals.understanding.rewriting import rewritten
from evals.understanding.rules.statements import keyword_form, statement


class MultiQuery(ByModel):
    """Returns the question and other forms of it.

    By rules there are three: the question, its keywords, and a statement. A model writes as many as asked.

    n: forms at most, the question itself among them
    """

    code_version: ClassVar[str] = "2"
    kind: ClassVar[str] = "multi_query"
    prompt: ClassVar[str] = PROMPT

    n: Annotated[int, Field(ge=1, le=8)] = 3

    def read(self, query: Query, index: OpenIndex) -> list[Query]:
        """Return the query in up to `n` forms, itself first."""
        if not query.text.strip() or self.n == 1:
            return [query]
        texts = dict.fromkeys(text.strip() for text in (query.text, *self._forms(query)))
        queries = [query, *(rewritten(query, text) for text in texts if text and text != query.text.strip())]
        return queries[: self.n]

    def _forms(self, query: Query) -> tuple[str, ...]:
        if self.by == "llm":
            wordings = wordings_by_model(self, query, self.n - 1)
            if wordings is not None:
                return wordings
        short = query.text[:MAX_READ]
        return (keyword_form(short), statement(short))
