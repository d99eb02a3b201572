"""Titles and headings as questions; what answers them is the text below them."""

from __future__ import annotations

from collections.abc import Iterator

from rag_assay.evals.question_generation.candidate import QuestionCandidate, Quote
from rag_assay.evals.question_generation.drop_reasons import Drop
from rag_assay.evals.question_generation.text_rules import content_words, flaw, is_generic, opening, tidy_text
from rag_assay.evals.question_generation.texts import SourceText

ALONE = 4  # words that say something, from which on a heading is understood without its document's title


def title_of(text: SourceText) -> QuestionCandidate | Drop:
    """Return the title of a document as a question; what answers it is the opening of the document."""
    title = tidy_text(text.title)
    if not title:
        return Drop("title", "the document has none")
    reason = flaw(title) or ("generic" if is_generic(title) else None)
    if reason is None and len(content_words(title)) < 2:
        reason = "a single word"
    if reason:
        return Drop("title", reason)
    return _asked("title", title, text, *text.lead)


def headings_of(text: SourceText) -> Iterator[QuestionCandidate | Drop]:
    """Yield the headings of a document as questions, with its title where they are not understood alone."""
    title = tidy_text(text.title)
    for section in text.sections:
        heading = tidy_text(section.heading)
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


def _asked(kind: str, question: str, text: SourceText, start: int, end: int) -> QuestionCandidate | Drop:
    if text.language is None:
        return Drop(kind, "neither English nor German")
    quote = opening(text.text, start, end)
    if quote is None:
        return Drop(kind, "next to no text below it")
    evidence = (Quote(text.doc_id, text.source, text.url, quote),)
    return QuestionCandidate(kind, question, text.language, evidence)
