"""`--only`, `--cells` and `--questions`: a part of a walk, or of a study; and `assay forget`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rag_assay.orchestration.commands.study_arguments import prepare_home
from rag_assay.orchestration.terminal.cli_errors import plainly, say

if TYPE_CHECKING:
    from rag_assay.evals.study.study import Study

app = typer.Typer()

OnlyOption = Annotated[
    str | None,
    typer.Option(
        metavar="STAGE[,…]", help="Go as far as these stages: they, and what they are built from, no more."
    ),
]
CellsOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN",
        help="Only cells like this: chunking.embedder.retriever.generator, with * for any text; repeatable.",
    ),
]
QuestionsOption = Annotated[
    str | None,
    typer.Option(
        metavar="N|IDS|PATTERN", help="Only N questions, drawn by the seed; or these ids, or ids like this."
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


@app.command()
@plainly
def forget(
    name: Annotated[
        str, typer.Argument(metavar="SLICE|STUDY", help="A slice, or a study whose file was deleted.")
    ],
) -> None:
    """Forget the results of a slice, or of a study whose file was deleted: its report, its rows in SQL views.

    What was computed stays cached. Human ratings and the history of results stay, too.
    """
    from rag_assay.evals.study import known_studies
    from rag_assay.orchestration.runs.home_lock import alone
    from rag_assay.warehouse import tables

    where = prepare_home()
    with alone(where, lambda text, _done, _of: say(text)):
        gone = known_studies.forget(name, where)
        tables.use_database(where, lambda connection: tables.forget(connection, name), say)
    for path in gone:
        print(path)
    say(f"{name} is forgotten.")
