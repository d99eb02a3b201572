"""What a sheet says of itself: of which study and queue it is, for whom, and how its rubrics were worded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rag_assay.assets.recipes.build_half import Name
from rag_assay.evals.human.queue import Queue
from rag_assay.evals.rubrics.rubric import Criterion, Rubric
from rag_assay.warehouse.identity import digest

MARK = "# rag-assay queue "
FORM = 1
LONGEST_NAME = 200


class Worded(BaseModel):
    """How a rubric was worded when the sheet was written: its version, and a digest of each criterion."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str
    criteria: Mapping[str, str]


class SheetHeading(BaseModel):
    """The first line of a sheet, and part of each task for another tool.

    sheet: id of this sheet alone, by which what it brought is known when it comes again
    annotator: whose sheet it is; None: of anybody who works on it together
    among: names of those who share the work; none: the sheet holds every item
    known: how many rows the annotator's scores had when it was written: what it was filled in with
    rubrics: by name, as they were worded
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    form: int = FORM
    sheet: str = Field(pattern=r"^[0-9a-f]{10}$")
    study: Name  # it becomes part of a path
    queue: str = Field(pattern=r"^[0-9a-f]{12}$")
    annotator: str | None = Field(default=None, min_length=1, max_length=LONGEST_NAME)
    among: tuple[str, ...] = ()
    exported_at: datetime
    known: int = Field(ge=0)
    rubrics: Mapping[str, Worded]

    def line(self) -> str:
        """Return it as one line of ASCII."""
        return MARK + json.dumps(self.model_dump(mode="json"))


def heading_of(
    queue: Queue, annotator: str | None, known: int, now: datetime, among: Sequence[str] = ()
) -> SheetHeading:
    """Return the heading of a new sheet."""
    found = SheetHeading(
        sheet="0" * 10,
        study=queue.study,
        queue=queue.version,
        annotator=annotator,
        among=tuple(sorted(among)),
        exported_at=now.astimezone(UTC),
        known=known,
        rubrics={name: current_wording(rubric) for name, rubric in queue.rubrics.items()},
    )
    return found.model_copy(update={"sheet": _sheet_id(found)})


def _sheet_id(heading: SheetHeading) -> str:
    """Return the id of a sheet: a digest of all else that it says of itself."""
    return digest(["sheet", heading.model_dump(mode="json", exclude={"sheet"})])[:10]


def current_wording(rubric: Rubric) -> Worded:
    """Return how a rubric is worded now."""
    criteria = {one.name or "": criterion_version(rubric, one) for one in rubric.criteria}
    return Worded(version=rubric.version, criteria=criteria)


def criterion_version(rubric: Rubric, criterion: Criterion) -> str:
    """Return a digest of all that an annotator reads of one criterion, whatever else the rubric asks."""
    anchors = sorted([value, text] for value, text in criterion.anchors.items())
    seen = [rubric.kind, rubric.shows_ground_truth, rubric.against]
    return digest(["criterion", criterion.name, criterion.ask, anchors, *seen])[:12]


def is_heading(text: str) -> bool:
    """Return whether a text begins a sheet of ours."""
    return text.startswith(MARK)


def read_heading(line: str) -> SheetHeading:
    """Return the heading that a line holds.

    Raises:
        ValueError: it holds none, or one of another form.
    """
    try:
        found = SheetHeading.model_validate(json.loads(line.removeprefix(MARK)))
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}") from error
    if found.sheet != _sheet_id(found):
        raise ValueError("its parts do not belong together")
    return found


def token(heading: SheetHeading, item_id: str, showing: int) -> str:
    """Return what names an item and its showing in a sheet, without telling which are shown again."""
    return "r" + digest(["row", heading.sheet, item_id, showing])[:12]  # no spreadsheet takes it for a number
