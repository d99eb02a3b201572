"""Opens cells of a study for conversations."""

from __future__ import annotations

from dataclasses import replace

from assets.engine.stage import Work
from evals.chatting.talk import Talk
from evals.chatting.turn_making import ChunkPlace, Places
from evals.pipeline.cell_parts import parts_of_cell
from evals.pipeline.pipeline import Pipeline, open_pipeline
from evals.pipeline.retrieval import opened_retrieval
from evals.pipeline.run_resources import RunResources
from evals.pipeline.study_questions import StudyQuestions
from evals.retrieving.chain import Chain
from evals.retrieving.contract import Retriever
from evals.study.cells import Cell
from evals.study.grid import Grid
from evals.study.sections import StudyBudget
from evals.study.study import Study
from evals.understanding.follow_up import FollowUp
from warehouse.conversations import Conversations
from warehouse.parquet import read_parquet

OBSTACLES_LAST = 10.0  # seconds: a talk outlives a model that is started again


def open_talk(study: Study, cell: Cell, work: Work, usd: float | None = None) -> Talk:
    """Open a cell of a study that was run, to talk to it.

    work: whose resources it uses; talks of one work share indexes, models and servers
    usd: what the calls of models may cost, all together, in place of the study's budget of a run; None: no
        limit

    Raises:
        InputError: as `open_pipeline`.
    """
    work.resource(RunResources).obstacles_last = OBSTACLES_LAST
    spending = None if usd is None else StudyBudget(usd=usd)
    paid = study.model_copy(update={"budget": spending})
    pipeline = with_follow_ups(open_pipeline(paid, cell, work), paid, work)
    questions = StudyQuestions(study, work)
    return Talk(pipeline, Conversations(work.home), questions.known, places_of(study, cell, work))


def with_follow_ups(pipeline: Pipeline, study: Study, work: Work) -> Pipeline:
    """Return a pipeline that rewrites questions which go on from others to stand alone, by rules.

    One whose retriever has a transform `follow_up` is returned as it is. A question without a conversation
    goes exactly the way that was measured.
    """
    retriever = pipeline.retrieval.retriever
    if follows_up(retriever):
        return pipeline
    links = retriever.steps if isinstance(retriever, Chain) else (retriever,)
    parts = replace(parts_of_cell(study, pipeline.cell), retriever=Chain(steps=(FollowUp(), *links)))
    index = work.store.current("indexes", Grid([study]).index_key(pipeline.cell))
    opened = opened_retrieval(parts, pipeline.retrieval.index, index.identity if index else "", work)
    opened = replace(opened, headings=pipeline.retrieval.headings)
    context = pipeline.context and replace(pipeline.context, retrieve=opened.retrieve)
    return replace(pipeline, retrieval=opened, context=context)


def follows_up(retriever: Retriever) -> bool:
    """Return whether a retriever, or one that it is made of, rewrites follow-ups."""
    return '"follow_up"' in retriever.model_dump_json()


def places_of(study: Study, cell: Cell, work: Work) -> Places:
    """Return where the chunks of a cell stand in their documents: sections and pages."""
    key = Grid([study]).index_key(cell).rpartition(".")[0]
    chunks = work.store.current("chunks", key)
    if chunks is None:
        return {}
    path = work.store.folder("chunks", chunks.identity) / "chunks.parquet"
    rows = read_parquet(path, ["chunk_id", "heading_path", "page"]).iter_rows()
    return {chunk: ChunkPlace(tuple(path or ()), page) for chunk, path, page in rows}
