"""`assay try`: a ranked grid on a folder, file or site, in one command."""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from rag_assay.orchestration.commands.study_arguments import home_of, prepare_home
from rag_assay.orchestration.terminal.cli_errors import DONE, FAILED, plainly, width
from rag_assay.warehouse.errors import InputError

if TYPE_CHECKING:
    from rag_assay.evals.study.study import Study
    from rag_assay.orchestration.run_report import RunReport
    from rag_assay.orchestration.templates.trials import TrialFiles
    from rag_assay.warehouse.paths import Home


AGREEMENT = "docs/documents.md"
PROSE = 100  # columns, also of a wider terminal
TELLS = (
    "The {n} questions were made from the documents' own words: they show which chunk size keeps an answer "
    "together, and which retriever finds what the documents say in their own words. They do not show how it "
    "does with users' words ({agreement} has the measured agreement with human-written questions). Edit them:"
)
BYTES_OF_WORD = 7  # of a text, with its markup
WORDS_A_SECOND = 2500  # that a core embeds, cut in one way
AT_LEAST = 25  # seconds that a trial takes beside


@plainly
def try_out(
    target: Annotated[
        str,
        Argument(metavar="FOLDER|FILE|URL", help="A folder of documents, a file, or a website's start page."),
    ],
    n: Annotated[int, Option("--n", min=1, max=5000, help="Questions to make, at most.")] = 100,
    seed: Annotated[int, Option(help="Random seed of the questions.")] = 7,
    again: Annotated[
        bool, Option("--again", help="Crawl again, make new questions, call the application again.")
    ] = False,
    system: Annotated[
        str | None,
        Option(
            metavar="URL",
            help="Measure this RAG application, too: an OpenAI-compatible server (…/v1, …/v1#MODEL), or an "
            "endpoint that takes {question} and returns {answer, passages}.",
        ),
    ] = None,
) -> int:
    """Compare a small grid of pipelines on a folder, file or website, without an API key.

    The questions are made from the documents; the study is stored in the workspace. Pipelines are shown as
    they are measured; Ctrl-C leaves the table, and the same command continues.

    At most 200 pages of a website are read. Above 300,000 words there is one chunk size. A BEIR folder brings
    its own questions.
    """
    from rag_assay.orchestration.commands.trial_screen import TrialScreen

    if system is not None:
        check_url(system)
    where = prepare_home()
    screen = TrialScreen(estimate_of(target))
    try:
        with screen:
            from rag_assay.evals.question_generation.generator import GenerationPlan
            from rag_assay.orchestration.commands.trial_run import TrialRun
            from rag_assay.orchestration.templates.trials import trial_of

            trial = trial_of(target, where)
            if system is not None:
                trial.measure(system)
            run = TrialRun(trial, where, screen)
            home_of(run.study)
            report = run.result(GenerationPlan(n=n, seed=seed), again=again)
    except KeyboardInterrupt:
        screen.leave()
        raise
    if report is None or not report.is_there("leaderboard"):
        return FAILED
    _show(trial, run.study, where, report)
    return DONE if report.ok else FAILED


def check_url(url: str) -> None:
    if not url.startswith(("http://", "https://")):
        raise InputError(
            f"--system {url}: expected a URL, such as http://127.0.0.1:9000/v1; systems in Python are "
            "measured by `ra.evaluate` or in a study (docs/systems.md)"
        )


def estimate_of(target: str) -> str:
    """Say how long a trial takes, by the size of its files."""
    if "://" in target:
        return f"A trial of {target}: a page a second is read, then about a minute for the pipelines."
    from rag_assay.warehouse.files import walk

    path = Path(target).expanduser()
    files = [one for one in (walk(path) if path.is_dir() else [path]) if one.is_file()]
    unpacked = (one.stat().st_size * (3 if one.suffix == ".gz" else 1) for one in files)
    words = sum(unpacked) // BYTES_OF_WORD
    seconds = AT_LEAST + 2 * words / WORDS_A_SECOND / (os.cpu_count() or 1)
    minutes = f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} minutes"
    count = f"{len(files):,} file{'' if len(files) == 1 else 's'}"
    return f"A trial of {target}: {count}, up to {words:,} words; about {minutes} in all."


def _show(trial: TrialFiles, study: Study, where: Home, report: RunReport) -> None:
    from rag_assay.evals.question_sets.question_files import read_yaml
    from rag_assay.orchestration.commands.study_arguments import show

    if trial.questions:
        count = len(read_yaml(trial.questions))
        print(fill(TELLS.format(n=count, agreement=AGREEMENT), min(width(), PROSE)))
        print(f"  {trial.questions}\nand run again:  assay run {study.study}\n")
    show(study, where, report)  # last, for the result is what stays on the screen
