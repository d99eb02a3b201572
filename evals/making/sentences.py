"""Sentences that a question is made of: which ones, and what becomes of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from assets.chunking.sentence_splitter import sentence_places
from evals.making.candidate import Candidate, Quote
from evals.making.texts import SourceText
from evals.making.wording import LEAST

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


def answered_by(kind: str, question: str, text: SourceText, quote: str, plain: str) -> Candidate:
    """Return a question that one sentence answers, which is its ground truth, too."""
    assert text.language is not None  # noqa: S101 -- of others no sentence is understood
    evidence = (Quote(text.doc_id, text.source, text.url, quote),)
    return Candidate(kind, question, text.language, evidence, ground_truth=plain)
