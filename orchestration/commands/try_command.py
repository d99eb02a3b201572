"""`assay try`: a ranked grid on a folder or site, in one command."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer

from rag_assay.orchestration.commands.study_arguments import home_of, prepare_home
from rag_assay.orchestration.terminal.cli_errors import DONE, FAILED, plainly, say, width

if TYPE_CHECKING:
    from rag_assay.evals.study.study import Study
    from rag_assay.orchestration.templates.trials import TrialFiles
    from rag_assay.warehouse.paths import Home


AGREEMENT = "docs/questions.md"
PROSE = 100  # columns, also of a wider terminal
TELLS = (
    "What this can tell, and what not. The {n} questions were made from the documents' own words. They "
    "show which chunk size keeps an answer together, and which retriever finds what the documents say in "
    "their own words. They do not show how it does with users' words, with answers that are spread over "
    "several documents, or with questions that no document answers. They are least certain between "
    "lexical and dense retrieval ({agreement} has the measured agreement with human-written questions). "
    "Read, edit or replace them:"
)


@plainly
def try_out(
    target: Annotated[
        str, typer.Argument(metavar="FOLDER|URL", help="A folder of documents, or a website's start page.")
    ],
    n: Annotated[int, typer.Option("--n", min=1, max=5000, help="Questions to make, at most.")] = 100,
    seed: Annotated[int, typer.Option(help="Random seed of the questions.")] = 7,
    again: Annotated[bool, typer.Option("--again", help="Crawl again and make new questions.")] = False,
) -> int:
    """Compare a small grid of pipelines on a folder or website, without an API key.

    The questions are made from the documents; the study is stored in the workspace.
    """
    from rag_assay.evals.study.run_studies import note
    from rag_assay.evals.study.study_file import read_study
    from rag_assay.orchestration.commands.run_stages import show, walk
    from rag_assay.orchestration.templates.trials import trial_of

    where = prepare_home()
    trial = trial_of(target, where)
    say(f"The study of this trial: {trial.study}")
    study = read_study(trial.study)
    home_of(study)
    if not _asked(trial, study, where, n, seed, again=again):
        return FAILED
    study = read_study(trial.study)
    note(study, where)
    report = walk(study, where)
    if not report.is_there("leaderboard"):
        return FAILED
    if trial.questions:
        from rag_assay.evals.question_sets.question_files import read_yaml

        count = len(read_yaml(trial.questions))
        say(fill(TELLS.format(n=count, agreement=AGREEMENT), min(width(), PROSE)))
        say(f"  {trial.questions}\nand run again:  assay run {study.study}\n")
    show(study, where, report)  # last, for the result is what stays on the screen
    return DONE if report.ok else FAILED


def _asked(trial: TrialFiles, study: Study, where: Home, n: int, seed: int, *, again: bool) -> bool:
    """Read the documents and make questions from them, unless that was done; return whether there are any."""
    from rag_assay.evals.question_generation.generator import GenerationPlan
    from rag_assay.orchestration.commands.generated_questions import make_questions
    from rag_assay.orchestration.commands.run_stages import walk
    from rag_assay.orchestration.templates.trials import MANY

    if trial.is_asked and not again:
        return True
    if not walk(study, where, only=("pages", "documents"), again=again).is_there("documents"):
        return False
    if trial.questions is not None:
        make_questions(study, where, GenerationPlan(n=n, seed=seed), trial.questions)
    words = _words(study, where)
    if words > MANY and trial.cut_once():
        say(f"{words:,} words are many: cut in one way alone, into windows of 256 tokens.")
    return True


def _words(study: Study, where: Home) -> int:
    from rag_assay.warehouse.artifacts import ArtifactStore

    store = ArtifactStore(where)
    found = (store.current("documents", source) for source in study.corpus.sources)
    return sum(int(artifact.meta.get("words", 0)) for artifact in found if artifact)
