"""Opens cells of a study for conversations."""

from __future__ import annotations

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.chat.chat_session import ChatSession
from rag_assay.evals.chat.turn_records import ChunkPlace, Places
from rag_assay.evals.pipeline.pipeline import open_pipeline
from rag_assay.evals.pipeline.run_resources import RunResources
from rag_assay.evals.pipeline.study_questions import StudyQuestions
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.sections import StudyBudget
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.conversations import Conversations
from rag_assay.warehouse.inference.token_counts import known_window
from rag_assay.warehouse.parquet import read_parquet


def open_talk(study: Study, cell: Cell, work: BuildContext, usd: float | None = None) -> ChatSession:
    """Open a cell of a study that was run, to talk to it.

    work: whose resources it uses; talks of one work share indexes, models and servers
    usd: what the calls of models may cost, all together, in place of the study's budget of a run; None: no
        limit
    """
    spending = None if usd is None else StudyBudget(usd=usd)
    paid = study.model_copy(update={"budget": spending})
    pipeline = open_pipeline(paid, cell, work).with_follow_up()
    if pipeline.generator is not None and pipeline.generator.chat is not None:
        known_window(pipeline.generator.chat.model)  # loads what the first long prompt would wait for
    questions = StudyQuestions(study, work)
    # A person asks by hand: a model that was lost a moment ago is tried at once, and may be back.
    begin = work.resource(RunResources).forget_obstacles
    return ChatSession(
        pipeline, Conversations(work.home), questions.known, places_of(study, cell, work), begin
    )


def places_of(study: Study, cell: Cell, work: BuildContext) -> Places:
    """Return where the chunks of a cell stand in their documents: sections and pages."""
    key = Grid([study]).index_key(cell).rpartition(".")[0]
    chunks = work.store.current("chunks", key)
    if chunks is None:
        return {}
    path = work.store.folder("chunks", chunks.identity) / "chunks.parquet"
    rows = read_parquet(path, ["chunk_id", "heading_path", "page"]).iter_rows()
    return {chunk: ChunkPlace(tuple(path or ()), page) for chunk, path, page in rows}
