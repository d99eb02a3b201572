"""`--only`, `--cells` and `--questions`: a part of a walk, or of a study; and `assay forget`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestration.commands.finding import prepared_home
from orchestration.terminal.speaking import plainly, say

if TYPE_CHECKING:
    from evals.study.study import Study

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
    from evals.study.slicing import sliced

    found = sliced(study, tuple(cells or ()), questions)
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
    from evals.study.grid import Grid
    from orchestration.reach import up_to
    from orchestration.stages import stages_of
    from warehouse.near_names import named_in

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
    from evals.study import known_studies
    from orchestration.walking.home_lock import alone
    from warehouse import tables

    where = prepared_home()
    with alone(where, lambda text, _done, _of: say(text)):
        gone = known_studies.forget(name, where)
        tables.using(where, lambda connection: tables.forget(connection, name), say)
    for path in gone:
        print(path)
    say(f"{name} is forgotten.")
