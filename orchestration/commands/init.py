"""What `assay init` does beyond writing the files: it reads the documents and makes questions from them."""

from __future__ import annotations

from pathlib import Path

from rag_assay.orchestration.terminal.cli_errors import say


def fill_in(study: Path, questions: Path) -> bool:
    """Fill the question file of a new study in; where no question can be made, it stays a template.

    Returns:
        Whether the documents could be read.
    """
    from rag_assay.evals.question_generation.generator import GenerationPlan
    from rag_assay.evals.study.study_file import read_study
    from rag_assay.orchestration.commands.generated_questions import make_questions
    from rag_assay.orchestration.commands.run_stages import walk
    from rag_assay.orchestration.commands.study_arguments import home_of
    from rag_assay.warehouse.errors import InputError

    say(
        "Reading the documents, to make questions from them. Where that is stopped, this goes on: "
        f"assay questions make {study} -o {questions} --force"
    )
    found = read_study(study)
    where = home_of(found)
    if not walk(found, where, only=("pages", "documents")).is_there("documents"):
        say(f"The documents could not be read; {questions} is a template to fill in.")
        return False
    try:
        make_questions(found, where, GenerationPlan(), questions)
    except InputError as error:
        say(f"{error.findings[0]}. {questions} is a template to fill in; then: assay check {study}")
        return True
    say(f"Read them, mend them, add your own; then: assay check {study}")
    return True
