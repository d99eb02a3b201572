"""A question that was made from a corpus, before the filters have seen it."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from rag_assay.warehouse.identity import digest

Language = Literal["en", "de"]


@dataclass(frozen=True)
class Quote:
    """Where an answer stands, word for word; None: the whole document."""

    doc_id: str
    source: str
    url: str
    quote: str | None = None


@dataclass(frozen=True)
class QuestionCandidate:
    """A question, what it was made from (`title`, `heading`, …), and where its answer stands."""

    kind: str
    question: str
    language: Language
    evidence: tuple[Quote, ...]
    ground_truth: str | None = None
    needs: Literal["all", "any"] = "all"

    @property
    def id(self) -> str:
        return f"{self.kind}-{digest([self.kind, normalize(self.question)])[:10]}"

    def with_evidence_of(self, others: Iterable[QuestionCandidate]) -> QuestionCandidate:
        """Return it with the evidence of all, itself first; of several pieces any suffices."""
        evidence = tuple(dict.fromkeys(quote for one in (self, *others) for quote in one.evidence))
        return replace(self, evidence=evidence, needs="any") if len(evidence) > 1 else self


def normalize(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip("?.!:… ")


class Drop(NamedTuple):
    """A title, heading, sentence or link that no question was made of, and why."""

    kind: str
    reason: str


class Tally:
    """Counts what was looked at, dropped and kept, by kind.

    >>> tally = Tally()
    >>> tally.drop(Drop("title", "generic"))
    >>> tally.lines()
    ['1 title: generic']
    """

    def __init__(self) -> None:
        self.dropped: Counter[Drop] = Counter()

    def drop(self, drop: Drop, times: int = 1) -> None:
        self.dropped[drop] += times

    def lines(self) -> list[str]:
        ordered = sorted(self.dropped.items(), key=lambda item: (item[0].kind, -item[1], item[0].reason))
        return [f"{count:,} {drop.kind}{'' if count == 1 else 's'}: {drop.reason}" for drop, count in ordered]
