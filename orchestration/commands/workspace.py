"""`assay workspace`: what is stored in the workspace, made again or removed."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Argument

from rag_assay.orchestration.commands.study_arguments import prepare_home
from rag_assay.orchestration.terminal.cli_errors import example, plainly, say

app = typer.Typer(no_args_is_help=True, help="Rebuild the database, and remove results of old studies.")


@app.command(epilog=example("assay workspace rebuild"))
@plainly
def rebuild() -> None:
    """Rebuild the DuckDB database from the Parquet files."""
    from rag_assay.orchestration.runs.home_lock import alone
    from rag_assay.warehouse.garbage_collection import marked
    from rag_assay.warehouse.tables import rebuild as make_again

    where = prepare_home()
    with alone(where, lambda text, _done, _of: say(text)), marked(where):
        counts = make_again(where, say=say)
    for table, count in counts.items():
        print(f"{table}: {count}")
    print(where.database)


@app.command(epilog=example("assay workspace forget old-study"))
@plainly
def forget(
    name: Annotated[str, Argument(metavar="SLICE|STUDY", help="A slice, or a study whose file was deleted.")],
) -> None:
    """Remove the results of a slice, or of a study whose file was deleted: its report and SQL rows.

    What was computed stays cached. Human ratings and the history of results stay, too.
    """
    from rag_assay.evals.study import run_studies
    from rag_assay.orchestration.runs.home_lock import alone
    from rag_assay.warehouse import tables

    where = prepare_home()
    with alone(where, lambda text, _done, _of: say(text)):
        gone = run_studies.forget(name, where)
        tables.use_database(where, lambda connection: tables.forget(connection, name), say)
    for path in gone:
        print(path)
    say(f"{name} is forgotten.")
