"""Where an annotator is: an item as it is shown, and what is asked of it now."""

from __future__ import annotations

from dataclasses import dataclass

from rag_assay.evals.human.queue import Queue, Showing
from rag_assay.evals.rubrics.rubric import Criterion, Rubric
from rag_assay.orchestration.web.annotation.current_ratings import RatedCriterion, ShownItem


@dataclass(frozen=True)
class Question:
    """One thing that the annotator is asked of the item.

    rubric: its name in the study
    """

    rubric: str
    of: Rubric
    criterion: Criterion

    @property
    def asked(self) -> RatedCriterion:
        """By what the scores know it."""
        return RatedCriterion(self.rubric, self.criterion.name)


@dataclass(frozen=True)
class QueuePosition:
    """An item as it is shown.

    questions: all that is asked of it, in order
    step: which of them is before the annotator
    """

    showing: Showing
    questions: tuple[Question, ...]
    step: int = 0

    @property
    def shown(self) -> ShownItem:
        """By what the scores know the item."""
        return ShownItem(self.showing.item.item_id, self.showing.showing)

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


def place_of(queue: Queue, showing: Showing) -> QueuePosition:
    """Return an item as it is shown, the first thing that is asked of it before the annotator."""
    asked = queue.asked(showing.item.item_id)
    return QueuePosition(showing, tuple(Question(name, queue.rubrics[name], one) for name, one in asked))
