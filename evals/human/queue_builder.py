"""Makes the queue of a study of the answers that its cells have now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.human.disputes import Place, disputes
from rag_assay.evals.human.item_sampling import QueueCandidate, draw_items, without_items
from rag_assay.evals.human.labels_needed import labels_needed, likely_variance
from rag_assay.evals.human.queue import Queue
from rag_assay.evals.human.rating_progress import Scored
from rag_assay.evals.pipeline.cell_items import current_items
from rag_assay.evals.rubrics.item_records import blind
from rag_assay.evals.rubrics.items import Item
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.human_scores import HumanScore


@dataclass
class _Found:
    """An item, and where it stands."""

    item: Item
    rubrics: tuple[str, ...]
    places: list[Place] = field(default_factory=list)
    strata: set[tuple[str, str]] = field(default_factory=set)


@dataclass(frozen=True)
class BuiltQueue:
    """A queue, and what a person should know of it.

    cells: how many cells have answers that people can score
    missing: how many answers there are none of: (cell, question) whose answer or ranking failed
    without: keys of cells of which nothing was drawn, for want of room
    """

    queue: Queue
    cells: int
    missing: int
    without: tuple[str, ...]


def build_queue(grid: Grid, study: Study, work: BuildContext, scores: Iterable[HumanScore]) -> BuiltQueue:
    """Build the queue of a study: nothing is written.

    scores: what people have said so far, in the order of their files: what the precision needs hangs on it
    """
    reading = _Reading(grid, study, work)
    candidates = reading.candidates()
    said = study.annotation
    by_dispute = said.order == "disputed"
    everything = Queue(
        study=study.study,
        rubrics=study.scored_by,
        items=tuple(draw_items(candidates, study.seed, None, by_dispute=by_dispute)),
        seed=study.seed,
        made_at=datetime.now(UTC),
        twice=said.twice,
        repeats=said.repeats,
        order=said.order,
        population=len(candidates),
    )
    needed = None
    if said.precision is not None:
        needed = items_needed(everything, candidates, said.precision, scores)
    size = said.sample or needed
    items = draw_items(candidates, study.seed, size, by_dispute=by_dispute)
    without = sorted({cell for cell, _ in without_items(candidates, items)})
    queue = replace(everything, items=tuple(items), needed=needed)
    return BuiltQueue(queue, len(reading.cells), reading.missing, tuple(without))


class _Reading:
    """Reads the items of a study, each once."""

    def __init__(self, grid: Grid, study: Study, work: BuildContext) -> None:
        self.grid, self.study, self.work = grid, study, work
        self.cells: dict[str, Cell] = {}
        self.missing = 0
        self._passages: dict[Passage, Passage] = {}
        self._found: dict[str, _Found] = {}

    def candidates(self) -> list[QueueCandidate]:
        """Return what can be drawn, in the order of the study's cells and questions."""
        rubrics: dict[str | None, list[str]] = {}
        for name, one in self.study.scored_by.items():
            rubrics.setdefault(one.against, []).append(name)
        for against, names in rubrics.items():
            self._read(against, tuple(names))
        disputed: Mapping[Place, float] = {}
        if self.study.annotation.order == "disputed":
            disputed = disputes(self.study, self.cells.values(), self.work.store)
        return [_candidate(one, disputed) for one in self._found.values()]

    def _read(self, against: str | None, names: tuple[str, ...]) -> None:
        of_study = current_items(self.grid, self.study, self.work, against, wanted=self.study.people_score)
        for cell, found in of_study:
            self.cells[cell.key] = cell
            self.missing += len(found.missing)
            for question, item in found.items.items():
                one = self._found.get(item.item_id)
                if one is None:
                    one = self._found[item.item_id] = _Found(self._kept(item), names)
                elif not set(names) <= set(one.rubrics):  # two rivals that answer in the same words
                    one.rubrics = (*one.rubrics, *names)
                one.places.append((cell.key, question))
                one.strata.add((cell.key, against or ""))

    def _kept(self, item: Item) -> Item:
        """Return an item that says nothing of its cell; equal passages of several items are held once."""
        hidden = blind(item)
        passages = tuple(self._passages.setdefault(one, one) for one in hidden.case.passages)
        return replace(hidden, case=replace(hidden.case, passages=passages))


def _candidate(found: _Found, disputed: Mapping[Place, float]) -> QueueCandidate:
    questions = frozenset(question for _, question in found.places)
    item = replace(found.item, case=replace(found.item.case, question_id=min(questions)))
    known = [disputed[place] for place in found.places if place in disputed]
    return QueueCandidate(item, found.rubrics, questions, frozenset(found.strata), max(known, default=None))


# How many are needed ---------------------------------------------------------------------------------------


def items_needed(
    queue: Queue, candidates: Sequence[QueueCandidate], precision: float, scores: Iterable[HumanScore]
) -> int:
    """Return how many items, in the order of drawing, the means of all cells need to be known so well.

    queue: of all candidates
    precision: half width of a 95 % interval of a cell's mean, as a share of the rubric's scale
    """
    strata = {one.item.item_id: one.strata for one in candidates}
    sizes = Counter(stratum for of_item in strata.values() for stratum in of_item)
    asked = [
        (rubric.against or "", one.bounds, scored.values(name, one.name))
        for scored in [Scored(queue, scores)]
        for name, rubric in queue.rubrics.items()
        for one in rubric.criteria
    ]

    @cache
    def labels(against: str, size: int) -> int:
        return max(
            labels_needed(precision * (high - low), size, likely_variance(values, (low, high), size))
            for of, (low, high), values in asked
            if of == against
        )

    left = {stratum: labels(stratum[1], size) for stratum, size in sizes.items()}
    for number, one in enumerate(queue.items):
        if not left:
            return number
        for stratum in strata[one.item_id] & left.keys():
            left[stratum] -= 1
            if not left[stratum]:
                del left[stratum]
    return len(queue.items)
