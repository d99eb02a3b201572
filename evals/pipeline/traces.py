"""Traces of questions with OpenInference's attributes: when one is asked, and after a cell is scored.

A trace is a CHAIN with a RETRIEVER, a RERANKER for each reranking step, an LLM (a CHAIN where no model
answers), and an EVALUATOR with the scores. `OPENINFERENCE_HIDE_INPUTS` and `…_HIDE_OUTPUTS` leave texts out.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from rag_assay.assets.engine.stage import BuildContext, PartitionRef
from rag_assay.evals.generation.contract import Answer, Passage
from rag_assay.evals.judging.judge_metrics import JudgedScores
from rag_assay.evals.pipeline.cell_items import answer_needs, passage_needs, questions_of, read_passages
from rag_assay.evals.pipeline.stage_inputs import read_rows
from rag_assay.evals.rubrics.human_rating_metrics import PeopleScores
from rag_assay.evals.study.cells import AXES, Cell
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.inference.trace_export import (
    SentTrace,
    TraceSpan,
    Value,
    trace_exporter,
)
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.schemas import Status

if TYPE_CHECKING:
    from rag_assay.evals.pipeline.pipeline import Pipeline, PipelineResult
    from rag_assay.evals.retrieval.index import OpenIndex
    from rag_assay.evals.retrieval.query import TraceStep

MOST_RERANKED = 100  # candidates of a reranker that are sent
REDACTED = "__REDACTED__"  # the text that OpenInference's own instrumentation sends
FAILED = frozenset(Status) - {Status.OK, Status.REFUSED, Status.NO_CONTEXT}
Row = Mapping[str, Any]
Annotator = Literal["CODE", "LLM", "HUMAN"]


@dataclass(frozen=True)
class Reranking:
    """Ids of chunks before and after a reranking step, best first."""

    step: str
    before: Sequence[str]
    after: Sequence[str]


@dataclass(frozen=True)
class TracedQuestion:
    """The contents of a question's trace; scores: rows of `schemas.SCORES`"""

    question: str
    conversation: Sequence[str]
    passages: Sequence[Passage]
    seconds: float | None
    answer: Answer | None
    about: Mapping[str, Value | None]
    searched: bool = True
    failure: str | None = None
    rerankings: Sequence[Reranking] = ()
    scores: Iterable[Row] = ()
    annotators: Mapping[str, Annotator] = field(default_factory=dict)


def trace_result(pipeline: Pipeline, result: PipelineResult) -> None:
    """Send the trace of a question that was answered just now, where the environment names a collector."""
    exporter = trace_exporter()
    if exporter is None:
        return
    try:
        found, asked = result.found, result.question
        told = TracedQuestion(
            asked["question"],
            asked["conversation"] or (),
            result.passages,
            found.spent.seconds if found.spent else None,
            result.answer,
            {**_about(result.cell), "question_id": asked["question_id"]},
            failure=None if found.status is Status.OK else f"{found.status}: {found.reason}",
            rerankings=_rerankings_of(found.trace.steps, pipeline.retrieval.index),
        )
        exporter.add([SentTrace(root_span(told, time.time_ns()))])
    except Exception as error:  # the answer is there, whatever fails here
        exporter.warn(f"{type(error).__name__}: {error}")


def _rerankings_of(steps: Sequence[TraceStep], index: OpenIndex) -> list[Reranking]:
    return [
        Reranking(now.step, *(index.ids.gather(one.rows[:MOST_RERANKED]).to_list() for one in (before, now)))
        for before, now in itertools.pairwise(steps)
        if now.kind == "rerank"
    ]


def root_span(told: TracedQuestion, ended: int) -> TraceSpan:
    """Return the spans of a question; each begins when the one before it ends, the last ends at ``ended``."""
    answer = told.answer
    searching = _nanoseconds(told.seconds)
    answering = _nanoseconds(answer.seconds if answer else None)
    begun = ended - searching - answering
    spans = []
    if told.searched:
        spans.append(_retriever(told, begun, begun + searching))
        spans += [_reranker(told, one, begun + searching) for one in told.rerankings]
    if answer is not None:
        spans.append(_generator(told, answer, begun + searching, ended))
    if scores := _evaluations(told):
        about = {"openinference.span.kind": "EVALUATOR", **scores}
        spans.append(TraceSpan("evaluate", ended, ended, about, is_about_parent=True))
    text = answer.text if answer else None
    metadata = {name: value for name, value in told.about.items() if value is not None}
    if answer:
        metadata["status"] = str(answer.status)
    attributes: dict[str, Value] = {
        "openinference.span.kind": "CHAIN",
        **_text("input", told.question),
        **_text("output", text),
        "metadata": json.dumps(metadata, ensure_ascii=False),
    }
    failure = _failure_of(answer) if answer else told.failure
    return TraceSpan("question", begun, ended, attributes, tuple(spans), failure)


def _retriever(told: TracedQuestion, start: int, end: int) -> TraceSpan:
    attributes: dict[str, Value] = {
        "openinference.span.kind": "RETRIEVER",
        **_text("input", told.question),
    }
    for number, one in enumerate(told.passages):
        attributes |= _document(f"retrieval.documents.{number}", one)
    return TraceSpan(
        str(told.about.get("retriever") or "retrieve"), start, end, attributes, error=told.failure
    )


def _document(prefix: str, passage: Passage) -> dict[str, Value]:
    found: dict[str, Value] = {
        f"{prefix}.document.id": passage.chunk or passage.document,
        f"{prefix}.document.score": float(passage.score),
        f"{prefix}.document.content": REDACTED if _hides("OUTPUTS") else passage.text,
    }
    if not _hides("OUTPUTS"):
        named = {name: getattr(passage, name) for name in ("title", "url", "date", "start", "end")}
        about = {"doc_id": passage.document, **named}
        known = {name: value for name, value in about.items() if value is not None}
        found[f"{prefix}.document.metadata"] = json.dumps(known, ensure_ascii=False)
    return found


def _reranker(told: TracedQuestion, one: Reranking, at: int) -> TraceSpan:
    query = REDACTED if _hides("INPUTS") else told.question
    attributes: dict[str, Value] = {"openinference.span.kind": "RERANKER", "reranker.query": query}
    for name, chunks in (("input", one.before), ("output", one.after)):
        for number, chunk in enumerate(chunks):
            attributes[f"reranker.{name}_documents.{number}.document.id"] = chunk
    return TraceSpan(one.step, at, at, attributes)


def _generator(told: TracedQuestion, answer: Answer, start: int, end: int) -> TraceSpan:
    text = answer.raw or answer.text
    attributes = {**_text("input", told.question), **_text("output", text)}
    attributes["openinference.span.kind"] = "LLM" if answer.model else "CHAIN"
    if answer.model:
        provider, _, name = answer.model.partition("/")
        attributes |= {"llm.model_name": name or provider}
        if name:
            attributes["llm.provider"] = provider
        turns = [*told.conversation, told.question]
        for number, said in enumerate(turns):
            prefix = f"llm.input_messages.{number}.message"
            attributes[f"{prefix}.role"] = "assistant" if number % 2 else "user"
            attributes[f"{prefix}.content"] = REDACTED if _hides("INPUTS") else said
        if text is not None:
            attributes["llm.output_messages.0.message.role"] = "assistant"
            attributes["llm.output_messages.0.message.content"] = REDACTED if _hides("OUTPUTS") else text
    read, written = answer.prompt_tokens, answer.completion_tokens
    counted: dict[str, Value | None] = {
        "llm.token_count.prompt": read,
        "llm.token_count.completion": written,
        "llm.token_count.total": None if read is None or written is None else read + written,
        "llm.cost.total": answer.usd,
        "metadata": json.dumps({"cached": answer.cached}) if answer.cached is not None else None,
    }
    attributes |= {name: value for name, value in counted.items() if value is not None}
    name = str(told.about.get("generator") or "generate")
    return TraceSpan(name, start, end, attributes, error=_failure_of(answer))


def _evaluations(told: TracedQuestion) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for number, row in enumerate(told.scores):
        prefix = f"evaluations.{number}.evaluation"
        found[f"{prefix}.name"] = row["metric"]
        found[f"{prefix}.annotator_kind"] = told.annotators.get(row["metric"], "CODE")
        if row["value"] is not None:
            found[f"{prefix}.score"] = row["value"]
        else:
            found[f"{prefix}.label"] = str(row["status"])
        if row["reason"] and not _hides("OUTPUTS"):
            found[f"{prefix}.explanation"] = row["reason"]
    return found


def _failure_of(answer: Answer) -> str | None:
    return f"{answer.status}: {answer.reason or ''}" if answer.status in FAILED else None


def _text(what: Literal["input", "output"], text: str | None) -> dict[str, Value]:
    if text is None:
        return {}
    hides = _hides("INPUTS" if what == "input" else "OUTPUTS")
    return {f"{what}.value": REDACTED if hides else text, f"{what}.mime_type": "text/plain"}


def _hides(what: Literal["INPUTS", "OUTPUTS"]) -> bool:
    return os.environ.get(f"OPENINFERENCE_HIDE_{what}", "").lower() in {"1", "true"}


def _nanoseconds(seconds: float | None) -> int:
    return round((seconds or 0.0) * 1e9)


def _about(cell: Cell) -> dict[str, Value | None]:
    return {"study": cell.study, "cell": cell.key, **dict(zip(AXES, cell.axes, strict=True))}


# Cells of a run --------------------------------------------------------------------------------------------


def trace_cells(grid: Grid, keys: Sequence[str], work: BuildContext) -> None:
    """Send a trace of each question of cells that were scored, where the environment names a collector."""
    exporter = trace_exporter()
    if exporter is None or not keys:
        return
    try:
        with closing(BuildContext(work.home)) as own:
            for key in keys:
                exporter.add(list(_traces_of(grid, grid.cells[key], own)))
    except Exception as error:  # what is traced is measured, whatever fails here
        exporter.warn(f"{type(error).__name__}: {error}")


def _traces_of(grid: Grid, cell: Cell, work: BuildContext) -> Iterable[SentTrace]:
    study, store = grid.studies[cell.study], work.store
    needs = [
        *answer_needs(cell),
        *passage_needs(grid, cell),
        *(PartitionRef("questions", name) for name in grid.set_keys(cell.study)),
    ]
    found = {need: store.current(need.stage, need.key) for need in needs}
    inputs = {need: one for need, one in found.items() if one is not None}
    scores = store.current("scores", cell.key)
    if scores is None or len(inputs) < len(needs):
        return
    questions = questions_of(grid, cell, inputs, work)
    answered = inputs.get(PartitionRef("answers", cell.key))
    answers: dict[str, dict[str, Any]] = {}
    if answered:
        answers = {row["question_id"]: row for row in read_rows(answered, store).iter_rows(named=True)}
    passages = read_passages(grid, cell, inputs, questions, answers, work)
    ranking = inputs.get(PartitionRef("rankings", cell.ranking))
    searches, rerankings = _searches(ranking, work), _stored_rerankings(ranking, work)
    rows = read_rows(scores, store).partition_by("question_id", as_dict=True)
    of_question = {str(name): part for (name,), part in rows.items()}
    annotators, now = _annotators(study, cell), time.time_ns()
    traced = answered or ranking or scores
    for row in questions:
        question = row["question_id"]
        answer = answers.get(question)
        seconds, failure = searches.get(question, (None, None))
        of_this = of_question.get(question)
        told = TracedQuestion(
            row["question"],
            row["conversation"] or (),
            passages.get(question, ()),
            seconds,
            _answer(answer) if answer else None,
            {
                **_about(cell),
                "question_id": question,
                "replicate": cell.replicate if cell.replicate > 1 else None,
            },
            searched=cell.reads_ranking or bool(passages.get(question)),
            failure=failure,
            rerankings=rerankings.get(question, ()),
            scores=() if of_this is None else of_this.iter_rows(named=True),
            annotators=annotators,
        )
        yield SentTrace(root_span(told, now), f"{cell.key} {traced.identity} {question}")


def _answer(row: Row) -> Answer:
    names = ("reason", "raw", "seconds", "prompt_tokens", "completion_tokens", "usd", "cached", "model")
    return Answer(Status(row["status"]), text=row["answer"], **{name: row[name] for name in names})


def _searches(ranking: Artifact | None, work: BuildContext) -> dict[str, tuple[float | None, str | None]]:
    if ranking is None:
        return {}
    rows = read_parquet(work.store.folder(ranking.stage, ranking.identity) / "ranked.parquet")
    ended = rows.select("question_id", "status", "reason", "seconds").iter_rows()
    return {
        name: (seconds, None if status == Status.OK else f"{status}: {reason}")
        for name, status, reason, seconds in ended
    }


def _stored_rerankings(ranking: Artifact | None, work: BuildContext) -> dict[str, list[Reranking]]:
    if ranking is None:
        return {}
    steps = read_parquet(work.store.folder(ranking.stage, ranking.identity) / "trace.parquet")
    found: dict[str, list[Reranking]] = {}
    if not (steps["kind"] == "rerank").any():
        return found
    for (question,), rows in steps.partition_by("question_id", as_dict=True, maintain_order=True).items():
        taken = rows.select(pl.col("step", "kind", "chunk_ids")).rows()
        found[str(question)] = [
            Reranking(name, before[2], after)
            for before, (name, kind, after) in itertools.pairwise(taken)
            if kind == "rerank"
        ]
    return found


def _annotators(study: Study, cell: Cell) -> dict[str, Annotator]:
    kinds: list[tuple[type, Annotator]] = [(JudgedScores, "LLM"), (PeopleScores, "HUMAN")]
    return {
        metric.name: kind for metric in study.metrics_of(cell) for of, kind in kinds if isinstance(metric, of)
    }
