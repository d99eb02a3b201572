"""The queue of a study: what people are to score, and in which order each of them is shown it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Literal

from rag_assay.evals.rubrics.item_records import written_item
from rag_assay.evals.rubrics.items import Item
from rag_assay.evals.rubrics.rubric import Criterion, Rubric
from rag_assay.warehouse.components import as_written
from rag_assay.warehouse.identity import digest

Order = Literal["random", "disputed"]
TWICE, REPEATS = 0.2, 0.05  # shares of the items, unless a study says others


@dataclass(frozen=True)
class QueuedItem:
    """An item that was drawn into a queue.

    rubrics: names of those that it is scored by: an item that holds a rival, by those that compare with it
    probability: with which it was drawn, above 0, at most 1
    disputed: how much judges disagree on it, or on the question's answers, 0 to 1; None: it was not looked at
    """

    item: Item
    rubrics: tuple[str, ...]
    probability: float = 1.0
    disputed: float | None = None

    @cached_property
    def item_id(self) -> str:
        """The id of the item."""
        return self.item.item_id


@dataclass(frozen=True)
class Queue:
    """What the people of a study are to score, blind to cells, models and other scores.

    rubrics: by their names in the study, in its order
    items: each once; in the order in which they were drawn, which no annotator sees
    seed: the study's
    made_at: when it was made; says nothing of what is in it
    twice: share of the items that two annotators score
    repeats: share of an annotator's items that are shown once more
    order: `random`, or the more disputed sooner
    population: how many items it was drawn from
    needed: how many items the wanted precision needs, as far as is known; None: none was wanted
    """

    study: str
    rubrics: Mapping[str, Rubric]
    items: tuple[QueuedItem, ...]
    seed: int
    made_at: datetime
    twice: float = TWICE
    repeats: float = REPEATS
    order: Order = "random"
    population: int = 0
    needed: int | None = None

    @cached_property
    def version(self) -> str:
        """Digest of the content, but for `made_at` and `needed`."""
        items = [[written_item(one.item), one.rubrics, one.probability, one.disputed] for one in self.items]
        rubrics = {name: [as_written(one), one.version] for name, one in self.rubrics.items()}
        facts = [self.study, self.seed, self.twice, self.repeats, self.order, self.population]
        return digest(["queue", facts, rubrics, items])[:12]

    @cached_property
    def by_id(self) -> dict[str, QueuedItem]:
        """The items by their ids."""
        return {one.item_id: one for one in self.items}

    def asked(self, item_id: str) -> list[tuple[str, Criterion]]:
        """Return what is asked of an item: (name of the rubric, criterion), in the order of the study.

        Raises:
            KeyError: it is not in the queue.
        """
        named = self.by_id[item_id].rubrics
        return [
            (name, one) for name, rubric in self.rubrics.items() if name in named for one in rubric.criteria
        ]


@dataclass(frozen=True)
class Showing:
    """An item as it is shown to an annotator.

    rubrics: names of those that it is scored by
    position: the how-manieth thing that the annotator is shown, from 1
    showing: 1 for the first time, 2 for a hidden repeat
    swapped: of an item with a rival: the rival stands first, so that a preference for what stands first is
        the rival's; a value that is kept is of the answer all the same
    """

    item: Item
    rubrics: tuple[str, ...]
    position: int
    showing: Literal[1, 2] = 1
    swapped: bool = False


@dataclass(frozen=True)
class QueueProgress:
    """How far an annotator is, and all of them together.

    shown: what the annotator has scored or skipped, repeats counted
    left: what is still to come for the annotator, as far as is known: others may take of it, or join
    scored: items that as many people have scored as are to
    items: of the queue
    """

    shown: int
    left: int
    scored: int
    items: int
