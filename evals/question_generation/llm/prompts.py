"""What the model is told: one file for each type of question, and one for each verdict on it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from rag_assay.evals.generation.answer_prompt import LANGUAGE_NAMES
from rag_assay.evals.generation.templates import Template
from rag_assay.evals.question_generation.llm.candidates import KINDS, Kind
from rag_assay.evals.question_generation.llm.reply_shapes import (
    FollowUpReply,
    MultiHopReply,
    QuestionReply,
    Reply,
    UnanswerableReply,
)
from rag_assay.warehouse.identity import digest

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
