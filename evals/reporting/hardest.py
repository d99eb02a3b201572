"""The questions that most cells miss, with what the leading cell found and what the cells answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.answers import (
    NONE_JUDGED,
    AnswerSteps,
    CitedAnswer,
    EvidenceSegment,
    ShownJudgements,
    cut_words,
    evidence_spans,
    judgements_of,
    render_cited_answer,
    segments,
    steps_of,
)
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import safe_link, truncate


@dataclass(frozen=True)
class LeaderHit:
    """A hit of the leading cell; anchor: its id on the page."""

    anchor: str
    rank: int
    title: str
    url: str
    link: str | None
    score: float | None
    evidence: bool
    segments: tuple[EvidenceSegment, ...]


@dataclass(frozen=True)
class CellAnswer:
    """A cell's answer; score: of the first answer metric.

    cited: its text with its citations
    cut: passages that its model was not given as a whole
    """

    cell: str
    status: str
    reason: str | None
    text: str
    cited: CitedAnswer
    score: float | None
    steps: AnswerSteps
    cut: str = ""
    judged: ShownJudgements = NONE_JUDGED


@dataclass(frozen=True)
class HardQuestion:
    """A question, the cells that missed it, what was found and said."""

    question: Mapping[str, Any]
    evidence: tuple[Mapping[str, Any], ...]
    mean: float
    missed: int
    cells: int
    hits: tuple[LeaderHit, ...]
    answers: tuple[CellAnswer, ...]
    answers_left_out: int


@dataclass(frozen=True)
class Hardest:
    """The hardest questions first; left_out: further questions that a cell did not answer perfectly."""

    questions: tuple[HardQuestion, ...]
    left_out: int
    leading_cell: str | None
    answer_metric: MetricInfo | None


def hardest(data: ReportData, cells: Sequence[str], labels: Mapping[str, str]) -> Hardest:
    """Return the questions that most of ``cells`` miss by the primary metric; the leading cell comes first.

    A miss is the worst possible value; ties are ordered by their mean. Rows without a value count as neither.
    """
    answer_metric = next((metric for metric in data.metrics if metric.kind == "answer"), None)
    ranked = _by_difficulty(data, cells)
    shown = ranked.head(limits.HARDEST_QUESTIONS)
    ids = shown["question_id"].to_list()
    questions = {row["question_id"]: row for row in data.questions.filter(_one_of(ids)).iter_rows(named=True)}
    hits = _by_question(data.hits.filter(_one_of(ids) & pl.col("cell").is_in(list(cells[:1]))))
    answers = _by_question(data.answers.filter(_one_of(ids)))
    scores = _answer_scores(data, ids, answer_metric)
    judged = _judged(data, ids)
    order = {cell: place for place, cell in enumerate(labels)}
    hard = []
    for place, row in enumerate(shown.iter_rows(named=True), start=1):
        key = row["question_id"]
        answered = sorted(
            answers.get(key, []),
            key=lambda answer: (order.get(answer["cell"], len(order)), answer["replicate"]),
        )
        evidence = tuple(questions[key]["evidence"] or ())
        top = sorted(hits.get(key, []), key=lambda hit: hit["rank"])[: limits.HITS]
        on_page = {hit["chunk_id"]: (f"question-{place}-hit-{hit['rank']}") for hit in top}
        hard.append(
            HardQuestion(
                questions[key],
                evidence,
                row["mean"],
                row["missed"],
                row["cells"],
                tuple(_hit(hit, on_page[hit["chunk_id"]], evidence) for hit in top),
                tuple(
                    _answer(
                        answer,
                        labels,
                        scores,
                        judged,
                        render_cited_answer(answer, limits.ANSWER_CHARACTERS, on_page, evidence),
                    )
                    for answer in answered[: limits.ANSWERS]
                ),
                max(0, len(answered) - limits.ANSWERS),
            )
        )
    return Hardest(tuple(hard), ranked.height - shown.height, next(iter(cells), None), answer_metric)


def _one_of(ids: Sequence[str]) -> pl.Expr:
    return pl.col("question_id").is_in(list(ids))


def _by_difficulty(data: ReportData, cells: Sequence[str]) -> pl.DataFrame:
    metric = data.primary
    good = data.values.filter((pl.col("metric") == metric.name) & pl.col("cell").is_in(list(cells))).filter(
        pl.col("value").is_not_null() & _one_of(data.questions["question_id"].to_list())
    )
    value = pl.col("value")
    missed = pl.lit(0) if metric.worst is None else (value == metric.worst).sum()
    imperfect = pl.lit(True) if metric.ideal is None else (value != metric.ideal).any()
    rows = good.group_by("question_id").agg(
        mean=value.mean(), missed=missed, cells=pl.len(), imperfect=imperfect
    )
    share = pl.col("missed") / pl.col("cells")
    return rows.filter("imperfect").sort(
        share, pl.col("mean"), pl.col("question_id"), descending=[True, not metric.higher_is_better, False]
    )


def _by_question(frame: pl.DataFrame) -> dict[str, list[dict[str, Any]]]:
    grouped: dict[str, list[dict[str, Any]]] = {}
    for row in frame.iter_rows(named=True):
        grouped.setdefault(row["question_id"], []).append(row)
    return grouped


Scored = Mapping[tuple[str, int, str], float]
"""(cell, replicate, question) -> the value of an answer."""


def _answer_scores(data: ReportData, ids: Sequence[str], metric: MetricInfo | None) -> Scored:
    if metric is None:
        return {}
    rows = data.scores.filter(_one_of(ids) & (pl.col("metric") == metric.name) & (pl.col("status") == "ok"))
    return {
        (row["cell"], row["replicate"], row["question_id"]): row["value"]
        for row in rows.iter_rows(named=True)
    }


Judged = Mapping[tuple[str, int, str], list[dict[str, Any]]]
"""(cell, replicate, question) -> the judgements of an answer."""


def _judged(data: ReportData, ids: Sequence[str]) -> Judged:
    found: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    rows = data.judgements.filter(_one_of(ids)).iter_rows(named=True) if data.judgements is not None else ()
    for row in rows:
        found.setdefault((row["cell"], row["cell_replicate"], row["question_id"]), []).append(row)
    return found


def _hit(hit: Mapping[str, Any], anchor: str, evidence: Sequence[Mapping[str, Any]]) -> LeaderHit:
    text = hit["text"] or ""
    spans = evidence_spans(hit["doc_id"], hit["start"], hit["end"], evidence)
    # Offsets are the document's: a text of another length (a changed chunk) cannot be marked by them.
    marked = spans if len(text) == hit["end"] - hit["start"] else []
    url = hit["url"] or ""
    return LeaderHit(
        anchor,
        hit["rank"],
        truncate(hit["title"], 200) or hit["doc_id"],
        truncate(url, 200),
        safe_link(url),
        hit["score"],
        bool(spans),
        segments(text, marked, limits.HIT_CHARACTERS),
    )


def _answer(
    answer: Mapping[str, Any],
    labels: Mapping[str, str],
    scores: Scored,
    judged: Judged,
    cited: CitedAnswer,
) -> CellAnswer:
    key = (answer["cell"], answer["replicate"], answer["question_id"])
    again = f" (replicate {answer['replicate']})" if answer["replicate"] > 1 else ""
    return CellAnswer(
        labels.get(answer["cell"], answer["cell"]) + again,
        answer["status"],
        truncate(answer["reason"], limits.REASON_CHARACTERS) or None,
        truncate(answer["answer"], limits.ANSWER_CHARACTERS),
        cited,
        scores.get(key),
        steps_of(answer),
        cut_words([one["kept"] for one in answer["cuts"] or ()]),
        judgements_of(judged.get(key, ()), limits.STATEMENTS),
    )
