"""Question sets made without a model, as the commands `questions make`, `init` and `try` have them made."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from rag_assay.orchestration.commands.study_arguments import home_of
from rag_assay.orchestration.terminal.cli_errors import DONE, FAILED, say
from rag_assay.warehouse.errors import InputError

if TYPE_CHECKING:
    from rag_assay.evals.question_generation.generator import GeneratedQuestions, GenerationPlan
    from rag_assay.evals.study.study import Study
    from rag_assay.warehouse.paths import Home


def make_without_model(
    study: Study, kinds: str | None, n: int, seed: int, output: Path | None, *, force: bool
) -> int:
    from rag_assay.evals.question_generation.generator import DEFAULT, GenerationPlan
    from rag_assay.evals.question_generation.kinds import KINDS
    from rag_assay.orchestration.commands.study_arguments import walk
    from rag_assay.warehouse.suggestions import named_in

    path = free_path(output or beside(study.path), force=force)
    wanted = DEFAULT if kinds is None else named_in(kinds, "kind", KINDS, "--kinds")
    plan = GenerationPlan(wanted, n, seed)
    where = home_of(study)
    if not walk(study, where, only=("pages", "documents")).is_there("documents"):
        return FAILED
    say_left_out(make_questions(study, where, plan, path))
    print(path)
    if path.resolve() not in {study.resolve(one.file) for one in study.questions if one.file}:
        say(f"{study.path} does not ask them yet; add to its questions:  - file: {path}")
    return DONE


def beside(study: Path) -> Path:
    """Return where the made questions of a study file lie by default.

    >>> beside(Path("a/study.yaml")).as_posix()
    'a/study-made.questions.yaml'
    """
    return study.with_name(f"{study.name.removesuffix('.yaml')}-made.questions.yaml")


def free_path(path: Path, *, force: bool) -> Path:
    if path.exists() and not force:
        raise InputError(
            f"{path} exists already; replace it with --force, or write another file with --output"
        )
    return path


def say_left_out(questions: GeneratedQuestions) -> None:
    say("Left out:", *(f"  {line}" for line in questions.tally.lines() or ["nothing"]))


def make_questions(
    study: Study,
    where: Home,
    plan: GenerationPlan,
    path: Path,
    tell: Callable[[str], None] = say,
    turn: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> GeneratedQuestions:
    """Make questions from the documents of a study, write them to a file, and say what came of it.

    turn: is entered while questions are embedded, for a caller whose other threads use the model
    """
    from rag_assay.assets.engine.stage import BuildContext
    from rag_assay.evals.question_generation.question_file import counts, make_for, write_questions

    with closing(BuildContext(where, lambda sentence, _done, of: tell(sentence) if not of else None)) as work:
        questions = make_for(study, plan, work, turn)
    write_questions(questions, study, path)
    documents = f"{questions.documents:,} document{'' if questions.documents == 1 else 's'}"
    tell(f"{len(questions.questions)} questions made from {documents}: {counts(questions)}.")
    return questions
