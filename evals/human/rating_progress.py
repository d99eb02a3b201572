"""What was scored of a queue: who has scored which item, whole or half, and how often."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from statistics import fmean
from typing import Literal

from rag_assay.evals.human.queue import Queue
from rag_assay.warehouse.human_scores import HumanScore

_Asked = tuple[str, str | None]  # name of the rubric, name of the criterion
_Shown = tuple[str, str, int]  # annotator, item_id, showing


class Scored:
    """The scores of a queue's items that stand: by a rubric as it is worded now, and not taken back."""

    def __init__(self, queue: Queue, scores: Iterable[HumanScore]) -> None:
        """Read scores.

        scores: of the study by anybody, in the order of their files; those of other items are passed over
        """
        self._queue = queue
        self._standing: dict[_Shown, dict[tuple[_Asked, str | None, str | None], HumanScore]]
        self._standing = defaultdict(dict)
        versions = {name: rubric.version for name, rubric in queue.rubrics.items()}
        for one in scores:
            if one.item_id in queue.by_id and versions.get(one.rubric) == one.rubric_version:
                shown = self._standing[one.annotator, one.item_id, 1 if one.showing == 1 else 2]
                shown[(one.rubric, one.criterion), one.cell, one.question_id] = one
        self._asked = {
            rubrics: frozenset((name, one.name) for name in rubrics for one in queue.rubrics[name].criteria)
            for rubrics in {one.rubrics for one in queue.items}
        }
        self._scorers: dict[str, set[str]] = defaultdict(set)
        self._first: dict[str, list[str]] = defaultdict(list)
        self._again: dict[str, list[str]] = defaultdict(list)
        self._begun: dict[str, list[tuple[str, Literal[1, 2]]]] = defaultdict(list)
        self._through: set[tuple[str, str]] = set()
        self.annotators: set[str] = set()
        for key in self._standing:
            self._read(*key)

    def _read(self, annotator: str, item_id: str, showing: int) -> None:
        standing = {
            asked: one.status
            for (asked, _, _), one in self._standing[annotator, item_id, showing].items()
            if one.status != "withdrawn"
        }
        asked = self._asked[self._queue.by_id[item_id].rubrics]
        if not standing.keys() & asked:
            return
        self.annotators.add(annotator)
        if not asked <= standing.keys():
            self._begun[annotator].append((item_id, 1 if showing == 1 else 2))
            return
        (self._first if showing == 1 else self._again)[annotator].append(item_id)
        self._through.add((annotator, item_id))
        if "ok" in standing.values():
            self._scorers[item_id].add(annotator)

    def scorers(self, item_id: str) -> int:
        """Return how many annotators have scored an item."""
        return len(self._scorers[item_id]) if item_id in self._scorers else 0

    def wants(self, item_id: str, annotator: str, wanted: int) -> bool:
        """Return whether an annotator has not been through an item, and too few others have scored it.

        wanted: how many annotators are to score it
        """
        return (annotator, item_id) not in self._through and self.scorers(item_id) < wanted

    def first_showings(self, annotator: str) -> list[str]:
        """Return what an annotator has scored or skipped the first time, in the order of doing."""
        return self._first.get(annotator, [])

    def skipped(self, annotator: str) -> set[str]:
        """Return what an annotator has been through without a score."""
        return {one for one in self.first_showings(annotator) if annotator not in self._scorers.get(one, ())}

    def repeated(self, annotator: str) -> list[str]:
        """Return what an annotator has scored or skipped when it was shown again."""
        return self._again.get(annotator, [])

    def begun(self, annotator: str) -> Iterator[tuple[str, Literal[1, 2]]]:
        """Yield (item, showing) of what an annotator has left half scored."""
        yield from self._begun.get(annotator, ())

    def shown(self, annotator: str) -> int:
        """Return how many showings an annotator has been through."""
        return len(self.first_showings(annotator)) + len(self.repeated(annotator))

    def values(self, rubric: str, criterion: str | None) -> list[float]:
        """Return a value for each item that was scored: the mean over annotators of that over showings."""
        found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for (annotator, item_id, _), standing in self._standing.items():
            for (asked, _, _), one in standing.items():
                if asked == (rubric, criterion) and one.status == "ok" and one.value is not None:
                    found[item_id][annotator].append(one.value)
        return [fmean(map(fmean, by_annotator.values())) for by_annotator in found.values()]
