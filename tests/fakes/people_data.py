"""Reports with human ratings: of the sheet of the sports news project, or of simulated annotators."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import openpyxl
import polars as pl

from rag_assay.evals.judge_calibration.agreement import agreement_rows
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.rating_scores import CELLS, ScoresOfPeople
from rag_assay.evals.rubrics.items import item_id
from rag_assay.evals.rubrics.points import Points
from rag_assay.evals.rubrics.rubric import Rubric
from rag_assay.evals.study.cells import Cell
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import AGREEMENT, ANNOTATIONS, ANSWERS, QUESTIONS
from tests.fakes.annotators import Habit, frame_of, row, simulated
from tests.fakes.report_data import OF_CELL, board_data

SHEET = (
    Path(__file__).parents[2].parent / "shared/data/reviersport/Scored_Llama-2-13b-german-promp-template.xlsx"
)
RUBRICS: Mapping[str, Rubric] = {"points": Points()}


@dataclass(frozen=True)
class Scored:
    """An answer with what was given to it: the parts of a report's data."""

    cell: Cell
    question_id: str
    question: str
    answer: str
    item: str


@lru_cache(maxsize=1)
def sheet_rows() -> list[dict[str, Any]]:
    """Return the rows of the sheet as it writes them, its lists and tuples read."""
    sheet = openpyxl.load_workbook(SHEET, read_only=True).worksheets[0]
    header, *rows = sheet.iter_rows(values_only=True)
    found = [dict(zip(header, one, strict=True)) for one in rows]
    return [
        {
            **one,
            "contexts": ast.literal_eval(one["contexts"]),
            "methods": ast.literal_eval(one["retrieve_methods"]),
            "size": ast.literal_eval(one["chunk_strategie"]),
        }
        for one in found
    ]


@lru_cache(maxsize=1)
def sheet_data() -> ReportData:
    """Return the sheet as a report's data: one annotator, 48 cells, 11 questions."""
    rows = sheet_rows()
    numbers = {text: f"q{at:02}" for at, text in enumerate(dict.fromkeys(one["question"] for one in rows), 1)}
    scored, scores = [], []
    called: dict[tuple[str, str], str] = {}
    for line, one in enumerate(rows, 2):
        chunking, retriever = "-".join(map(str, one["size"])), "+".join(one["methods"]) or "no-retrieval"
        called |= {
            ("chunking", chunking): one["chunk_strategie"],
            ("retriever", retriever): one["retrieve_methods"],
        }
        cell = Cell("reviersport", chunking, "given", retriever, "llama-2-13b")
        item = item_id(one["question"], one["answer"], one["contexts"])
        found = Scored(cell, numbers[one["question"]], one["question"], one["answer"], item)
        scored.append(found)
        given = {"cell": cell.key, "question_id": found.question_id, "place": f"sheet.xlsx:{line}"}
        scores.append(row("developer", item, float(one["Score"]), **given))
    return data_of(scored, scores, called=called)


def simulated_data(
    chunkings: int, retrievers: int, generators: int, questions: int, people: Mapping[str, Habit]
) -> ReportData:
    """Return a study that simulated annotators have scored, each answer an item of its own."""
    cells = [
        Cell("s", f"tokens-{64 * (c + 1)}", "e", f"retriever-{r}", f"model-{g}")
        for c in range(chunkings)
        for r in range(retrievers)
        for g in range(generators)
    ]
    scored = [
        Scored(cell, f"q{n:03}", f"What is {n}?", f"It is {n}, says {cell.retriever}.", f"{cell.key} {n}")
        for cell in cells
        for n in range(questions)
    ]
    return data_of(scored, simulated(people, {one.item: one.question_id for one in scored}))


def data_of(
    scored: Sequence[Scored],
    scores: Sequence[Mapping[str, Any]],
    rubrics: Mapping[str, Rubric] = RUBRICS,
    called: Mapping[tuple[str, str], str] | None = None,
) -> ReportData:
    """Return a report whose answers people have scored."""
    cells = {one.cell.key: one.cell for one in scored}
    held = frame_of(scores)
    questions = {one.item: one.question_id for one in scored}
    texts = {one.question_id: one.question for one in scored}
    people = ScoresOfPeople(
        rubrics,
        frame([_cell(one) for one in cells.values()], CELLS),
        values_of(scored, held, rubrics),
        held,
        frame(agreement_rows(held, rubrics, questions, 7), AGREEMENT),
        called or {},
        "assay ui s --page review",
    )
    return replace(
        board_data([]),
        questions=frame([_question(name, text) for name, text in texts.items()], QUESTIONS),
        answers=frame([_answer(one) for one in scored], {**ANSWERS, **OF_CELL}),
        people=people,
    )


def values_of(scored: Sequence[Scored], held: pl.DataFrame, rubrics: Mapping[str, Rubric]) -> pl.DataFrame:
    """Return what scores come to, a row an answer and criterion: the plain arithmetic of the contract."""
    by_place: dict[tuple[Any, ...], dict[str, list[float]]] = {}
    for one in held.filter(pl.col("value").is_not_null()).iter_rows(named=True):
        place = (
            one["rubric"],
            one["criterion"],
            one["item_id"],
            one["cell"],
            one["question_id"] if one["cell"] else None,
        )
        by_place.setdefault(place, {}).setdefault(one["annotator"], []).append(one["value"])
    rows = []
    for name, rubric in rubrics.items():
        for criterion in rubric.criteria:
            for one in scored:
                of = (name, criterion.name, one.item)
                given = {
                    **by_place.get((*of, None, None), {}),
                    **by_place.get((*of, one.cell.key, one.question_id), {}),
                }
                means = [sum(values) / len(values) for values in given.values()]
                rows.append(
                    {
                        "cell": one.cell.key,
                        "question_id": one.question_id,
                        "rubric": name,
                        "criterion": criterion.name,
                        "value": sum(means) / len(means) if means else None,
                        "annotators": len(means),
                        "low": min(means, default=None),
                        "high": max(means, default=None),
                        "item_id": one.item,
                    }
                )
    return frame([{**dict.fromkeys(ANNOTATIONS), **one} for one in rows], ANNOTATIONS)


def _cell(cell: Cell) -> dict[str, Any]:
    parts = {axis: getattr(cell, axis) for axis in ("chunking", "embedder", "retriever", "generator")}
    read = {axis: None if part == "-" else part for axis, part in parts.items()}
    return {"key": cell.key, "cell": cell.name, "replicate": cell.replicate, **read}


def _question(name: str, text: str) -> dict[str, Any]:
    known = {"question_id": name, "question": text, "question_set": "s", "answerable": True, "evidence": []}
    return {**dict.fromkeys(QUESTIONS), **known, "conversation": []}


def _answer(one: Scored) -> dict[str, Any]:
    known = {"question_id": one.question_id, "answer": one.answer, "status": "ok"}
    return {**dict.fromkeys(ANSWERS), **known, "cell": one.cell.name, "replicate": one.cell.replicate}
