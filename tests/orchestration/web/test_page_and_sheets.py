"""What is scored on the page stands in the annotator's sheet, and what is edited there stands on the page."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from rag_assay.evals.rubrics.criteria import CriteriaRubric
from rag_assay.evals.rubrics.pairwise import PairwiseRubric
from rag_assay.evals.rubrics.rubric import Rubric
from rag_assay.orchestration.web.annotation.annotation_session import AnnotationSession as Page
from tests.fakes.queues import item_of, queue_of
from tests.fakes.sheets import Desk, fill, header_at, read_grid

PRESSES = count()
QUALITY = CriteriaRubric.model_validate({"metrics": ["correctness", "conciseness"], "scale": "binary"})
DUEL = PairwiseRubric.model_validate({"against": "a.b.c.d"})


def press(page: Page, kind: str, **more: Any) -> None:
    page.take({"token": page.token, "press": f"p{next(PRESSES)}", "kind": kind, "seconds": 2.0, **more})


def score_on_the_page(desk: Desk, names: int) -> None:
    """Score half of what there is, with comments, a skipped one and one taken back."""
    page = Page(desk.queue, "anna", desk.scores)
    for number in range(names):
        press(page, "skip" if number == 2 else "score", index=number % 2, comment=f"no. {number}; =1")
    press(page, "undo")


@pytest.mark.parametrize("rubrics", [{"quality": QUALITY}, {"duel": DUEL}], ids=["criteria", "pairs"])
@pytest.mark.parametrize("name", ["anna.xlsx", "anna.csv"])
def test_a_sheet_holds_what_the_page_has_and_changes_nothing(
    tmp_path: Path, rubrics: dict[str, Rubric], name: str
) -> None:
    rival = "Never." if "duel" in rubrics else None
    desk = Desk(tmp_path, queue_of([item_of(n, rival=rival) for n in range(12)], rubrics))
    score_on_the_page(desk, 9)
    before, standing = desk.rows(), desk.values()
    assert len(standing) == 8
    path = desk.export(name)
    found = desk.bring(path)
    assert (found.scores, found.rejects, found.unchanged) == ([], [], 8)
    assert desk.rows() == before
    cells = [str(cell) for row in read_grid(path) for cell in row]
    assert any("no. 3;" in cell for cell in cells)


@pytest.mark.parametrize("name", ["anna.xlsx", "anna.csv"])
def test_the_page_goes_on_where_the_sheet_ended(tmp_path: Path, name: str) -> None:
    desk = Desk(tmp_path, queue_of([item_of(n, rival="Never.") for n in range(12)], {"duel": DUEL}))
    path = desk.export(name)
    grid = read_grid(path)
    rows = [dict(zip(grid[header_at(grid)], row, strict=False)) for row in grid[header_at(grid) + 1 :]]

    def change(row: dict[str, Any], number: int) -> None:
        if number < 5:
            row["score: duel"] = 1  # what stands first is better

    fill(path, change)
    desk.bring(path)
    page = Page(desk.queue, "anna", desk.scores)
    assert page.progress.shown == 5
    assert page.place is not None
    shown = page.place.showing
    assert shown.item.case.question == rows[5]["question"]
    press(page, "back")
    assert page.place.showing.item.case.question == rows[4]["question"]
    swapped = page.place.showing.swapped
    last = desk.values()["anna", page.place.showing.item.item_id, 1, "duel", None]
    assert last == (0.0 if swapped else 1.0), "the page and the sheet mean the same answer"
