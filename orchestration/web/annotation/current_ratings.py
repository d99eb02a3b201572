"""What an annotator's rows come to: which scores stand, and what was shown before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from rag_assay.evals.human.queue import Queue
from rag_assay.warehouse.human_scores import HumanScore


class ShownItem(NamedTuple):
    """An item as it was shown: for the first time, or again."""

    item_id: str
    showing: Literal[1, 2]


class RatedCriterion(NamedTuple):
    """One thing that is scored of an item."""

    rubric: str
    criterion: str | None


@dataclass
class CurrentRatings:
    """The rows of one annotator that count, of the items of a queue.

    scores: what stands of each thing that is asked, in the order of scoring; nothing that was taken back
    positions: where each item stood in the annotator's order, in the order in which they were first scored
    """

    scores: dict[tuple[ShownItem, RatedCriterion], HumanScore] = field(default_factory=dict)
    positions: dict[ShownItem, int] = field(default_factory=dict)

    @property
    def last(self) -> tuple[ShownItem, RatedCriterion] | None:
        """What was scored or skipped last, and stands."""
        return next(reversed(self.scores), None)

    def of(self, shown: ShownItem) -> dict[RatedCriterion, HumanScore]:
        """Return what stands of an item as it was shown."""
        return {asked: score for (one, asked), score in self.scores.items() if one == shown}

    def history(self, also: ShownItem | None) -> list[ShownItem]:
        """Return what was shown and scored, in its order; and one more that may have been taken back."""
        scored = {shown for shown, _ in self.scores}
        return [one for one in self.positions if one in scored or one == also]


def current_ratings(queue: Queue, annotator: str, rows: Iterable[HumanScore]) -> CurrentRatings:
    """Return what stands of an annotator's scores.

    rows: of the study by anybody, in the order of their files
    """
    found = CurrentRatings()
    versions = {name: rubric.version for name, rubric in queue.rubrics.items()}
    for row in rows:
        is_theirs = row.annotator == annotator and row.cell is None and row.item_id in queue.by_id
        if not is_theirs or versions.get(row.rubric) != row.rubric_version:
            continue
        shown = ShownItem(row.item_id, 1 if row.showing == 1 else 2)
        place = shown, RatedCriterion(row.rubric, row.criterion)
        found.positions.setdefault(shown, row.position or len(found.positions) + 1)
        found.scores.pop(place, None)
        if row.status != "withdrawn":
            found.scores[place] = row
    return found
