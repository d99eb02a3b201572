"""Brings the queue of a study up to date: what `assay ratings annotate` and exports begin with."""

from __future__ import annotations

import logging
from collections.abc import Callable

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.human.queue import Queue
from rag_assay.evals.human.queue_builder import BuiltQueue, build_queue
from rag_assay.evals.human.queue_files import read_queue, write_queue
from rag_assay.evals.pipeline.cell_items import scored_cells
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.errors import CorruptFileError, InputError
from rag_assay.warehouse.human_scores import HumanScore, HumanScores
from rag_assay.warehouse.paths import Home

log = logging.getLogger(__name__)
_NAMED = 3  # cells that are named in a sentence


def prepare_queue(study: Study, home: Home, say: Callable[[str], None] = log.warning) -> Queue:
    """Return the queue of a study as its answers are now, written if it is another than that which counts.

    say: is told in a sentence what a person should know of it: what there is no room for

    Raises:
        InputError: nobody can score anything: the study has no rubrics, or no answers.
    """
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
