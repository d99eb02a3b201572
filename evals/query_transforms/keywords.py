"""Query transform `keywords`: searches with a question's content words and their synonyms."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from rag_assay.evals.query_transforms.llm.keywords import MOST, PROMPT, keywords_by_model
from rag_assay.evals.query_transforms.llm.model_transform import ByModel
from rag_assay.evals.query_transforms.query_rewriting import rewritten, with_text
from rag_assay.evals.query_transforms.rules.corpus_synonyms import Source, nearest, synonyms
from rag_assay.evals.query_transforms.rules.statements import keyword_form
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.contract import OpenTransform
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.question_words import MAX_READ, content, language
from rag_assay.warehouse.inference.prompt import Prompt


class Keywords(ByModel):
    """Rewrites a question as its keywords; by rules for word search alone, its vector stays the question's.

    By rules, keywords are the words that are no stop words, and synonyms words of the corpus itself. With one
    synonym for each keyword, nDCG@10 fell on all of six collections, on four significantly
    (docs/retrieval-results.md).

    synonyms: how many of each keyword, 0 to 2. Default: 0; 1 with `by: llm`, whose model lists them anyway
    source: vocabulary (corpus words of the same stem, and compounds with the word) | vectors (the corpus
        words that the index's embedder puts nearest, at a cosine of 0.6 or more; embeds the vocabulary once)
    style: weighted (keywords count twice, all other words once) | keywords (they take the question's place) |
        append (synonyms are put behind the question)
    """

    code_version: ClassVar[str] = "3"
    kind: ClassVar[str] = "keywords"
    prompt: ClassVar[Prompt] = PROMPT

    synonyms: Annotated[int, Field(ge=0, le=2)] = 0
    source: Source = "vocabulary"
    style: Literal["weighted", "keywords", "append"] = "weighted"

    @model_validator(mode="before")
    @classmethod
    def _set_dependent_defaults(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("by") == "llm":
            return {"synonyms": 1, **value}
        return value

    @model_validator(mode="after")
    def _adds_something(self) -> Self:
        if self.style == "append" and not self.synonyms:
            raise ValueError(
                "`style: append` adds synonyms: say how many of each keyword, as in `synonyms: 1`"
            )
        return self

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenTransform:
        """Make the keywords of questions their texts."""
        return OpenTransform(lambda query: self._read(query, index, context))

    def _read(self, query: Query, index: OpenIndex, context: RetrievalContext) -> list[Query]:
        if not query.text.strip():
            return [query]
        by_model = keywords_by_model(self, query, context) if self.by == "llm" else None
        found = self._by_rules(query, index, context) if by_model is None else by_model
        if not found:
            return [query]
        added = [word for words in found.values() for word in words[: self.synonyms]]
        if self.style == "append":
            text = query.text
        else:
            text = keyword_form(query.text[:MAX_READ]) if by_model is None else " ".join(found)
            text = f"{query.text} {text}" if self.style == "weighted" else text
        known = {word.casefold() for word in text.split()}
        new = [word for word in dict.fromkeys(added) if word.casefold() not in known]
        self._record(query, found, new)
        text = " ".join([text, *new])
        return [with_text(query, text) if by_model is None else rewritten(query, text, context.embed)]

    def _record(self, query: Query, found: dict[str, list[str]], new: list[str]) -> None:
        """Record the words of the question and those that were added, each by the word that brought it."""
        for word, others in found.items():
            query.understand(self.kind, "word", word, word)
            for other in others[: self.synonyms]:
                if other in new:
                    query.understand(self.kind, "synonym", word, other)

    def _by_rules(self, query: Query, index: OpenIndex, context: RetrievalContext) -> dict[str, list[str]]:
        plain = [word.text for word in content(query.text[:MAX_READ])][:MOST]
        if not self.synonyms or not len(index):
            return {word: [] for word in plain}
        if self.source == "vectors":
            return nearest(plain, self.synonyms, context.embed, index)
        tongue = language(query.text[:MAX_READ])
        return {word: synonyms(word, tongue, self.synonyms, index) for word in plain}
