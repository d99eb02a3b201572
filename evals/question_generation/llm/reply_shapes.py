"""The replies of the model that makes questions: the JSON schema that it writes by comes of these classes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from rag_assay.evals.question_generation.llm.candidates import QuestionDraft
from rag_assay.warehouse.encodable import encodable
from rag_assay.warehouse.recipe import Strict

LONGEST = 400  # characters of a question or an answer
LONGEST_QUOTE = 700


def _without_surrogates(value: Any) -> Any:
    """JSON may escape lone surrogates, which no file takes."""
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
        """Return the question in the form of all."""
        return QuestionDraft(self.question, self.answer, (self.quote,))


class MultiHopReply(Strict):
    """A question that two passages answer together."""

    question: _Line
    answer: _Line
    first_quote: _Quote
    second_quote: _Quote

    def draft(self) -> QuestionDraft:
        """Return the question in the form of all."""
        return QuestionDraft(self.question, self.answer, (self.first_quote, self.second_quote))


class UnanswerableReply(Strict):
    """A question that nothing answers, and what is missing."""

    question: _Line
    missing: _Line

    def draft(self) -> QuestionDraft:
        """Return the question in the form of all."""
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
        """Return the question in the form of all."""
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
