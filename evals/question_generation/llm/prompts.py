"""What the model is told: one file for each type of question, and one for each verdict on it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from rag_assay.evals.generation.answer_prompt import LANGUAGE_NAMES
from rag_assay.evals.generation.templates import Template
from rag_assay.evals.question_generation.llm.candidates import KINDS, Kind, QuestionDraft
from rag_assay.warehouse.encodable import encodable
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.recipe import Strict

LONGEST = 400  # characters of a question or an answer
LONGEST_QUOTE = 700


def _without_surrogates(value: Any) -> Any:
    return encodable(value) if isinstance(value, str) else value


_Storable = BeforeValidator(_without_surrogates)
_Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST), _Storable]
_Quote = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_QUOTE), _Storable
]


class QuestionReply(Strict):
    """A question that one passage answers."""

    question: _Line
    answer: _Line
    quote: _Quote

    def draft(self) -> QuestionDraft:
        return QuestionDraft(self.question, self.answer, (self.quote,))


class MultiHopReply(Strict):
    """A question that two passages answer together."""

    question: _Line
    answer: _Line
    first_quote: _Quote
    second_quote: _Quote

    def draft(self) -> QuestionDraft:
        return QuestionDraft(self.question, self.answer, (self.first_quote, self.second_quote))


class UnanswerableReply(Strict):
    """A question that nothing answers, and what is missing."""

    question: _Line
    missing: _Line

    def draft(self) -> QuestionDraft:
        return QuestionDraft(self.question)


class Exchange(Strict):
    """An earlier question and its answer."""

    question: _Line
    answer: _Line


class FollowUpReply(Strict):
    """A question that only its conversation makes clear."""

    earlier: Annotated[tuple[Exchange, ...], Field(min_length=1, max_length=2)]
    question: _Line
    standalone: _Line
    answer: _Line
    quote: _Quote

    def draft(self) -> QuestionDraft:
        turns = tuple(text for one in self.earlier for text in (one.question, one.answer))
        return QuestionDraft(self.question, self.answer, (self.quote,), turns, self.standalone)


Reply = QuestionReply | MultiHopReply | UnanswerableReply | FollowUpReply


class VerdictReply(Strict):
    """What the model says of a question that was made: its reason first, so that the verdict follows it."""

    reason: Annotated[str, Field(max_length=300), _Storable]
    verdict: Literal["yes", "no", "unclear"]


class ClosedBookReply(Strict):
    """What the model answers from memory."""

    known: bool
    answer: Annotated[str, Field(max_length=LONGEST), _Storable]


SHAPES: Mapping[Kind, type[Reply]] = {
    "normal": QuestionReply,
    "yes_no": QuestionReply,
    "hypothetical": QuestionReply,
    "complex": QuestionReply,
    "multi_hop": MultiHopReply,
    "unanswerable": UnanswerableReply,
    "follow_up": FollowUpReply,
}
"""The reply that each type of question is asked for by."""

Verdict = Literal["supported", "answered", "depends", "closed_book"]
VERDICTS: tuple[Verdict, ...] = ("supported", "answered", "depends", "closed_book")


@cache
def prompt(name: Kind | Verdict) -> Template:
    """Return the prompt of a type of question, or of a verdict.

    It is given `material` (text between tags, see `framed`), the name of a `language` where it writes, and
    the `wanted` answer of a question of yes or no.
    """
    return Template.read(Path(__file__).parent / "prompts" / f"{name}.j2")


def language_name(code: str | None) -> str:
    """Return a language as the prompts name it.

    >>> language_name("de"), language_name(None)
    ('German', 'the language of the quoted text')
    """
    return LANGUAGE_NAMES.get((code or "")[:2], "the language of the quoted text")


def prompts_identity() -> str:
    """Return the digest of every prompt: with another wording, another set of questions is made."""
    return digest([prompt(name).identity() for name in (*KINDS, *VERDICTS)])
