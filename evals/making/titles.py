"""Titles and headings as questions; what answers them is the text below them."""

from __future__ import annotations

from collections.abc import Iterator

from evals.making.candidate import Candidate, Quote
from evals.making.drops import Drop
from evals.making.texts import SourceText
from evals.making.wording import content_words, flaw, is_generic, opening, tidied

ALONE = 4  # words that say something, from which on a heading is understood without its document's title


def title_of(text: SourceText) -> Candidate | Drop:
    """Return the title of a document as a question; what answers it is the opening of the document."""
    title = tidied(text.title)
    if not title:
        return Drop("title", "the document has none")
    reason = flaw(title) or ("generic" if is_generic(title) else None)
    if reason is None and len(content_words(title)) < 2:
        reason = "a single word"
    if reason:
        return Drop("title", reason)
    return _asked("title", title, text, *text.lead)


def headings_of(text: SourceText) -> Iterator[Candidate | Drop]:
    """Yield the headings of a document as questions, with its title where they are not understood alone."""
    title = tidied(text.title)
    for section in text.sections:
        heading = tidied(section.heading)
        if not heading or is_generic(heading):
            yield Drop("heading", "generic")
            continue
        if heading == title:
            continue  # which is asked as the title
        short = len(content_words(heading)) < ALONE
        if short and (not title or is_generic(title)):
            yield Drop("heading", "too short to be understood, and its document has no title")
            continue
        question = f"{title}: {heading}" if short else heading
        reason = flaw(question)
        yield (
            Drop("heading", reason)
            if reason
            else _asked("heading", question, text, section.start, section.end)
        )


def _asked(kind: str, question: str, text: SourceText, start: int, end: int) -> Candidate | Drop:
    if text.language is None:
        return Drop(kind, "neither English nor German")
    quote = opening(text.text, start, end)
    if quote is None:
        return Drop(kind, "next to no text below it")
    evidence = (Quote(text.doc_id, text.source, text.url, quote),)
    return Candidate(kind, question, text.language, evidence)
