"""`assay ask`: one question, answered by cells of a study as the grid would answer it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from rag_assay.orchestration.cell_selection import cell_of
from rag_assay.orchestration.commands.study_arguments import build_context, study_of
from rag_assay.orchestration.terminal.cli_errors import CellOption, StudyArgument, plainly
from rag_assay.warehouse.errors import InputError

if TYPE_CHECKING:
    from rag_assay.assets.engine.stage import BuildContext
    from rag_assay.evals.chat.question_requests import QuestionRequest
    from rag_assay.evals.pipeline.pipeline import PipelineResult
    from rag_assay.evals.study.cells import Cell
    from rag_assay.evals.study.study import Study


MOST_TURNS = 1_000


def conversation_of(after: list[str], file: Path | None) -> list[str]:
    if after and file:
        raise InputError("give the conversation by --after or by --conversation, not by both")
    turns = _read(file) if file else after
    if len(turns) > MOST_TURNS:
        raise InputError(f"the conversation has {len(turns)} turns, more than {MOST_TURNS}")
    return turns


def _read(file: Path) -> list[str]:
    from rag_assay.warehouse.yaml_positions import load

    marked = load(file)
    if not isinstance(marked.data, list):
        raise InputError(f"{file}: a conversation is a list of texts, question and answer by turns")
    for place, turn in enumerate(marked.data):
        if not isinstance(turn, str):
            raise InputError(f"{marked.at((place,))}: turn {place + 1} is not text; put it into quotes")
    return list(marked.data)


@plainly
def ask(  # noqa: PLR0913, PLR0917 - the options of a command
    study: StudyArgument,
    question: Annotated[
        str, Argument(metavar="QUESTION", help="A question in words, or the id of one of the study's.")
    ],
    cell: CellOption = None,
    model: Annotated[
        str | None,
        Option(
            metavar="NAME", help="Answer from the cell's passages by this model, as in openai/gpt-4o-mini."
        ),
    ] = None,
    all_retrievers: Annotated[
        bool, Option("--all-retrievers", help="Show what the study's other retrievers find, too.")
    ] = False,
    asked_at: Annotated[
        str | None, Option(metavar="DATE", help="Date of the question, for words such as `yesterday`.")
    ] = None,
    after: Annotated[
        list[str] | None,
        Option(
            metavar="TURN", help="A turn of the conversation before; repeatable: question, answer, question …"
        ),
    ] = None,
    conversation: Annotated[
        Path | None, Option(metavar="FILE", help="The conversation before, as a YAML or JSON list of texts.")
    ] = None,
    without: Annotated[
        list[str] | None,
        Option(
            metavar="STEP[:KIND[:VALUE]]",
            help="Ignore what was understood of the question, as in time_frame, entities:club; repeatable.",
        ),
    ] = None,
    form: Annotated[Literal["text", "json"], Option("--format", help="Output format.")] = "text",
) -> None:
    """Ask one question: show the passages found, the answer and its sources."""
    from rag_assay.evals.chat.model_override import cell_for_model
    from rag_assay.evals.chat.question_requests import QuestionRequest, check_question

    turns = conversation_of(after or [], conversation)
    asking = check_question(QuestionRequest(question, None, asked_at, frozenset(without or []), tuple(turns)))
    found = study_of(study)
    with build_context(found) as work:
        chosen = cell_of(found, cell, work.home)
        if model:
            found, chosen = cell_for_model(found, chosen, model)
        results = _results(found, chosen, asking, work, all_retrievers=all_retrievers)
    _show(results, found, form)


def _show(results: list[PipelineResult], study: Study, form: str) -> None:
    if form == "json":
        from rag_assay.evals.pipeline.pipeline import record_of

        print(json.dumps([record_of(one) for one in results], ensure_ascii=False, indent=2))
        return
    from rag_assay.evals.chat.model_override import model_advice
    from rag_assay.orchestration.terminal.question_view import show_answers

    generator = study.generators.get(results[-1].cell.generator)  # none where passages are all there is
    show_answers(results, model_advice(generator) if generator else None)


def _results(
    study: Study, cell: Cell, asking: QuestionRequest, work: BuildContext, *, all_retrievers: bool
) -> list[PipelineResult]:
    from rag_assay.evals.pipeline.cell_items import StudyQuestions
    from rag_assay.orchestration.question_service.opened_cell import open_cell

    known = StudyQuestions(study, work).named(asking.question)
    if known is not None and not asking.conversation:
        asking = replace(asking, question=known["question"], conversation=tuple(known["conversation"] or ()))
    results = []
    for one in [*(_other_retrievers(study, cell) if all_retrievers else []), cell]:
        with open_cell(study, one, work, study.budget, interactive=False) as opened:
            results.append(opened.result(asking, known))
    return results


def _other_retrievers(study: Study, cell: Cell) -> list[Cell]:
    from rag_assay.evals.study.cells import NO_GENERATOR

    names = dict.fromkeys(
        one.retriever
        for one in study.cells()
        if one.reads_ranking
        and (one.chunking, one.embedder) == (cell.chunking, cell.embedder)
        and one.retriever != cell.retriever
    )
    return [replace(cell, retriever=name, generator=NO_GENERATOR, sample=None) for name in names]
