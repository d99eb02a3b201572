"""The section in which every question can be followed through every cell, and what a page holds for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import polars as pl

from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.display import several, truncate
from rag_assay.evals.reporting.hardest import HardQuestion
from rag_assay.evals.reporting.journey.blocks import pack_blocks
from rag_assay.evals.reporting.journey.catalogue import catalogue, rankings_of, runs_of
from rag_assay.evals.reporting.journey.disputes import MEASURES, disputes
from rag_assay.evals.reporting.journey.packs import ReportPacks, packs
from rag_assay.evals.reporting.journey.scores import pack_scores
from rag_assay.evals.reporting.journey.tables import tables_of
from rag_assay.evals.reporting.journey_rows import no_journeys


@dataclass(frozen=True)
class JourneyLink:
    """A question in a list: where its journey is, what it asks, and why it is in the list."""

    link: str
    text: str
    language: str | None
    why: str


@dataclass(frozen=True, eq=False)
class Journeys:
    """The section.

    worst: questions that most cells miss; disputed: those that cells, judges or people disagree most on
    measures: what disputes are measured by, as far as one of them is shown
    """

    packs: ReportPacks
    questions: int
    worst: tuple[JourneyLink, ...]
    disputed: tuple[JourneyLink, ...]
    measures: tuple[tuple[str, str], ...]


def journeys(data: ReportData, labels: Mapping[str, str], hardest: Sequence[HardQuestion]) -> Journeys:
    """Return the journeys of all questions, packed.

    labels: of the cells, the first of the leaderboard first
    hardest: questions, the hardest first
    """
    rows = data.journey or no_journeys()
    cells = list(labels)
    found, runs = disputes(data), runs_of(data, cells)
    tables = tables_of(data, rows, runs, rankings_of(rows, cells))
    asked = {row["question_id"]: row for row in data.questions.select(_SHOWN).iter_rows(named=True)}
    known = [(one, found[one]) for one in asked if one in found and found[one].value > 0]
    most = sorted(known, key=lambda pair: (-pair[1].value, pair[0]))[: limits.DISPUTED]
    return Journeys(
        packs(
            catalogue(data, rows, labels, runs, found),
            pack_scores(data.scores, runs, data.questions["question_id"].to_list()),
            pack_blocks(tables),
        ),
        data.questions.height,
        tuple(_worst(one, data) for one in hardest[: limits.WORST]),
        tuple(_listed(asked[one], dispute.words) for one, dispute in most),
        tuple((name, words) for name, words in MEASURES.items() if name in {d.measure for _, d in most}),
    )


_SHOWN = pl.col("question_id", "question", "language")


def link_of(question_id: str) -> str:
    """Return where on the page the journey of a question is.

    >>> link_of('a/b "c" ü')
    '#q=a%2Fb%20%22c%22%20%C3%BC'
    """
    return f"#q={quote(question_id, safe='')}"


def _worst(one: HardQuestion, data: ReportData) -> JourneyLink:
    missed = f"missed by {one.missed} of {several(one.cells, 'cell')}"
    mean = f"mean {data.primary.title} {one.mean:.3f}".replace("-", "−")
    return _listed(one.question, f"{missed}, {mean}" if data.primary.worst is not None else mean)


def _listed(question: Mapping[str, object], why: str) -> JourneyLink:
    text = truncate(str(question["question"]), limits.UNFOUND_CHARACTERS)
    language = question["language"]
    return JourneyLink(link_of(str(question["question_id"])), text, str(language) if language else None, why)
