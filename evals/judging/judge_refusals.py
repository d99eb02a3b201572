"""Detects replies of a model that declines to judge, in prose where JSON was asked for."""

from __future__ import annotations

import re
from dataclasses import replace

from rag_assay.warehouse.inference.structured import Shape, Structured
from rag_assay.warehouse.schemas import Status

DECLINED = "the model declines to judge"
LOOK = 300  # characters in which a model that declines says so
_DECLINES = re.compile(
    r"""\b(?:
      (?:i['’]?m|i\sam|we\sare)\s(?:very\s|so\s)?sorry\b|^sorry\b
      |i\s(?:cannot|can['’]t|can\snot|won['’]t|will\snot|am\s(?:un|not\s)able\sto|must\s(?:decline|refuse)|refuse\sto)\b
      |i['’]m\s(?:un|not\s)able\sto\b
      |as\san\sai\b
      |(?:es\s)?tut\smir\s(?:sehr\s)?leid\b
      |(?:ich|leider)\s(?:kann|darf|werde|möchte)\b[^.\n]{0,120}\bnicht\b
      |als\s(?:ki|künstliche\sintelligenz|sprachmodell)\b
    )""",
    re.VERBOSE | re.IGNORECASE,
)


def declines(text: str) -> bool:
    """Return whether a reply is prose that begins with a refusal; never for one that begins with JSON.

    >>> declines("I'm sorry, but I can't judge this."), declines('{"reason": "I cannot tell", "verdict": 0}')
    (True, False)
    """
    beginning = " ".join(text.lstrip().strip("`\"'*_ ")[:LOOK].split())
    return not beginning.startswith(("{", "[", "json")) and _DECLINES.search(beginning) is not None


def refusal_apart(found: Structured[Shape]) -> Structured[Shape]:
    """Return what came of asking; as `refused` where what cannot be read is a refusal to judge."""
    if found.status is not Status.PARSE_FAILED or not declines(found.reply.text):
        return found
    return replace(found, status=Status.REFUSED, reason=f"{DECLINED}: {found.reply.text}")
