"""What a page knows of all questions at once: what journeys are chosen from, and what numbers mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from rag_assay.evals.reporting.contexts import ranking_labels
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.groups import group_of
from rag_assay.evals.reporting.journey.disputes import Dispute
from rag_assay.evals.reporting.journey_rows import JourneyRows
from rag_assay.evals.reporting.remedies import REMEDIES
from rag_assay.evals.reporting.retrieval_funnel import depth, fates_of, legend_of


def runs_of(data: ReportData, cells: Sequence[str]) -> pl.DataFrame:
    """Return the cells and replicates that have scores or answers, in the order of the cells."""
    of = ["cell", "replicate"]
    order = pl.DataFrame({"cell": list(cells)}, schema={"cell": pl.String}).with_row_index("_order")
    known = pl.concat([data.scores.select(of), data.answers.select(of)]).unique()
    return known.join(order, on="cell").sort("_order", "replicate").select(of)


def rankings_of(rows: JourneyRows, cells: Sequence[str]) -> list[str]:
    """Return the rankings of cells, each once, in their order."""
    return list(dict.fromkeys(rows.rankings[cell] for cell in cells if cell in rows.rankings))


def catalogue(
    data: ReportData,
    rows: JourneyRows,
    labels: Mapping[str, str],
    runs: pl.DataFrame,
    disputes: Mapping[str, Dispute],
) -> dict[str, Any]:
    """Return the catalogue as JSON has it; numbers are places in its lists."""
    cells = list(labels)
    rankings = rankings_of(rows, cells)
    names = ranking_labels(data)
    of_ranking = {ranking: cell for cell, ranking in [*rows.rankings.items()][::-1]}
    place = {ranking: at for at, ranking in enumerate(rankings)}
    at_cell = {cell: at for at, cell in enumerate(cells)}
    return {
        "study": data.study,
        "metrics": [
            {
                "name": one.name,
                "title": one.title,
                "kind": one.kind,
                "unit": one.unit,
                "higher": one.higher_is_better,
                "worst": one.worst,
                "ideal": one.ideal,
                "ofRankings": one.of_rankings,
            }
            for one in data.metrics
        ],
        "cells": [
            {"key": cell, "label": labels[cell], "ranking": place.get(rows.rankings.get(cell, ""), -1)}
            for cell in cells
        ],
        "runs": [[at_cell[cell], replicate] for cell, replicate in runs.iter_rows()],
        "rankings": [names.get(of_ranking[one], of_ranking[one]) for one in rankings],
        "questions": _questions(data, rows, disputes),
        "lost": _lost(data, rows, place),
        "steps": [
            {
                "name": str(loss),
                "label": loss.label,
                "means": legend_of(loss, depth(data.primary)),
                "try": words,
            }
            for loss, words in REMEDIES.items()
        ],
    }


def _questions(data: ReportData, rows: JourneyRows, disputes: Mapping[str, Dispute]) -> dict[str, Any]:
    """Return columns: what questions are chosen by."""
    asked = data.questions
    ids = asked["question_id"].to_list()
    pieces = asked.select("question_id", pl.col("evidence").list.eval(pl.element().struct.field("doc_id")))
    held = pieces.explode("evidence").join(
        rows.documents.select("doc_id", "source").unique("doc_id"), left_on="evidence", right_on="doc_id"
    )
    sources = dict(held.group_by("question_id").agg(pl.col("source").unique().sort()).iter_rows())
    return {
        "id": ids,
        "text": asked["question"].to_list(),
        "language": asked["language"].to_list(),
        "type": asked.select(group_of("type")).to_series().to_list(),
        "set": asked["question_set"].to_list(),
        "sources": [sources.get(one, []) for one in ids],
        "dispute": [disputes[one].value if one in disputes else None for one in ids],
    }


def _lost(data: ReportData, rows: JourneyRows, place: Mapping[str, int]) -> list[str]:
    """Return a text a ranking, of it a sign a question: the step that lost it.

    `a` is the first step of `REMEDIES`, and so on; `.`: found; a space: nothing is known.
    """
    order = {str(loss): chr(ord("a") + at) for at, loss in enumerate(REMEDIES)}
    signs = {ranking: [" "] * data.questions.height for ranking in place}
    at_question = {one: at for at, one in enumerate(data.questions["question_id"])}
    for cell, question, loss in fates_of(data.losses, data.questions, depth(data.primary)).iter_rows():
        ranking = rows.rankings.get(cell)
        if ranking in signs and question in at_question:
            signs[ranking][at_question[question]] = order[loss] if loss else "."
    return ["".join(signs[ranking]) for ranking in place]
