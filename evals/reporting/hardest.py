"""The questions that most cells miss, with what the leading cell found and what the cells answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from rag_assay.evals.reporting import answers, limits
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import safe_link, truncate

Row = Mapping[str, Any]
OF_ANSWER = ("cell", "replicate", "question_id")


@dataclass(frozen=True)
class HardQuestion:
    """A question, the cells that missed it, what was found and said, as `hardest.html` shows it.

    hits: of the leading cell; `anchor`: the hit's id on the page
    answers: `cited`: the text with its citations; `score`: of the first answer metric
    """

    question: Row
    evidence: tuple[Row, ...]
    mean: float
    missed: int
    cells: int
    hits: tuple[Row, ...]
    answers: tuple[Row, ...]
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
    wanted = pl.col("question_id").is_in(shown["question_id"].to_list())
    order = {cell: place for place, cell in enumerate(labels)}
    place = pl.col("cell").replace_strict(order, default=len(order), return_dtype=pl.Int64)
    all_answers = data.answers.filter(wanted).sort(place, "replicate", maintain_order=True)
    hits_of_leader = data.hits.filter(pl.col("cell").is_in(list(cells[:1]))).sort("rank")
    by_question = [
        rows.filter(wanted).rows_by_key("question_id", named=True, include_key=True)
        for rows in (data.questions, hits_of_leader, all_answers)
    ]
    known = _of_answers(data, wanted, answer_metric)
    hard = []
    for at, row in enumerate(shown.iter_rows(named=True), start=1):
        question, hits, said = (rows.get(row["question_id"], []) for rows in by_question)
        evidence = tuple(question[0]["evidence"] or ())
        top = hits[: limits.HITS]
        on_page = {hit["chunk_id"]: f"question-{at}-hit-{hit['rank']}" for hit in top}
        shown_hits = tuple(_hit(hit, on_page[hit["chunk_id"]], evidence) for hit in top)
        answered = tuple(_answer(one, labels, known, on_page, evidence) for one in said[: limits.ANSWERS])
        counts = (row["mean"], row["missed"], row["cells"])
        more = max(0, len(said) - limits.ANSWERS)
        hard.append(HardQuestion(question[0], evidence, *counts, shown_hits, answered, more))
    return Hardest(tuple(hard), ranked.height - shown.height, next(iter(cells), None), answer_metric)


def _by_difficulty(data: ReportData, cells: Sequence[str]) -> pl.DataFrame:
    metric, value = data.primary, pl.col("value")
    asked = pl.col("question_id").is_in(data.questions["question_id"].to_list())
    mine = data.values.filter(pl.col("cell").is_in(list(cells)), metric=metric.name)
    good = mine.filter(asked & value.is_not_null())
    missed = pl.lit(0) if metric.worst is None else (value == metric.worst).sum()
    imperfect = pl.lit(True) if metric.ideal is None else (value != metric.ideal).any()
    grouped = good.group_by("question_id")
    rows = grouped.agg(mean=value.mean(), missed=missed, cells=pl.len(), imperfect=imperfect)
    order, falling = pl.col("missed") / pl.col("cells"), [True, not metric.higher_is_better, False]
    return rows.filter("imperfect").sort(order, "mean", "question_id", descending=falling)


Known = tuple[Mapping[Any, Sequence[Row]], Mapping[Any, Sequence[Row]]]
"""`OF_ANSWER` -> the scores of an answer by one metric, and its judgements."""


def _of_answers(data: ReportData, wanted: pl.Expr, metric: MetricInfo | None) -> Known:
    name = metric.name if metric else ""
    scores = data.scores.filter(wanted & (pl.col("metric") == name) & (pl.col("status") == "ok"))
    judged: Mapping[Any, Sequence[Row]] = {}
    if data.judgements is not None:
        of_cell = ("cell", "cell_replicate", "question_id")
        judged = data.judgements.filter(wanted).rows_by_key(of_cell, named=True, include_key=True)
    return scores.rows_by_key(OF_ANSWER, named=True), judged


def _hit(hit: Row, anchor: str, evidence: Sequence[Row]) -> Row:
    text, url = hit["text"] or "", hit["url"] or ""
    spans = answers.evidence_spans(hit["doc_id"], hit["start"], hit["end"], evidence)
    # Offsets are the document's: a text of another length (a changed chunk) cannot be marked by them.
    marked = spans if len(text) == hit["end"] - hit["start"] else []
    return {
        **hit,
        "anchor": anchor,
        "title": truncate(hit["title"], 200) or hit["doc_id"],
        "url": truncate(url, 200),
        "link": safe_link(url),
        "evidence": bool(spans),
        "segments": answers.segments(text, marked, limits.HIT_CHARACTERS),
    }


def _answer(
    answer: Row, labels: Mapping[str, str], known: Known, on_page: Mapping[str, str], evidence: Sequence[Row]
) -> Row:
    scores, judged = (found.get(tuple(answer[name] for name in OF_ANSWER), []) for found in known)
    again = f" (replicate {answer['replicate']})" if answer["replicate"] > 1 else ""
    return {
        "cell": labels.get(answer["cell"], answer["cell"]) + again,
        "status": answer["status"],
        "reason": truncate(answer["reason"], limits.REASON_CHARACTERS),
        "text": truncate(answer["answer"], limits.ANSWER_CHARACTERS),
        "cited": answers.render_cited_answer(answer, limits.ANSWER_CHARACTERS, on_page, evidence),
        "score": scores[-1]["value"] if scores else None,
        "steps": answers.steps_of(answer),
        "cut": answers.cut_words([one["kept"] for one in answer["cuts"] or ()]),
        "judged": answers.judgements_of(judged, limits.STATEMENTS),
    }
