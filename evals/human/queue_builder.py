"""Makes the queue of a study of the answers that its cells have now."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from math import sqrt

import numpy as np
import polars as pl

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.human.item_order import Scored
from rag_assay.evals.human.item_sampling import QueueCandidate, draw_items, without_items
from rag_assay.evals.human.queue import Queue, read_queue, write_queue
from rag_assay.evals.judging.judge_metrics import JudgedScores
from rag_assay.evals.pipeline.cell_items import current_items, scored_cells
from rag_assay.evals.rubrics.items import Item, blind
from rag_assay.evals.rubrics.rubric import PEOPLE
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.errors import CorruptFileError, InputError
from rag_assay.warehouse.human_scores import HumanScore, HumanScores
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.paths import Home

Place = tuple[str, str]  # key of a cell, id of a question


def disputes(study: Study, cells: Iterable[Cell], store: ArtifactStore) -> dict[Place, float]:
    """Return how disputed answers are, 0 to 1, by scores of judges, else of other metrics of answers."""
    named = [name for name in study.measured if not name.startswith(f"{PEOPLE}.")]
    of_answers = [one for one in map(study.metric, named) if one.kind == "answer"]
    judged = [one for one in of_answers if isinstance(one, JudgedScores)]
    metrics = [*(judged or of_answers)]
    names = [metric.name for metric in metrics]
    frames = []
    for cell in cells:
        artifact = store.current("scores", cell.key)
        if artifact is not None and names:
            rows = read_parquet(store.folder("scores", artifact.identity) / "scores.parquet")
            kept = rows.filter(pl.col("metric").is_in(names), pl.col("value").is_not_null())
            frames.append(kept.select(pl.lit(cell.key).alias("cell"), "question_id", "metric", "value"))
    if not frames:
        return {}
    lower = [metric.name for metric in metrics if not metric.higher_is_better]
    found = dispute_scores(pl.concat(frames), lower)
    return {(cell, question): value for cell, question, value in found.iter_rows()}


def dispute_scores(scores: pl.DataFrame, lower_is_better: Iterable[str] = ()) -> pl.DataFrame:
    """Return (cell, question_id, disputed): twice the standard deviation of an answer's ranks by several
    metrics, or of the mean ranks of all answers to its question, whatever is more; 0 to 1.
    """
    share = (pl.col("value").rank("average").over("metric") - 0.5) / pl.len().over("metric")
    turned = pl.when(pl.col("metric").is_in(list(lower_is_better))).then(1 - share).otherwise(share)
    answers = (
        scores.with_columns(turned.alias("share"))
        .group_by("cell", "question_id", maintain_order=True)
        .agg(pl.col("share").mean(), (2 * pl.col("share").std(ddof=0)).alias("by_metrics"), pl.len())
    )
    of_question = pl.col("share").std(ddof=0).over("question_id")
    by_cells = pl.when(pl.len().over("question_id") > 1).then(2 * of_question)
    by_metrics = pl.when(pl.col("len") > 1).then("by_metrics")
    largest = pl.max_horizontal(by_metrics, by_cells).fill_null(0.0).clip(0.0, 1.0)
    return answers.select("cell", "question_id", largest.alias("disputed"))


LEVEL = 0.95
AT_EACH_END = 2  # values that are added to those so far at either bound


def labels_needed(half_width: float, population: int, variance: float) -> int:
    """Return how many items must be scored for their mean to be known to ± half_width.

    The smallest n with t S sqrt((1 - n / N) / n) <= half_width, t of Student's distribution, S² the variance
    of divisor N - 1, N the population (Cochran, Sampling Techniques, 3rd edition, 1977, 2.8 and 4.6).

    >>> labels_needed(0.1, 1_000_000, 0.25), labels_needed(0.1, 100, 0.25), labels_needed(0.1, 100, 0.0)
    (99, 51, 2)
    """
    from scipy.special import stdtrit

    least, most = min(2, population), population
    while least < most:
        n = (least + most) // 2
        wide = stdtrit(n - 1, (1 + LEVEL) / 2) * sqrt(variance * (1 - n / population) / n)
        least, most = (least, n) if wide <= half_width else (n + 1, most)
    return least


def likely_variance(values: Sequence[float], bounds: tuple[float, float], population: int) -> float:
    """Return the variance to plan with: of the scores and two more at either bound, so that a few equal
    scores do not mean that all are equal (Agresti and Coull, The American Statistician 52, 1998); at most
    the widest possible (Popoviciu 1935), with the divisor N - 1.
    """
    low, high = bounds
    widest = (high - low) ** 2 / 4 * population / max(population - 1, 1)
    if not values:
        return widest
    return min(float(np.var([*values, *[low, high] * AT_EACH_END], ddof=1)), widest)


@dataclass
class _Found:
    item: Item
    rubrics: tuple[str, ...]
    places: list[Place] = field(default_factory=list)
    strata: set[tuple[str, str]] = field(default_factory=set)


@dataclass(frozen=True)
class BuiltQueue:
    """missing: (cell, question) whose answer or ranking failed; without: cells of which nothing was drawn"""

    queue: Queue
    cells: int
    missing: int
    without: tuple[str, ...]


def build_queue(grid: Grid, study: Study, work: BuildContext, scores: Iterable[HumanScore]) -> BuiltQueue:
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
    def __init__(self, grid: Grid, study: Study, work: BuildContext) -> None:
        self.grid, self.study, self.work = grid, study, work
        self.cells: dict[str, Cell] = {}
        self.missing = 0
        self._passages: dict[Passage, Passage] = {}
        self._found: dict[str, _Found] = {}

    def candidates(self) -> list[QueueCandidate]:
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
    """Return how many items, in the order of drawing, the means of all cells need.

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


log = logging.getLogger(__name__)
_NAMED = 3  # cells that are named in a sentence


def prepare_queue(study: Study, home: Home, say: Callable[[str], None] = log.warning) -> Queue:
    if not study.scored_by:
        raise InputError(
            f"{study.path}: the study {study.study} does not say by what people score its answers; "
            "add `rubrics: {points: {points: {}}}`"
        )
    if not any(study.people_score(cell) for cell in scored_cells(study)):
        raise InputError(f"{study.path}: the study {study.study} has no cell whose answers people score")
    work = BuildContext(home)
    try:
        rows = HumanScores(home).rows(study.study)
        built = build_queue(Grid([study]), study, work, [HumanScore(**row) for row in rows])
    finally:
        work.close()
    if not built.queue.items:
        raise InputError(_why_nothing(study, built))
    for sentence in _warnings(study, built):
        say(sentence)
    return _written(home, built.queue, say)


def _written(home: Home, queue: Queue, say: Callable[[str], None]) -> Queue:
    try:
        current = read_queue(home, queue.study)
    except CorruptFileError as error:
        say(f"{error}")
        current = None
    if current is not None and (current.version, current.needed) == (queue.version, queue.needed):
        return current
    write_queue(home, queue)
    return queue


def _why_nothing(study: Study, built: BuiltQueue) -> str:
    if not built.cells:
        return f"the study {study.study} has no answers yet; run it first: `assay run {study.study}`"
    if built.missing:
        return f"the study {study.study} has no answer that people can score: {built.missing:,} failed"
    return f"the study {study.study} has nothing to score: all answers that are compared are alike"


def _warnings(study: Study, built: BuiltQueue) -> list[str]:
    queue, found = built.queue, []
    if built.without:
        named = ", ".join(built.without[:_NAMED]) + (", …" if len(built.without) > _NAMED else "")
        found.append(
            f"{len(built.without)} of {built.cells} cells have no answer among the {len(queue.items)} that "
            f"are scored ({named}): a larger `sample` has room for them"
        )
    if queue.needed is not None and queue.needed > len(queue.items):
        said = study.annotation
        found.append(
            f"`sample: {said.sample}` is too small for `precision: {said.precision:g}`: "
            f"{queue.needed:,} answers are needed"
        )
    return found
