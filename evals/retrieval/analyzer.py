"""Analyzers: how a lexical retriever tells words apart (plain, stemmed or lemmatised)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from rag_assay.assets.indexing.lexical import Lexical
from rag_assay.assets.tokenization.stems import LANGUAGES as CODES
from rag_assay.assets.tokenization.stems import Language, stemmer
from rag_assay.assets.tokenization.words import plain_tokens
from rag_assay.evals.word_lists import LANGUAGES, function_words

if TYPE_CHECKING:
    import numpy.typing as npt

Tokenizer = Literal["plain", "stemmed", "lemmatised"]
_CONTRACTION = re.compile(r"(?<=[a-z])['’](?:s|t|d|m|ll|re|ve)\b", re.IGNORECASE)
REMEMBERED = 200_000  # words whose form is remembered: some 30 MB


def question_tokens(question: str, *, contracted: bool = True) -> list[str]:
    """Return the plain words of a question, letters and accents composed (NFC) as in all documents.

    A question may be typed or pasted in parts (`a` and a combining diaeresis), and a part is no letter.

    contracted: whether the ends of contractions are words: without them, `t` is the cell and not the verb

    >>> question_tokens("Don't T cells need the Fa\u0308hre?")
    ['don', 't', 't', 'cells', 'need', 'the', 'fähre']
    >>> question_tokens("Don't T cells need the Fa\u0308hre?", contracted=False)
    ['don', 't', 'cells', 'need', 'the', 'fähre']
    """
    composed = unicodedata.normalize("NFC", question)
    return plain_tokens(composed if contracted else _CONTRACTION.sub("", composed))


class Analyzer(NamedTuple):
    """How text is split into words.

    tokenizer: plain (as they stand, lower-cased), stemmed (Snowball: Porter 1980 and its sequels) or
        lemmatised (simplemma's dictionaries)
    language: of stems and lemmas; None: one that has neither, whose words count as they stand
    functional: whether function words count: the articles, pronouns and so on of `evals.word_lists`, which
        has those of English and German
    """

    tokenizer: Tokenizer = "plain"
    language: Language | None = "english"
    functional: bool = True

    def forms(self, words: Iterable[str]) -> list[str | None]:
        """Return the form under which each plain word is counted; None: it is not.

        >>> Analyzer("stemmed").forms(["the", "studies"])
        ['the', 'studi']
        >>> Analyzer("lemmatised", "english", functional=False).forms(["the", "studies"])
        [None, 'study']
        >>> Analyzer("lemmatised", "german", functional=False).forms(["die", "häuser", "gemeinden", "ging"])
        [None, 'haus', 'gemeinde', 'gehen']
        """
        form = _form(self.tokenizer, self.language)
        ignored = frozenset() if self.functional else self.function_words
        return [None if word in ignored else form(word) for word in words]

    @property
    def function_words(self) -> frozenset[str]:
        known = next((one for one in LANGUAGES if one == self.language), None)
        return function_words(known) if known else frozenset()

    @property
    def as_they_stand(self) -> bool:
        return (self.tokenizer == "plain" or self.language is None) and (
            self.functional or not self.function_words
        )

    def counted(self, words: Iterable[str]) -> list[str]:
        return [form for form in self.forms(words) if form is not None]


@lru_cache
def _form(tokenizer: Tokenizer, language: Language | None) -> Callable[[str], str]:
    if tokenizer == "plain" or language is None:
        return str
    return stemmer(language) if tokenizer == "stemmed" else lru_cache(REMEMBERED)(_lemma_of(language))


def lemma_code(language: Language) -> str | None:
    """Return what simplemma calls a language; None: it has no dictionary of it.

    >>> lemma_code("spanish"), lemma_code("yiddish")
    ('es', None)
    """
    from simplemma.strategies.dictionaries.dictionary_factory import SUPPORTED_LANGUAGES

    codes = (code for code, named in CODES.items() if named == language and code in SUPPORTED_LANGUAGES)
    return next(codes, None)


def _lemma_of(language: Language) -> Callable[[str], str]:
    import simplemma

    code = lemma_code(language)
    if code is None:
        return str

    def lemma(word: str) -> str:
        found = simplemma.lemmatize(word, lang=code)
        if language == "german" and found == word:  # a noun that the dictionary knows by its capital only
            found = simplemma.lemmatize(word.capitalize(), lang=code)
        return found.casefold()

    return lemma


def with_titles(lexical: Lexical, titles: Lexical, times: int) -> Lexical:
    words = sorted({*lexical.words, *titles.words})
    numbers = {word: number for number, word in enumerate(words)}
    parts = (lexical, titles)
    owner = [
        np.repeat(np.array([numbers[word] for word in part.words], np.int64), np.diff(part.begins))
        for part in parts
    ]
    rows = np.concatenate([part.rows for part in parts])
    counts = np.concatenate([lexical.counts, times * titles.counts])
    return merged(words, np.concatenate(owner), rows, counts, len(titles.lengths))


def merge_forms(lexical: Lexical, analyzer: Analyzer) -> Lexical:
    if analyzer.as_they_stand:
        return lexical
    forms = analyzer.forms(lexical.words)
    words = sorted({form for form in forms if form is not None})
    numbers = {word: number for number, word in enumerate(words)}
    new = np.array([-1 if form is None else numbers[form] for form in forms], np.int64)
    owner = np.repeat(new, np.diff(lexical.begins))
    kept = owner >= 0
    return merged(
        words, owner[kept], np.asarray(lexical.rows)[kept], lexical.counts[kept], len(lexical.lengths)
    )


def merged(
    words: list[str],
    owner: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int32],
    counts: npt.NDArray[np.int32],
    chunks: int,
) -> Lexical:
    """Make postings of (word number, row, count) triples, in any order; equal pairs are summed."""
    pairs = owner * max(1, chunks) + rows
    order = np.argsort(pairs, kind="stable")
    pairs = pairs[order]
    first = np.flatnonzero(np.diff(pairs, prepend=-1))
    summed = np.add.reduceat(np.asarray(counts)[order], first) if len(first) else np.zeros(0, np.int32)
    distinct = pairs[first]
    begins = np.searchsorted(distinct, np.arange(len(words) + 1) * max(1, chunks)).astype(np.int64)
    where = (distinct % max(1, chunks)).astype(np.int32)
    lengths = np.bincount(where, weights=summed, minlength=chunks).astype(np.int32)
    return Lexical(words, begins, where, summed.astype(np.int32), lengths)
