"""Query transform `keywords`: searches with a question's content words and their synonyms."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from pydantic import Field, model_validator

from rag_assay.evals.query_transforms.model_transform import (
    ByModel,
    keyword_form,
    quote_input,
    rewritten,
    with_text,
)
from rag_assay.evals.retrieval.question_words import MAX_READ, Language, content, language
from rag_assay.warehouse.recipe import Strict

if TYPE_CHECKING:
    import numpy.typing as npt

    from rag_assay.evals.retrieval.context import Embed, RetrievalContext
    from rag_assay.evals.retrieval.index import OpenIndex
    from rag_assay.evals.retrieval.query import Query

Source = Literal["vocabulary", "vectors"]
Matrix: TypeAlias = "npt.NDArray[np.float32]"
SHORTEST = 5  # letters of a word that may be a part of a compound
MOST_WORDS = 4_000  # corpus words that are embedded: the most frequent ones of two chunks or more
NEAR = 0.6  # least cosine of two words that count as synonyms


def synonyms(word: str, language: Language, count: int, index: OpenIndex) -> list[str]:
    """Return corpus words of the same stem, then compounds with the word, the most frequent first."""
    plain = word.casefold()
    alike = [other for other in index.derived(_by_stem, language).of(plain) if other != plain]
    found = sorted(alike, key=lambda other: (-_frequency(index, other), other))
    if len(found) < count and len(plain) >= SHORTEST:
        compounds = [
            other
            for other in index.lexical.words
            if len(other) > len(plain) + 2
            and (other.startswith(plain) or other.endswith(plain))
            and other not in alike
        ]
        found += sorted(compounds, key=lambda other: (-_frequency(index, other), other))
    return found[:count]


def nearest(found: list[str], count: int, embed: Embed | None, index: OpenIndex) -> dict[str, list[str]]:
    if embed is None:
        raise ValueError("synonyms by vectors need the index's embedder, which the context has not")
    if not found:
        return {}
    corpus, vectors = index.derived(_embedded_words, embed)
    if not corpus:
        return {word: [] for word in found}
    scores = embed(found) @ vectors.T
    result = {}
    for word, row in zip(found, scores, strict=True):
        order = np.lexsort((np.arange(len(row)), -row))[: count + 3]
        near = [corpus[i] for i in order if row[i] >= NEAR and corpus[i] != word.casefold()]
        result[word] = near[:count]
    return result


def _embedded_words(index: OpenIndex, embed: Embed) -> tuple[list[str], Matrix]:
    corpus = [word for word in index.lexical.words if _frequency(index, word) >= 2 and word.isalpha()]
    corpus = sorted(corpus, key=lambda word: (-_frequency(index, word), word))[:MOST_WORDS]
    return corpus, embed(corpus) if corpus else np.zeros((0, 1), np.float32)


def _frequency(index: OpenIndex, word: str) -> int:
    return len(index.lexical.postings(word)[0])


class _WordsByStem(NamedTuple):
    """The words of a corpus by their stems."""

    words: dict[str, list[str]]
    stem: Callable[[str], str]

    def of(self, word: str) -> list[str]:
        return self.words.get(self.stem(word), [])


def _by_stem(index: OpenIndex, language: Language) -> _WordsByStem:
    import Stemmer

    stemmer = Stemmer.Stemmer("german" if language == "de" else "english")
    groups: dict[str, list[str]] = defaultdict(list)
    for word in index.lexical.words:
        if word.isalpha():
            groups[stemmer.stemWord(word)].append(word)
    return _WordsByStem(dict(groups), stemmer.stemWord)


_MAX_TOKENS = 600
Word = Annotated[str, Field(max_length=60)]
MOST = 24  # keywords of one question


class Keyword(Strict):
    """A keyword and up to two synonyms of it."""

    word: Word
    synonyms: Annotated[tuple[Word, ...], Field(max_length=2)]


class KeywordsReply(Strict):
    """The model's reply."""

    keywords: Annotated[tuple[Keyword, ...], Field(min_length=1, max_length=MOST)]

    @model_validator(mode="after")
    def _is_not_blank(self) -> Self:
        if not any(one.word.strip() for one in self.keywords):
            raise ValueError("no keyword has a letter")
        return self


def keywords_by_model(
    transform: ByModel, query: Query, context: RetrievalContext
) -> dict[str, list[str]] | None:
    reply = transform.ask(query, context, KeywordsReply, quote_input(query.text), _MAX_TOKENS)
    if reply is None:
        return None
    return {
        one.word.strip(): [word.strip() for word in one.synonyms if word.strip()]
        for one in reply.keywords
        if one.word.strip()
    }


class Keywords(ByModel):
    """Rewrites a question as its keywords; by rules for word search alone, its vector stays the question's.

    By rules, keywords are the words that are no stop words, and synonyms words of the corpus itself. With one
    synonym for each keyword, nDCG@10 fell on all of six collections, on four significantly
    (docs/proof.md).

    synonyms: how many of each keyword, 0 to 2. Default: 0; 1 with `by: llm`, whose model lists them anyway
    source: vocabulary (corpus words of the same stem, and compounds with the word) | vectors (the corpus
        words that the index's embedder puts nearest, at a cosine of 0.6 or more; embeds the vocabulary once)
    style: weighted (keywords count twice, all other words once) | keywords (they take the question's place) |
        append (synonyms are put behind the question)
    """

    code_version: ClassVar[str] = "3"
    kind: ClassVar[str] = "keywords"

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

    def read(self, query: Query, index: OpenIndex, context: RetrievalContext) -> list[Query]:
        by_model = keywords_by_model(self, query, context)
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
