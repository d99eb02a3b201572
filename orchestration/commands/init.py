"""`assay init`: a study file, and questions that are made from the documents."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from rag_assay.orchestration.commands.study_arguments import home_of, home_to_look_at, prepare_home
from rag_assay.orchestration.terminal.cli_errors import DONE, FAILED, plainly, say
from rag_assay.warehouse.errors import InputError


@plainly
def init(
    target: Annotated[
        str, Argument(metavar="FOLDER|URL", help="A folder of documents, or a website's start page.")
    ],
    output: Annotated[Path, Option("--output", "-o", help="The study file to write.")] = Path("study.yaml"),
    force: Annotated[bool, Option("--force", help="Replace existing files.")] = False,
    questions: Annotated[
        Literal["made", "template"],
        Option(help="Make questions from the documents, or write a template to fill in."),
    ] = "made",
) -> int:
    """Write a study file for a folder or website, and questions made from its documents."""
    from rag_assay.evals.study.run_studies import note, taken_names
    from rag_assay.evals.study.study_file import read_study
    from rag_assay.evals.study.study_schema import schema_text
    from rag_assay.orchestration.templates.study_files import write_study

    written = write_study(target, output, lambda: taken_names(home_to_look_at(), output), force=force)
    home = prepare_home()
    note(read_study(output), home)  # so that its names are taken
    schema = home.root / "study.schema.json"
    schema.write_text(schema_text(), encoding="utf-8")
    beside = os.path.relpath(schema.resolve(), output.absolute().parent.resolve())
    text = output.read_text(encoding="utf-8")
    line = f"# yaml-language-server: $schema={Path(beside).as_posix()}"
    output.write_text(f"{line}\n{text}", encoding="utf-8")
    for path in written:
        print(path)
    if len(written) == 1:
        say(f"It has questions of its own; now: assay check {output}")
        return DONE
    if questions == "made" and not fill_in(output, written[1]):
        return FAILED
    if questions == "template":
        say(f"Now write questions into the question file, then: assay check {output}")
    return DONE


def fill_in(study: Path, questions: Path) -> bool:
    """Make a new study's questions; without any, the template stays. False: no document could be read."""
    from rag_assay.evals.question_generation.generator import GenerationPlan
    from rag_assay.evals.study.study_file import read_study
    from rag_assay.orchestration.commands.generated_questions import make_questions, say_left_out
    from rag_assay.orchestration.commands.study_arguments import walk

    say(
        "Reading the documents to make questions from them. If this is interrupted, continue with:\n"
        f"  assay questions make {study} -o {questions} --force"
    )
    found = read_study(study)
    where = home_of(found)
    if not walk(found, where, only=("pages", "documents")).is_there("documents"):
        say(f"The documents could not be read; {questions} is a template to fill in.")
        return False
    try:
        say_left_out(make_questions(found, where, GenerationPlan(), questions))
    except InputError as error:
        say(f"{error.findings[0]}. {questions} is a template to fill in; then: assay check {study}")
        return True
    say(f"Read and edit them, add your own; then: assay check {study}")
    return True
