"""Opens cells to be asked single questions: of a study that was run, or of an exported folder."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.chat.open_questions import STOPPED, failed_turn
from rag_assay.evals.chat.question_requests import Hear, QuestionRequest
from rag_assay.evals.chat.turn_records import ChunkPlace, Places, complete_turn
from rag_assay.evals.export.loader import open_export, read_export
from rag_assay.evals.export.revisions import ExpectedResult
from rag_assay.evals.pipeline.cell_items import StudyQuestions
from rag_assay.evals.pipeline.pipeline import Pipeline, PipelineResult, open_pipeline
from rag_assay.evals.pipeline.run_resources import RunResources
from rag_assay.evals.pipeline.traces import trace_result
from rag_assay.evals.query_transforms.rules.follow_up_cues import is_courtesy, reply_to_courtesy
from rag_assay.evals.retrieval.query import Removal
from rag_assay.evals.retrieval.question_words import language as language_of
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.sections import StudyBudget
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.cancellation import CancelledError, is_cancelled
from rag_assay.warehouse.closing import Closeable
from rag_assay.warehouse.conversations import Turn
from rag_assay.warehouse.inference.budget import Caps
from rag_assay.warehouse.inference.redaction import one_line
from rag_assay.warehouse.inference.streaming import on_token
from rag_assay.warehouse.inference.token_counts import known_window
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.schemas import Status

Row = dict[str, Any]
NO_QUESTION = "it asks nothing: nothing was searched, and no model was asked"
OBSTACLES_LAST = 10.0  # seconds: a server outlives a model that is started again


@dataclass(frozen=True)
class OpenedCell(Closeable):
    """A cell that answers questions as it was measured. Use it as a context manager, or close it.

    Cells of one work share indexes, models and servers.

    knows: words -> the study's question that has them (a row of `schemas.QUESTIONS`), or None
    places: of the chunks in their documents, as far as they are known
    source, digest: the study or export that it was opened from, and the digest of its index or of the export
    differences: what may make its answers others than those that were measured
    libraries: of which another version is installed than it was measured with
    expected: of an export: questions with what was measured of them
    resources: of an interactive cell: models that were lost a moment ago are tried again at once
    """

    pipeline: Pipeline
    source: str
    digest: str
    knows: Callable[[str], Row | None] = lambda _words: None
    places: Callable[[], Places] = dict
    differences: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    expected: Sequence[ExpectedResult] = ()
    resources: RunResources | None = None

    @property
    def cell(self) -> Cell:
        return self.pipeline.cell

    @property
    def key(self) -> str:
        return self.cell.key

    @property
    def study(self) -> str:
        return self.cell.study

    def row(self, asking: QuestionRequest, known: Row | None = None) -> Row:
        """Return a question as the pipeline takes it; known: the study's question that is meant."""
        said = list(asking.conversation)
        found = known or self.knows(asking.question)
        if found is not None and (known or list(found["conversation"] or ()) == said):
            return {**found, "asked_at": asking.asked_at or found["asked_at"], "conversation": said}
        today = datetime.now().astimezone().date().isoformat() if self.resources else None
        return {
            "question_id": "asked",
            "question": asking.question,
            "language": asking.language or language_of(asking.question),
            "asked_at": asking.asked_at or today,
            "conversation": said,
            "evidence": [],
        }

    def search(self, asking: QuestionRequest) -> PipelineResult:
        return self._traced(self.pipeline.search_row(self.row(asking), without=_removals(asking)))

    def result(self, asking: QuestionRequest, known: Row | None = None) -> PipelineResult:
        return self._traced(self.pipeline.ask_row(self.row(asking, known), without=_removals(asking)))

    def answer(self, asking: QuestionRequest, turn: Turn | None = None, hear: Hear | None = None) -> Turn:
        """Return a turn with the cell's answer; what fails is its status and reason.

        turn: as it is kept without an answer; None: the question is of no conversation that is kept
        hear: is given drafts of the answer while a model writes it
        """
        row = self.row(asking)
        own_id = None if row["question_id"] == "asked" else row["question_id"]
        said = {"language": row["language"], "asked_at": row["asked_at"], "question_id": own_id}
        turn = (turn or self._turn(asking)).model_copy(update=said)
        if own_id is None and is_courtesy(turn.question):
            reply = reply_to_courtesy(turn.question, turn.language)
            return turn.model_copy(update={"status": Status.OK, "reason": NO_QUESTION, "answer": reply})
        try:
            if self.resources is not None:
                self.resources.forget_obstacles()
            with on_token(hear or (lambda _draft: None)):  # one that is stopped ends at once
                result = self._traced(self.pipeline.ask_row(row, without=_removals(asking)))
        except CancelledError:
            return failed_turn(turn, Status.NOT_RUN, STOPPED)
        except Exception as error:  # one question's failure is its turn
            return failed_turn(turn, Status.ERROR, one_line(f"{type(error).__name__}: {error}"))
        if is_cancelled():
            return failed_turn(turn, Status.NOT_RUN, STOPPED)
        return complete_turn(turn, result, self.places())

    def _traced(self, result: PipelineResult) -> PipelineResult:
        trace_result(self.pipeline, result)
        return result

    def _turn(self, asking: QuestionRequest) -> Turn:
        number = len(asking.conversation) // 2 + 1
        return Turn(
            record_id=token_urlsafe(12),
            number=number,
            cell=self.key,
            question=asking.question,
            status=Status.NOT_RUN,
        )

    def close(self) -> None:
        self.pipeline.close()


def _removals(asking: QuestionRequest) -> list[Removal]:
    return [Removal.read(one) for one in asking.without]


def open_cell(
    study: Study,
    cell: Cell,
    work: BuildContext,
    budget: StudyBudget | float | None = None,
    *,
    interactive: bool = True,
) -> OpenedCell:
    """Open a cell of a study that was run.

    budget: what the calls of models may cost, all together, in place of the study's budget of a run; a
        number: US dollars; None: no limit
    interactive: a person asks: follow-ups are rewritten by rules where the cell's recipe does not, questions
        without a day are asked today, and a model that was lost a moment ago is tried again at once
    """
    spending = budget if budget is None or isinstance(budget, StudyBudget) else StudyBudget(usd=budget)
    pipeline = open_pipeline(study.model_copy(update={"budget": spending}), cell, work)
    index = work.store.current("indexes", Grid([study]).index_key(cell))
    return OpenedCell(
        _ready(pipeline, work, interactive=interactive),
        f"study {study.study}",
        index.identity if index else "",
        StudyQuestions(study, work).known,
        cache(partial(places_of, study, cell, work)),
        resources=work.resource(RunResources) if interactive else None,
    )


def open_folder(
    folder: Path,
    work: BuildContext,
    usd: float | None = None,
    trusted: Collection[str] = (),
    *,
    anyway: bool = False,
    interactive: bool = True,
) -> OpenedCell:
    """Open an exported folder.

    usd: what the calls of models may cost; None: no limit
    interactive: as `open_cell`
    trusted, anyway: as `read_export`
    """
    export = read_export(folder, work, trusted, anyway=anyway)
    pipeline = open_export(export, work, Caps(usd=usd))
    known = {one.question["question"]: {**one.question, "evidence": []} for one in export.expected}
    return OpenedCell(
        _ready(pipeline, work, interactive=interactive),
        f"export {folder.resolve().name}",
        export.digest,
        known.get,
        differences=export.differences,
        libraries=export.libraries,
        expected=export.expected,
        resources=work.resource(RunResources) if interactive else None,
    )


def _ready(pipeline: Pipeline, work: BuildContext, *, interactive: bool) -> Pipeline:
    if pipeline.generator is not None and pipeline.generator.chat is not None:
        known_window(pipeline.generator.chat.model)  # loads what the first long prompt would wait for
    if interactive:
        return pipeline.for_chat()
    work.resource(RunResources).obstacles_last = OBSTACLES_LAST
    return pipeline


def places_of(study: Study, cell: Cell, work: BuildContext) -> Places:
    key = Grid([study]).index_key(cell).rpartition(".")[0]
    chunks = work.store.current("chunks", key)
    if chunks is None:
        return {}
    path = work.store.folder("chunks", chunks.identity) / "chunks.parquet"
    rows = read_parquet(path, ["chunk_id", "heading_path", "page"]).iter_rows()
    return {chunk: ChunkPlace(tuple(path or ()), page) for chunk, path, page in rows}
