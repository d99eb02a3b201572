"""What an annotator has said so far, and what a sheet knew of it: the base that its cells are held against.

A sheet is filled in while its annotator may score on the page as well. So a cell counts as edited where it
differs
from what the sheet held last: when it was written, or when it was brought back the last time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from rag_assay.evals.human.spreadsheets.heading import SheetHeading

Asked = tuple[str, str | None]
"""Name of a rubric, name of a criterion of it."""
Shown = tuple[str, int]
"""Id of an item, number of its showing."""
Row = Mapping[str, Any]
"""A row of `annotation_schemas.HUMAN_SCORES`."""


class RatingEntry(NamedTuple):
    """What a person says by one criterion: a value of its anchors, or that they cannot say.

    value: of the answer itself, whichever stood first
    """

    status: Literal["ok", "skipped"]
    value: float | None = None


class CommentedRating(NamedTuple):
    """An entry and the comment beside it."""

    entry: RatingEntry
    comment: str = ""


class State(dict[Asked, CommentedRating]):
    """What is said of one showing, by what is asked."""

    @property
    def comment(self) -> str:
        """The comments of all criteria as one text, each once."""
        return "\n".join(dict.fromkeys(one.comment for one in self.values() if one.comment))


class Past:
    """The rows of one annotator, in the order of their file."""

    def __init__(self, rows: Iterable[Row], annotator: str) -> None:
        """Read the rows of a study by anybody."""
        self.rows = [row for row in rows if row["annotator"] == annotator]
        self._by_showing: dict[Shown, list[tuple[int, Row]]] = defaultdict(list)
        for place, row in enumerate(self.rows):
            if row["cell"] is None:  # else it is of one cell alone, and of no queue
                self._by_showing[row["item_id"], row["showing"]].append((place, row))

    def now(self, shown: Shown, versions: Mapping[str, str]) -> State:
        """Return what stands of a showing by rubrics of these versions."""
        rows = [row for _, row in self._by_showing.get(shown, ())]
        return _state(row for row in rows if versions.get(row["rubric"]) == row["rubric_version"])

    def base(self, shown: Shown, heading: SheetHeading) -> State:
        """Return what a sheet held last of a showing."""
        versions = {name: one.version for name, one in heading.rubrics.items()}
        return _state(
            row
            for place, row in self._by_showing.get(shown, ())
            if _is_of(row, heading)
            or (place < heading.known and versions.get(row["rubric"]) == row["rubric_version"])
        )

    def brought(self, shown: Shown, heading: SheetHeading) -> int:
        """Return how many rows of a showing a sheet has brought."""
        return sum(_is_of(row, heading) for _, row in self._by_showing.get(shown, ()))


def score_id(heading: SheetHeading, content: str) -> str:
    """Return the id of a row that a sheet brings, by the digest of what it says."""
    return f"{heading.sheet}-{content}"


def _is_of(row: Row, heading: SheetHeading) -> bool:
    return str(row["score_id"]).startswith(f"{heading.sheet}-")


def _state(rows: Iterable[Row]) -> State:
    """Return what rows come to: by what is asked the last of them, where it was not taken back."""
    last: dict[Asked, Row] = {(row["rubric"], row["criterion"]): row for row in rows}
    return State(
        {
            asked: CommentedRating(RatingEntry(row["status"], row["value"]), row["comment"] or "")
            for asked, row in last.items()
            if row["status"] != "withdrawn"
        }
    )
