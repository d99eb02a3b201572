"""Embeds a passage that would answer a question in place of the question (HyDE)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import StringConstraints

from evals.retrieving.contract import Query
from evals.retrieving.index import OpenIndex
from evals.understanding.by_model.model_transform import ByModel, quoted
from evals.understanding.rewriting import vector_of
from evals.understanding.rules.question_words import MAX_READ
from evals.understanding.rules.statements import keyword_form, statement
from warehouse.recipe import Strict


class _Said(Strict):
    passage: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1_200)]


class Hyde(ByModel):
    """Hypothetical document embeddings (Gao et al., ACL 2023): the vector of an invented answer.

    The vector is that of the mean of the question's and the passage's, as in the paper. Only a model can
    invent an answer; by rules the passage is a mere template, the question as a statement with its keywords,
    which says nothing new: a baseline to measure the model against, no stand-in for it. The passage is
    embedded by the query side of the embedder, which matters where a model has different prompts for both.

    text: question (words are searched as asked, only the vector changes) | passage (both)
    """

    code_version: ClassVar[str] = "2"
    kind: ClassVar[str] = "hyde"
    prompt: ClassVar[str] = (
        "Write a short passage, in the question's language, as it could stand in a document that answers the "
        "question. Two or three sentences; invent the details that are needed."
    )

    text: Literal["question", "passage"] = "question"

    def read(self, query: Query, index: OpenIndex) -> list[Query]:
        """Return the query with the vector of a hypothetical passage."""
        if not query.text.strip():
            return [query]
        passage = self._passage(query)
        if not passage or passage == query.text:
            return [query]
        text = passage if self.text == "passage" else query.text
        return [replace(query, text=text, vector=vector_of(query, [query.text, passage]))]

    def _passage(self, query: Query) -> str:
        if self.by == "llm":
            bounded = {"passage": {"type": "string", "maxLength": 1_200}}
            said = self.ask(query, _Said, bounded, quoted(query.text), 400)
            if said is not None:
                return said.passage
        short = query.text[:MAX_READ]
        return " ".join(part for part in (statement(short), keyword_form(short)) if part)
