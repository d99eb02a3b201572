"""`--only`, `--cells` and `--questions`: a part of a run, or of a study."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rag_assay.orchestration.terminal.cli_errors import say

if TYPE_CHECKING:
    from rag_assay.evals.study.study import Study


OnlyOption = Annotated[
    str | None,
    typer.Option(metavar="STAGE[,…]", help="Build only these stages and those that they depend on."),
]
CellsOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN",
        help="Only cells like chunking.embedder.retriever.generator, with * for any text; repeatable.",
    ),
]
QuestionsOption = Annotated[
    str | None,
    typer.Option(
        metavar="N|IDS|PATTERN", help="Only N questions (drawn by the seed), these ids, or ids like this."
    ),
]


def slice_of(study: Study, cells: list[str] | None, questions: str | None) -> Study:
    """Return the slice of a study that the options choose, and say what it is; without them, the study.

    Raises:
        InputError: they choose nothing.
    """
    from rag_assay.evals.study.slice_selection import slice_study

    found = slice_study(study, tuple(cells or ()), questions)
    if found.slice is not None:
        say(f"{found.slice.sentence} It is called {found.study}.")
    elif cells or questions is not None:
        say(f"That leaves nothing of {study.study} out: it is the study itself.")
    return found


def stages_up_to(study: Study, only: str | None) -> tuple[str, ...] | None:
    """Return the named stages and all that they are built from, in their order; None: every stage.

    Raises:
        InputError: there is no such stage.
    """
    from rag_assay.evals.study.grid import Grid
    from rag_assay.orchestration.stage_selection import up_to
    from rag_assay.orchestration.stages import stages_of
    from rag_assay.warehouse.suggestions import named_in

    if only is None:
        return None
    return tuple(up_to(study, named_in(only, "stage", list(stages_of(Grid([study]))), "--only")))
