"""`assay export`: a cell of a study as a folder that answers questions elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from rag_assay.orchestration.cell_selection import cell_of
from rag_assay.orchestration.commands.study_arguments import build_context, study_of
from rag_assay.orchestration.terminal.cli_errors import StudyArgument, plainly, say
from rag_assay.warehouse.errors import InputError


@plainly
def export(
    study: StudyArgument,
    cell_and_folder: Annotated[
        list[str],
        Argument(
            metavar="[CELL] FOLDER", help="Cell (default: the recommended one), and the folder to write."
        ),
    ],
    questions: Annotated[
        int, Option(min=0, help="Questions with measured answers to include, for `assay serve --check`.")
    ] = 50,
    with_models: Annotated[
        bool, Option("--with-models", help="Include the weights of local models.")
    ] = False,
    force: Annotated[bool, Option("--force", help="Replace an earlier export.")] = False,
) -> None:
    """Write a cell as a folder that `assay serve FOLDER` answers from on any machine."""
    from rag_assay.evals.export.writer import ExportOptions
    from rag_assay.evals.export.writer import export as write

    if len(cell_and_folder) > 2:
        raise InputError("give a study, a cell and a folder, as in `assay export demo best/`")
    *names, folder = cell_and_folder
    found = study_of(study)
    with build_context(found) as work:
        cell = cell_of(found, names[0] if names else None, work.home)
        written = write(found, cell, Path(folder), work, ExportOptions(questions, with_models, force))
    say(
        f"{cell.key}: {written.size / 1e6:.1f} MB, {written.questions} questions to check it by",
        f"sha256 of SHA256SUMS: {written.digest}",
        f"Now: assay serve {folder}",
    )
    print(Path(folder).expanduser().absolute())
