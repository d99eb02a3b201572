"""What the prefilters do for the demo's own questions, on its own documents, with real embeddings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from rag_assay.evals.query_transforms.entities import Entities
from rag_assay.evals.query_transforms.rules.named_dates import find_dates
from rag_assay.evals.query_transforms.rules.publication_windows import windows
from rag_assay.evals.query_transforms.time_frame import TimeFrame
from rag_assay.evals.retrieval.contract import QueryTransform
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.study.registry import RETRIEVERS
from tests.evals.query_transforms.conftest import Sample
from tests.fakes.indexing import read_by, searched

pytestmark = pytest.mark.models

Question = dict[str, Any]


def asked(question: Question, sample: Sample) -> Query:
    text = question["question"]
    return Query(text, sample.vectors[text], asked_at=question["asked_at"])


def dated_football(sample: Sample) -> list[Question]:
    """Return the football questions that name a day, month, year or season, and have evidence."""
    return [
        one
        for one in sample.questions["football"]
        if one["evidence"] and any(date.first for date in find_dates(one["question"], one["asked_at"]))
    ]


def hit_rate(
    questions: Iterable[Question], steps: list[QueryTransform], retriever: str, k: int, sample: Sample
) -> float:
    """Return the share of questions of which the first k chunks hold any evidence."""
    places = sample.index.chunks.select("doc_id", "start", "end").rows()
    kind, _, language = retriever.partition(" ")
    made = RETRIEVERS[kind].model_validate({"k": k, **({"language": language} if language else {})})
    hits = []
    for question in questions:
        query = asked(question, sample)
        for step in steps:
            (query,) = read_by(step, query, sample.index)
        found = [places[row] for row in searched(made, query, sample.index).rows]
        hits.append(
            any(
                doc == one["doc_id"] and start < one["end"] and one["start"] < end
                for doc, start, end in found
                for one in question["evidence"]
            )
        )
    return sum(hits) / len(hits)


@pytest.mark.parametrize("retriever", ["dense", "bm25 german"])
def test_the_entity_prefilter_lifts_the_hit_rate_of_dated_football_questions(
    retriever: str, sample: Sample
) -> None:
    dated = dated_football(sample)
    assert len(dated) >= 16
    step = Entities(days=14)
    gains = []
    for k in (1, 5):
        before = hit_rate(dated, [], retriever, k, sample)
        after = hit_rate(dated, [step], retriever, k, sample)
        print(f"{retriever} hit_rate@{k}: {before:.3f} -> {after:.3f} on {len(dated)}")  # noqa: T201
        gains.append(after - before)
    assert min(gains) >= 0
    assert max(gains) >= 1 / len(dated)


def test_the_prefilter_does_not_cost_undated_questions_the_first_five(sample: Sample) -> None:
    every = [one for one in sample.questions["football"] if one["evidence"]]
    for retriever in ("dense", "bm25 german"):
        before = hit_rate(every, [], retriever, 5, sample)
        assert hit_rate(every, [Entities(days=14)], retriever, 5, sample) >= before


def test_questions_on_the_acts_are_filtered_by_publication_only(sample: Sample) -> None:
    filtered = {}
    for one in sample.questions["energy"]:
        (query,) = read_by(TimeFrame(if_empty="keep"), asked(one, sample), sample.index)
        if query.allowed is not None:
            filtered[one["question_id"]] = query.allowed
    framed = {one["question_id"] for one in sample.questions["energy"] if one["time_from"]}
    # "Under the oil rules of 2008" asks for a publication too, though the set gives it no frame.
    assert set(filtered) == framed | {"energy-13"}
    days = sample.index.chunks["published_on"]
    for one in sample.questions["energy"]:
        mask = filtered.get(one["question_id"])
        if mask is None:
            continue
        kept = set(sample.index.chunks.filter(mask)["doc_id"])
        assert {evidence["doc_id"] for evidence in one["evidence"]} <= kept, one["question_id"]
        (window,) = windows(one["question"], one["asked_at"])
        assert days.filter(mask).min() >= (window.first or days.min())  # type: ignore[operator]
        assert days.filter(mask).max() <= (window.last or days.max())  # type: ignore[operator]


@pytest.mark.parametrize(
    "text",
    [
        "What is the target for 2030?",
        "By how much must consumption fall by 2030?",
        "Which boilers may not be installed from 1 January 2025?",
        "Welche Menge muss bis zum 1. November 2024 eingespeichert sein?",
        "What happened on 9 January 2024?",
    ],
)
def test_content_years_filter_no_act(text: str, sample: Sample) -> None:
    (query,) = read_by(TimeFrame(), Query(text, asked_at="2024-06-01"), sample.index)
    assert query.allowed is None


def test_the_window_lifts_the_hit_rate_of_framed_questions_on_the_acts(sample: Sample) -> None:
    framed = [
        one
        for one in sample.questions["energy"]
        if one["evidence"] and windows(one["question"], one["asked_at"])
    ]
    for retriever in ("dense", "bm25"):
        rates = []
        for k in (1, 2, 3, 5):
            before = hit_rate(framed, [], retriever, k, sample)
            after = hit_rate(framed, [TimeFrame()], retriever, k, sample)
            print(f"{retriever} hit_rate@{k}: {before:.3f} -> {after:.3f} on {len(framed)}")  # noqa: T201
            rates.append((before, after))
        assert all(after >= before for before, after in rates)
        assert any(after > before for before, after in rates)


def test_the_sample_site_answers_bad_input(sample: Sample) -> None:
    for text in ("Kohlenbach " * 9_000, "\x00\x07", "Wer ist Unbekannt am 31. Februar?"):
        (query,) = read_by(Entities(if_empty="keep"), Query(text, asked_at="2024-06-01"), sample.index)
        assert query.allowed is None or query.allowed.any()
