"""The items of a cell: what people are shown of it, and score."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from rag_assay.assets.engine.stage import BuildContext, PartitionRef
from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.pipeline.cell_contents import (
    Inputs,
    Row,
    answer_needs,
    case_of,
    passage_needs,
    read_answers,
    read_passages,
    same_replicate,
    text_of,
)
from rag_assay.evals.pipeline.stage_inputs import read_questions
from rag_assay.evals.rubrics.items import Item
from rag_assay.evals.study.cells import NO_GENERATOR, Cell
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.schemas import Status


class CellItems(NamedTuple):
    """What people can score of a replicate of a cell, in the order of the questions.

    items: question id -> item; a refusal is one, too
    ties: ids of the questions that two cells answer in the same words, so that there is nothing to compare
    missing: question id -> why there is nothing to score: an answer that failed, a ranking that failed
    """

    items: dict[str, Item]
    ties: frozenset[str] = frozenset()
    missing: dict[str, str] = {}  # noqa: RUF012 -- a default of a NamedTuple, which nobody changes


def scored_cells(study: Study) -> list[Cell]:
    """Return the replicates of cells that people can score: those with a generator."""
    return [cell for cell in study.runs() if cell.generator != NO_GENERATOR]


def item_needs(grid: Grid, cell: Cell, against: str | None = None) -> list[PartitionRef]:
    """Return what the items of a cell are made of; nothing without a generator.

    against: key of the cell, without the study, whose answers stand beside; None: no pairs
    """
    if cell.generator == NO_GENERATOR:
        return []
    rival = _rival(grid.studies[cell.study], cell, against)
    others = answer_needs(rival) if rival else []
    sets = [PartitionRef("questions", name) for name in grid.set_keys(cell.study)]
    return [*answer_needs(cell), *passage_needs(grid, cell), *others, *sets]


def scorable(
    grid: Grid, cell: Cell, inputs: Inputs, work: BuildContext, against: str | None = None
) -> tuple[list[str], frozenset[str], int]:
    """Return which questions of a cell people can score, without reading passages.

    Returns ids of the questions with an item, ids of those that are ties, and how many have nothing to score.
    """
    if cell.generator == NO_GENERATOR:
        return [], frozenset(), 0
    found = _answered(grid, cell, inputs, work, against)
    ties = frozenset(one.question["question_id"] for one in found if one.is_tie)
    ids = [one.question["question_id"] for one in found if one.why is None and not one.is_tie]
    return ids, ties, sum(one.why is not None for one in found)


def read_items(
    grid: Grid, cell: Cell, inputs: Inputs, work: BuildContext, against: str | None = None
) -> CellItems:
    """Read the items of a cell.

    inputs: the artifacts of `item_needs`, and others
    """
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
    """A question of a cell with its answer.

    rival: the text of the answer that it is compared with
    why: there is nothing to score; None: there is
    """

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
    """Return answers with those of a sheet that have no text: people can say what that is worth."""
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
    """Yield the items of each cell of a study that has been answered, by what is stored now.

    A cell whose answers, or what they were made of, are not there yet is left out.

    wanted: whether a cell is read at all
    """
    for cell in filter(wanted, scored_cells(study)):
        needs = item_needs(grid, cell, against)
        there = {need: work.store.current(need.stage, need.key) for need in needs}
        inputs = {need: artifact for need, artifact in there.items() if artifact}
        if len(inputs) == len(there):
            yield cell, read_items(grid, cell, inputs, work, against)


def questions_of(
    grid: Grid, cell: Cell, inputs: Inputs, work: BuildContext, against: str | None = None
) -> list[Row]:
    """Return the questions that a cell is asked, of a pair those that both cells are (schemas.QUESTIONS)."""
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
    """Return why an answer is none that people can score."""
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
    """Return where evidence stands in the passages; overlapping pieces are one."""
    found: list[tuple[int, int, int]] = []
    for at, passage in enumerate(passages):
        spans = sorted(
            (max(piece["start"] - passage.start, 0), min(piece["end"] - passage.start, len(passage.text)))
            for piece in question["evidence"] or ()
            if piece["start"] is not None and piece["doc_id"] == passage.document
        )
        for start, end in spans:
            if start >= end:
                continue
            if found and found[-1][0] == at and start <= found[-1][2]:
                found[-1] = (at, found[-1][1], max(end, found[-1][2]))
            else:
                found.append((at, start, end))
    return tuple(found)
