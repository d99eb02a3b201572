"""Where an annotator is: an item as it is shown, and what is asked of it now."""

from __future__ import annotations

from dataclasses import dataclass

from evals.annotating.rubric import Criterion, Rubric
from evals.queueing.contract import Queue, Showing
from orchestration.web.annotating.standing import Asked, Shown


@dataclass(frozen=True)
class Question:
    """One thing that the annotator is asked of the item.

    rubric: its name in the study
    """

    rubric: str
    of: Rubric
    criterion: Criterion

    @property
    def asked(self) -> Asked:
        """By what the scores know it."""
        return Asked(self.rubric, self.criterion.name)


@dataclass(frozen=True)
class Place:
    """An item as it is shown.

    questions: all that is asked of it, in order
    step: which of them is before the annotator
    """

    showing: Showing
    questions: tuple[Question, ...]
    step: int = 0

    @property
    def shown(self) -> Shown:
        """By what the scores know the item."""
        return Shown(self.showing.item.item_id, self.showing.showing)

    @property
    def now(self) -> Question:
        """What is before the annotator."""
        return self.questions[self.step]

    def kept(self, value: float, question: Question) -> float:
        """Return the value as it is stored, of the value as it is seen; or the other way round.

        Where the rival stands first, what is better as the annotator sees them is worse as it is stored.
        """
        low, high = question.criterion.bounds
        return low + high - value if self.showing.swapped and question.of.compares else value


def place_of(queue: Queue, showing: Showing) -> Place:
    """Return an item as it is shown, the first thing that is asked of it before the annotator."""
    asked = queue.asked(showing.item.item_id)
    return Place(showing, tuple(Question(name, queue.rubrics[name], one) for name, one in asked))
