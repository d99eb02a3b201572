"""Asks a question in several forms, whose rankings the chain fuses by reciprocal rank."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from evals.retrieving.contract import Query
from evals.retrieving.index import OpenIndex
from evals.understanding.by_model.model_transform import ByModel, quoted
from evals.understanding.rewriting import rewritten
from evals.understanding.rules.question_words import MAX_READ
from evals.understanding.rules.statements import keyword_form, statement
from warehouse.recipe import Strict


class _Said(Strict):
    questions: Annotated[tuple[Annotated[str, Field(max_length=400)], ...], Field(min_length=1, max_length=8)]

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if not any(text.strip() for text in self.questions):
            raise ValueError("no question has a letter")
        return self


class MultiQuery(ByModel):
    """Returns the question and other forms of it.

    By rules there are three: the question, its keywords, and a statement. A model writes as many as asked.

    n: forms at most, the question itself among them
    """

    code_version: ClassVar[str] = "2"
    kind: ClassVar[str] = "multi_query"
    prompt: ClassVar[str] = (
        "Write other wordings of a question for a search engine, in its own language: same meaning, other "
        "words, as different from each other as they can be."
    )

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
            item = {"type": "string", "maxLength": 400}
            many = {"type": "array", "items": item, "minItems": 1, "maxItems": self.n - 1}
            user = f"Write {self.n - 1}.\n{quoted(query.text)}"
            said = self.ask(query, _Said, {"questions": many}, user, 120 * self.n)
            if said is not None:
                return said.questions
        short = query.text[:MAX_READ]
        return (keyword_form(short), statement(short))
