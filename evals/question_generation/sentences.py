"""Sentences that a question is made of: which ones, and what becomes of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from rag_assay.assets.chunking.sentence_splitter import sentence_places
from rag_assay.evals.question_generation.candidate import Language, QuestionCandidate, Quote
from rag_assay.evals.question_generation.text_rules import LEAST, flaw
from rag_assay.evals.question_generation.texts import SourceText

SHORTEST, LONGEST = 5, 60  # words
_HEADING_LINES = re.compile(r"\A(?:\s*#{1,6} [^\n]*\n)+\s*|\A\s*[-*+•] ")
_ENDS = ".!;”\"'’)“"
_LINK = re.compile(r"!?\[([^\]\[]*)\]\([^()]*(?:\([^()]*\)[^()]*)*\)")
_STRESS = re.compile(r"(?<!\w)[*_]{1,3}(?=\S)([^*_]+)(?<=\S)[*_]{1,3}(?!\w)")


def sentences_of(text: SourceText) -> list[tuple[str, str]]:
    """Return each sentence that has the length of one: as it stands, and with single spaces.

    Those of the last document are kept, for several kinds of questions. Headings of Markdown are no
    part of a sentence; of links and stress the words stay.
    """
    return _kept(text.text)


@lru_cache(maxsize=1)
def _kept(text: str) -> list[tuple[str, str]]:
    return list(_sentences(text))


def _sentences(text: str) -> Iterator[tuple[str, str]]:
    for start, end in sentence_places(text):
        quote = _HEADING_LINES.sub("", text[start:end])
        plain = " ".join(_STRESS.sub(r"\1", _LINK.sub(r"\1", quote)).split())
        if len(plain) >= LEAST and SHORTEST <= plain.count(" ") + 1 <= LONGEST and plain[-1] in _ENDS:
            yield quote, plain


def turned_around(
    text: SourceText, kind: str, question_of: Callable[[str, Language], str | None]
) -> Iterator[QuestionCandidate]:
    """Yield the question that each sentence of a text answers, where it answers one that can be asked.

    The sentence is its ground truth, too.

    question_of: a sentence and its language -> the question, None where it answers none
    """
    if text.language is None:
        return
    for quote, plain in sentences_of(text):
        question = question_of(plain, text.language)
        if question and not flaw(question):
            evidence = (Quote(text.doc_id, text.source, text.url, quote),)
            yield QuestionCandidate(kind, question, text.language, evidence, ground_truth=plain)
