"""The answers and passages of a cell, and the items that annotators rate."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from rag_assay.assets.embedding.embedder import Matrix
from rag_assay.assets.engine.stage import BuildContext, PartitionRef
from rag_assay.evals.generation.citations import without_markers
from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.judging.contract import JudgeCase, JudgeContext, JudgedMetric
from rag_assay.evals.judging.contract import Need as Part
from rag_assay.evals.pipeline.passages import (
    Headings,
    contexts_of,
    documents_of_evidence,
    evidence_passages,
    headings_of,
    passage_of,
)
from rag_assay.evals.pipeline.stage_inputs import budget_of, progress_of, read_questions, read_rows
from rag_assay.evals.rubrics.items import Item
from rag_assay.evals.study.cells import NO_GENERATOR, Cell, JudgedCell
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.call_tags import Purpose
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.schemas import Status
from rag_assay.warehouse.spans import Span, merge_spans

if TYPE_CHECKING:
    from rag_assay.evals.retrieval.index import OpenIndex


def judge_digest(study: Study, name: str) -> str:
    judge = study.judges[name]
    once = judge.model_copy(update={"replicates": 1, "vote": "mean"})
    return digest([once.identity(), *judge.dependencies(study.seed)])


def judge_context(study: Study, judged: JudgedCell, work: BuildContext) -> JudgeContext:
    from rag_assay.evals.pipeline.run_resources import RunResources

    judge, cell = study.judges[judged.judge], judged.cell
    budget, limit = budget_of(study, work), judge.budget_limit
    if limit is not None:
        budget = work.budgets.of((study.whole, "judge", judged.judge), limit, within=budget)
    resources = work.resource(RunResources)
    progress = progress_of(cell, work)

    def embed(texts: Sequence[str]) -> Matrix:
        label = "embedding for judges"
        embedder = resources.embedder(judge.embeds_with)
        return embedder.passages(list(texts), lambda done, of: progress(label, done, of)).vectors

    purpose = Purpose("judging", study.study, cell.key)
    return JudgeContext(resources.gateway(budget), embed, study.seed, progress=progress, purpose=purpose)


class CellJudging(NamedTuple):
    """What is judged of a cell."""

    cases: list[JudgeCase]
    blocked: frozenset[str]


def metrics_of(study: Study, judged: JudgedCell) -> list[JudgedMetric]:
    found = study.judges[judged.judge].judged_metrics
    return [one for one in found if "answer" not in one.needs or judged.cell.generator != NO_GENERATOR]


def case_needs(grid: Grid, judged: JudgedCell) -> list[PartitionRef]:
    cell, study = judged.cell, grid.studies[judged.cell.study]
    passages = passage_needs(grid, cell) if "passages" in parts_of(study, judged) else []
    rival = rival_of(study, judged)
    other = [PartitionRef("answers", rival.key)] if rival else []
    sets = [PartitionRef("questions", name) for name in grid.set_keys(cell.study)]
    return [*answer_needs(cell), *passages, *other, *sets]


def parts_of(study: Study, judged: JudgedCell) -> frozenset[Part]:
    return frozenset(part for one in metrics_of(study, judged) for part in one.needs)


def rival_of(study: Study, judged: JudgedCell) -> Cell | None:
    return _rival(study, judged.cell, study.judges[judged.judge].against)


def read_cases(grid: Grid, judged: JudgedCell, inputs: Inputs, work: BuildContext) -> CellJudging:
    cell, study = judged.cell, grid.studies[judged.cell.study]
    questions = read_questions([one for need, one in inputs.items() if need.stage == "questions"], work)
    ids = study.sampled(questions["question_id"].to_list(), cell.sample)
    chosen = set(study.sampled(ids, study.judged_sample(judged.judge)))
    answers = read_answers(study, cell, inputs, work)
    if cell.imported:
        chosen &= answers.keys()  # a further replicate is of those that its sheet has rows of
    rows = [row for row in questions.iter_rows(named=True) if row["question_id"] in chosen]
    rival = rival_of(study, judged)
    others = read_answers(study, rival, inputs, work) if rival else {}
    wanted = "passages" in parts_of(study, judged)
    passages = read_passages(grid, cell, inputs, rows, answers, work) if wanted else {}
    blocked = {row["question_id"] for row in rows if row["question_id"] not in passages} if wanted else set()
    cases = [
        case_of(
            row,
            answers.get(row["question_id"]),
            passages.get(row["question_id"], ()),
            text_of(others.get(row["question_id"])),
        )
        for row in rows
    ]
    return CellJudging(cases, frozenset(blocked))


class StudyQuestions:
    """The questions of a study as the last run stored them; none, where it was not run."""

    def __init__(self, study: Study, work: BuildContext) -> None:
        found = [work.store.current("questions", key) for key in Grid([study]).set_keys(study.study)]
        artifacts = [artifact for artifact in found if artifact is not None]
        rows = list(read_questions(artifacts, work).iter_rows(named=True)) if artifacts else []
        self._by_id = {row["question_id"]: row for row in reversed(rows)}
        self._by_words = {_plain(row["question"]): row for row in reversed(rows)}

    @property
    def texts(self) -> list[str]:
        return [row["question"] for row in self._by_words.values()]

    def known(self, words: str) -> dict[str, Any] | None:
        return self._by_words.get(_plain(words))

    def named(self, text: str) -> dict[str, Any] | None:
        return self._by_id.get(text) or self.known(text)


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split()).casefold()


FOUND = 5  # passages judged of a cell without a generator: as many as a generator reads by default
Row = dict[str, Any]
Inputs = Mapping[PartitionRef, Artifact]


def answer_needs(cell: Cell) -> list[PartitionRef]:
    return [] if cell.generator == NO_GENERATOR else [PartitionRef("answers", cell.key)]


def passage_needs(grid: Grid, cell: Cell) -> list[PartitionRef]:
    study = grid.studies[cell.study]
    if study.reads(cell.generator) == "evidence":
        return [PartitionRef("documents", source) for source in study.corpus.sources]
    if not cell.reads_ranking:
        return []
    key = grid.index_key(cell)
    return [
        PartitionRef("rankings", cell.ranking),
        PartitionRef("indexes", key),
        PartitionRef("chunks", key.rpartition(".")[0]),
    ]


def same_replicate(study: Study, other: Cell, cell: Cell) -> Cell:
    return other.replicates(study.times(other))[: cell.replicate][-1]


def case_of(question: Row, answer: Row | None, passages: tuple[Passage, ...], rival: str | None) -> JudgeCase:
    status = Status(answer["status"]) if answer else Status.OK
    failed = answer is not None and status not in {Status.OK, Status.REFUSED}
    return JudgeCase(
        question["question"],
        question["language"],
        answer["answer"] if answer and not failed else None,
        status,
        answer["reason"] if answer and failed else None,
        question["ground_truth"] or None,
        passages,
        question["question_id"],
        rival,
    )


def text_of(answer: Row | None) -> str | None:
    usable = answer is not None and answer["status"] in {Status.OK, Status.REFUSED}
    return answer["answer"] if answer and usable else None


def read_answers(
    study: Study, cell: Cell, inputs: Inputs, work: BuildContext, *, markers: bool = False
) -> dict[str, Row]:
    artifact = inputs.get(PartitionRef("answers", cell.key))
    if artifact is None:
        return {}
    columns = ["question_id", "status", "reason", "answer", "chunk_ids", "cuts"]
    rows = read_rows(artifact, work.store, columns)
    found = {row["question_id"]: row for row in rows.iter_rows(named=True)}
    if study.generators[cell.generator].writes_markers and not markers:
        for row in found.values():
            row["answer"] = row["answer"] and without_markers(row["answer"])
    return found


# Passages --------------------------------------------------------------------------------------------------


def read_passages(
    grid: Grid,
    cell: Cell,
    inputs: Inputs,
    questions: list[Row],
    answers: Mapping[str, Row],
    work: BuildContext,
) -> dict[str, tuple[Passage, ...]]:
    from rag_assay.evals.pipeline.run_resources import RunResources

    reads = grid.studies[cell.study].reads(cell.generator)
    if reads == "nothing":
        return {row["question_id"]: () for row in questions}
    if reads == "evidence":
        return _evidence(inputs, questions, answers, work)
    if reads in {"imported", "system"}:
        of_sheet = contexts_of(work.store, inputs[PartitionRef("answers", cell.key)])
        return {row["question_id"]: of_sheet.get(row["question_id"], ()) for row in questions}
    index = work.resource(RunResources).index(inputs[PartitionRef("indexes", grid.index_key(cell))])
    chunks = inputs[PartitionRef("chunks", grid.index_key(cell).rpartition(".")[0])]
    spans = _spans(inputs[PartitionRef("rankings", cell.ranking)], work)
    named = {chunk for row in answers.values() for chunk in row["chunk_ids"] or ()}
    named |= {chunk for of_question in spans.values() for chunk in list(of_question)[:FOUND]}
    headings = headings_of(chunks, work, sorted(named))
    found = {}
    for question_id in (row["question_id"] for row in questions):
        if question_id in spans:
            hits, answer = spans[question_id], answers.get(question_id)
            ids = list(hits)[:FOUND] if answer is None else answer["chunk_ids"] or []
            delivered = [_delivered(one, hits, index, headings) for one in ids if one in index.positions]
            found[question_id] = _as_given(delivered, answer)
    return found


Spans = dict[str, tuple[int, int, float]]
"""Chunk id -> start, end and score of what was delivered for it, the best first."""


def _spans(ranking: Artifact, work: BuildContext) -> dict[str, Spans]:
    folder = work.store.folder("rankings", ranking.identity)
    ended = read_parquet(folder / "ranked.parquet").filter(pl.col("status") == Status.OK)
    found: dict[str, Spans] = {question: {} for question in ended["question_id"]}
    hits = read_parquet(folder / "hits.parquet").sort("question_id", "rank")
    columns = ("question_id", "chunk_id", "start", "end", "score")
    for question, chunk, start, end, score in hits.select(columns).iter_rows():
        found.get(question, {}).setdefault(chunk, (start, end, score))
    return found


def _delivered(chunk: str, hits: Spans, index: OpenIndex, headings: Headings) -> Passage:
    row = index.positions[chunk]
    context = (*index.spans.contexts[row].tolist(), 0.0)
    start, end, score = hits.get(chunk, context)
    return passage_of(index, chunk, start, end, score, headings)


def _evidence(
    inputs: Inputs, questions: list[Row], answers: Mapping[str, Row], work: BuildContext
) -> dict[str, tuple[Passage, ...]]:
    by_id = documents_of_evidence(inputs.values(), questions, work)
    found = {}
    for row in questions:
        answer = answers.get(row["question_id"])
        known = {one.chunk: one for one in evidence_passages(row, by_id)}
        given = [known[one] for one in (answer["chunk_ids"] or [] if answer else known) if one in known]
        found[row["question_id"]] = _as_given(given, answer)
    return found


def _as_given(passages: list[Passage], answer: Row | None) -> tuple[Passage, ...]:
    kept = {one["chunk_id"]: one["kept"] for one in (answer.get("cuts") or () if answer else ())}
    texts = [(one, one.text[: kept.get(one.chunk, len(one.text))].rstrip()) for one in passages]
    return tuple(
        one if len(text) == len(one.text.rstrip()) else replace(one, text=text) for one, text in texts if text
    )


class CellItems(NamedTuple):
    """What people can score of a replicate of a cell; ties: questions that two cells answer alike."""

    items: dict[str, Item]
    ties: frozenset[str] = frozenset()
    missing: dict[str, str] = {}  # noqa: RUF012 -- a default of a NamedTuple, never changed


def scored_cells(study: Study) -> list[Cell]:
    return [cell for cell in study.runs() if cell.generator != NO_GENERATOR]


def item_needs(grid: Grid, cell: Cell, against: str | None = None) -> list[PartitionRef]:
    if cell.generator == NO_GENERATOR:
        return []
    rival = _rival(grid.studies[cell.study], cell, against)
    others = answer_needs(rival) if rival else []
    sets = [PartitionRef("questions", name) for name in grid.set_keys(cell.study)]
    return [*answer_needs(cell), *passage_needs(grid, cell), *others, *sets]


def scorable(
    grid: Grid, cell: Cell, inputs: Inputs, work: BuildContext, against: str | None = None
) -> tuple[list[str], frozenset[str], int]:
    if cell.generator == NO_GENERATOR:
        return [], frozenset(), 0
    found = _answered(grid, cell, inputs, work, against)
    ties = frozenset(one.question["question_id"] for one in found if one.is_tie)
    ids = [one.question["question_id"] for one in found if one.why is None and not one.is_tie]
    return ids, ties, sum(one.why is not None for one in found)


def read_items(
    grid: Grid, cell: Cell, inputs: Inputs, work: BuildContext, against: str | None = None
) -> CellItems:
    if cell.generator == NO_GENERATOR:
        return CellItems({})
    asked = _answered(grid, cell, inputs, work, against)
    answers = {one.question["question_id"]: one.answer for one in asked if one.answer}
    passages = read_passages(grid, cell, inputs, [one.question for one in asked], answers, work)
    found = CellItems({}, missing={})
    ties = set()
    for one in asked:
        question = one.question["question_id"]
        if one.answer is None or one.why is not None:
            found.missing[question] = one.why or ""
        elif one.is_tie:
            ties.add(question)
        elif question not in passages:
            found.missing[question] = "the ranking failed"
        else:
            found.items[question] = _item(one.question, one.answer, passages[question], one.rival)
    return found._replace(ties=frozenset(ties))


class _Asked(NamedTuple):
    """A question of a cell with its answer; ``why``: there is nothing to score."""

    question: Row
    answer: Row | None
    rival: str | None
    why: str | None
    is_tie: bool = False


def _answered(
    grid: Grid, cell: Cell, inputs: Inputs, work: BuildContext, against: str | None
) -> list[_Asked]:
    study = grid.studies[cell.study]
    answers = _as_said(cell, read_answers(study, cell, inputs, work, markers=True))
    rival = _rival(study, cell, against)
    others = _as_said(rival, read_answers(study, rival, inputs, work, markers=True)) if rival else {}
    found = []
    for row in questions_of(grid, cell, inputs, work, against):
        answer, other = answers.get(row["question_id"]), others.get(row["question_id"])
        why = _nothing_to_score(answer)
        if why is None and rival and (of_other := _nothing_to_score(other)):
            why = f"the answer of the other cell: {of_other}"
        is_tie = rival is not None and why is None and text_of(answer) == text_of(other)
        found.append(_Asked(row, answer, text_of(other), why, is_tie))
    return found


def _as_said(cell: Cell, answers: dict[str, Row]) -> dict[str, Row]:
    if not cell.imported:
        return answers
    said = {"status": Status.OK, "reason": None}
    return {name: one if one["answer"] is None else {**one, **said} for name, one in answers.items()}


def current_items(
    grid: Grid,
    study: Study,
    work: BuildContext,
    against: str | None = None,
    wanted: Callable[[Cell], bool] = lambda _: True,
) -> Iterator[tuple[Cell, CellItems]]:
    for cell in filter(wanted, scored_cells(study)):
        needs = item_needs(grid, cell, against)
        there = {need: work.store.current(need.stage, need.key) for need in needs}
        inputs = {need: artifact for need, artifact in there.items() if artifact}
        if len(inputs) == len(there):
            yield cell, read_items(grid, cell, inputs, work, against)


def questions_of(
    grid: Grid, cell: Cell, inputs: Inputs, work: BuildContext, against: str | None = None
) -> list[Row]:
    study = grid.studies[cell.study]
    keys = grid.set_keys(cell.study)
    artifacts = [inputs[need] for need in (PartitionRef("questions", key) for key in keys)]
    questions = read_questions(artifacts, work)
    rival = _rival(study, cell, against)
    ids = study.sampled(questions["question_id"].to_list(), cell.sample)
    chosen = set(study.sampled(ids, rival.sample if rival else None))
    return [row for row in questions.iter_rows(named=True) if row["question_id"] in chosen]


def _rival(study: Study, cell: Cell, against: str | None) -> Cell | None:
    rival = study.cell_named(against)
    return same_replicate(study, rival, cell) if rival else None


def _nothing_to_score(answer: Row | None) -> str | None:
    if answer is None:
        return "the question has no answer yet"
    if answer["status"] not in {Status.OK, Status.REFUSED}:
        return f"{answer['status']}: {answer['reason'] or 'the answer failed'}"
    return None


def _item(question: Row, answer: Row, passages: Sequence[Passage], rival: str | None) -> Item:
    places = {chunk: number for number, chunk in enumerate(answer["chunk_ids"] or [], 1)}
    numbered = tuple(replace(one, number=places.get(one.chunk, at)) for at, one in enumerate(passages, 1))
    quotes = dict.fromkeys(one["quote"] for one in question["evidence"] or [] if one["quote"])
    return Item(
        case_of(question, answer, numbered, rival),
        tuple(quotes),
        _marks(question, numbered),
        tuple(question["conversation"] or ()),
        question["asked_at"],
    )


def _marks(question: Row, passages: Sequence[Passage]) -> tuple[tuple[int, int, int], ...]:
    found: list[tuple[int, int, int]] = []
    for at, passage in enumerate(passages):
        first, length = passage.start, len(passage.text)
        inside = [
            Span("", max(piece["start"] - first, 0), min(piece["end"] - first, length))
            for piece in question["evidence"] or ()
            if piece["start"] is not None and piece["doc_id"] == passage.document
        ]
        found += [
            (at, one.start, one.end) for one in merge_spans(one for one in inside if one.start < one.end)
        ]
    return tuple(found)
