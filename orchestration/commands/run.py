"""`assay run`: a study brought up to date, from its sources to its report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag_assay.orchestration.commands.study_arguments import (
    files_of,
    home_of,
    prepare_home,
    search_of,
    show,
    study_as_written,
    walk,
)
from rag_assay.orchestration.terminal.cli_errors import DONE, FAILED, GATE_FAILED, StudyArgument, plainly, say
from rag_assay.orchestration.unchanged import Recorder, recorder, remembered
from rag_assay.warehouse.errors import InputError

if TYPE_CHECKING:
    from rag_assay.evals.reporting.data import ReportData
    from rag_assay.evals.reporting.thresholds import GateResult, MetricGate
    from rag_assay.evals.study.study import Study
    from rag_assay.orchestration.commands.ci import CiOutputs
    from rag_assay.orchestration.run_report import RunReport
    from rag_assay.orchestration.runs.run import Spread
    from rag_assay.warehouse.paths import Home


PLACES = ("here", "dagster")

OnOption = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="here|dagster",
        help="Build in this process, or in Dagster runs (processes, Celery, Kubernetes).",
    ),
]
PartitionsOption = Annotated[
    int, typer.Option(min=1, metavar="N", help="With --on dagster: partitions of a run, at most.")
]
WorkersOption = Annotated[
    int, typer.Option(min=1, metavar="N", help="With --on dagster: concurrent runs that share a budget.")
]


def spread_of(on: str, partitions: int, workers: int) -> Spread | None:
    """Return how runs are spread; None: everything is built in this process."""
    if on not in PLACES:
        raise InputError(f"--on {on}: it can be {' or '.join(PLACES)}")
    if on == "here":
        return None
    from rag_assay.orchestration.runs.run import Spread

    return Spread(partitions, workers)


JunitOption = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Write the outcome as JUnit XML.")
]
GithubOption = Annotated[
    bool, typer.Option("--github", help="Print annotations and write a summary for GitHub Actions.")
]
CommentOption = Annotated[
    bool, typer.Option("--comment", help="Comment the result and its changes on GitHub's pull request.")
]
AgainOption = Annotated[
    bool,
    typer.Option("--again", help="Call `systems` again, also for the questions that they have answered."),
]
FailUnderOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="GATE",
        help="Exit with code 3 unless the leader reaches METRIC=VALUE; METRIC@CELL=VALUE: of one cell, "
        "METRIC:low=VALUE for the lower end of the interval; repeatable.",
    ),
]
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
    from rag_assay.evals.study.run_studies import slice_study

    found = slice_study(study, tuple(cells or ()), questions)
    if found.slice is not None:
        say(f"{found.slice.sentence} It is called {found.study}.")
    elif cells or questions is not None:
        say(f"That leaves nothing of {study.study} out: it is the study itself.")
    return found


def stages_up_to(study: Study, only: str | None) -> tuple[str, ...] | None:
    from rag_assay.evals.study.grid import Grid
    from rag_assay.orchestration.stages import stages_of, up_to
    from rag_assay.warehouse.suggestions import named_in

    if only is None:
        return None
    return tuple(up_to(study, named_in(only, "stage", list(stages_of(Grid([study]))), "--only")))


@plainly
def run(  # noqa: PLR0913, PLR0917 - the options of a command
    study: StudyArgument,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be built, called and paid; run nothing.")
    ] = False,
    cells: CellsOption = None,
    questions: QuestionsOption = None,
    only: OnlyOption = None,
    recrawl: Annotated[
        list[str] | None,
        typer.Option(metavar="SOURCE", help="Crawl this source again first; repeatable."),
    ] = None,
    again: AgainOption = False,
    fail_under: FailUnderOption = None,
    junit: JunitOption = None,
    github: GithubOption = False,
    comment: CommentOption = False,
    on: OnOption = "here",
    partitions_per_run: PartitionsOption = 5,
    workers: WorkersOption = 2,
) -> int:
    """Run a study: build what is missing or outdated, write the report, show the result."""
    whole = study_as_written(study)
    found = slice_of(whole, cells, questions)
    if dry_run:
        return _show_plan(found, whole=not (only or recrawl or again))
    from rag_assay.evals.reporting.thresholds import read_gates
    from rag_assay.evals.study.run_studies import note, note_slice
    from rag_assay.evals.successive_halving.records import narrow_study
    from rag_assay.warehouse.inference.budget import Budgets

    _refuse_unknown(found, recrawl or [])
    stages = stages_up_to(found, only)
    gates = read_gates(fail_under or (), found)
    _refuse_no_folder(junit)
    outputs = _ci_outputs(junit, github=github, comment=comment)
    spread = spread_of(on, partitions_per_run, workers)
    if again and not any(one.calls_per_question().most for one in found.systems.values()):
        raise InputError(f"--again calls systems again, and {found.study} has none that is called")
    where = home_of(whole)
    is_reachable = _look_ahead(found)
    note(found, where)
    note_slice(found, where)
    if again:
        _forget_answers(found, where)
    recording = recorder(where.root)
    if recrawl and not walk(found, where, only=("pages", "documents"), again=True, keys=tuple(recrawl)).ok:
        return FAILED
    budgets = Budgets()
    found = search_of(found, where, budgets, spread) if stages is None else narrow_study(found, where)
    if outputs:
        outputs.look_before(where, found.study)
    report = walk(found, where, stages, budgets=budgets, spread=spread)
    last = only if stages is not None and "leaderboard" not in stages else None
    shown = partial(_show_result, found, where, report, gates, last, outputs)
    if recording and report.ok and is_reachable:
        return _remember(recording, whole, where, shown, is_idle=report.unchanged)
    return shown()


def _forget_answers(study: Study, where: Home) -> None:
    from rag_assay.evals.pipeline.system_answers import forget_answers
    from rag_assay.orchestration.runs.home_lock import alone

    with alone(where, lambda text, _done, _of: say(text)):
        names = forget_answers(study, where)
    say(f"Called again for all questions: {', '.join(names)}.")


def _remember(
    recording: Recorder, study: Study, where: Home, shown: Callable[[], int], *, is_idle: bool
) -> int:
    """Show a result, and let the next run answer at once if nothing changes; is_idle: nothing was built."""
    from rag_assay.evals.reporting.stale_results import stored_result
    from rag_assay.evals.study.run_studies import record_of
    from rag_assay.orchestration.alerts.delivery import channels_of
    from rag_assay.orchestration.driver import Driver
    from rag_assay.orchestration.settings import instance_folder
    from rag_assay.warehouse.remote import mirror_of

    if not is_idle:
        recording.look_again(where.root)
    with recording.printing():
        code = shown()
    is_plain = code == DONE and study.search is None and not channels_of(study) and mirror_of(where) is None
    if (
        is_plain
        and instance_folder(where) == where.dagster
        and (is_idle or Driver(study, where).is_up_to_date())
    ):
        # Else the next run is an ordinary one.
        with suppress(OSError, ValueError, KeyError, TypeError, InputError):
            verdict = stored_result(study, where, is_current=True).verdict.sentences
            recording.store(where.root, record_of(study, where), map(str, files_of(study)), verdict)
    return code


def _show_result(
    study: Study,
    where: Home,
    report: RunReport,
    gates: Sequence[MetricGate],
    last: str | None,
    outputs: CiOutputs | None,
) -> int:
    """Show and write a result; return the exit code. last: the stages built, if later ones were left out."""
    data = show(study, where, report) if report.is_there("leaderboard") else None
    results = _held(gates, data)
    if outputs:
        outputs.write(study, where, report, results, data)
    for result in results:
        say(result.sentence)
    if not all(result.passed for result in results):
        return GATE_FAILED
    if last is not None:
        if report.ok:
            say(f"Built as far as {last}; later stages were left as they are.")
        return DONE if report.ok else FAILED
    return DONE if report.ok and data is not None else FAILED


def _show_plan(study: Study, *, whole: bool) -> int:
    if not whole:
        raise InputError("--dry-run shows the plan of a whole run: leave --only, --recrawl and --again out")
    from rag_assay.evals.study.cost_estimate import estimates
    from rag_assay.evals.study.grid import Grid
    from rag_assay.evals.study.run_plan import plan
    from rag_assay.evals.successive_halving.records import narrow_study
    from rag_assay.orchestration.stages import stages_of
    from rag_assay.orchestration.terminal.plan_view import show_plan

    where, named = prepare_home(), set[Path]()
    with remembered(where, named):
        found = narrow_study(study, where)
        if found.search is not None and not found.is_narrowed and found.slice is None:
            say("This is the plan of the whole grid: what its `search` leaves out is known after a run.")
        stages = stages_of(Grid([found]))
        planned = plan(found, stages, where)
        show_plan(planned, estimates(found, planned, stages, where), found.budget)
        named |= files_of(found)
    return DONE


def _refuse_unknown(study: Study, sources: Sequence[str]) -> None:
    from rag_assay.warehouse.suggestions import unknown

    known = study.corpus.sources
    if findings := [unknown("source", one, known, str(study.path)) for one in sources if one not in known]:
        raise InputError(*findings)


def _ci_outputs(junit: Path | None, *, github: bool, comment: bool) -> CiOutputs | None:
    if not (junit or github or comment):
        return None
    from rag_assay.orchestration.commands.ci import CiOutputs, pull_request

    return CiOutputs(junit, github, pull_request() if comment else None)


def _refuse_no_folder(junit: Path | None) -> None:
    if junit and not junit.absolute().parent.is_dir():
        raise InputError(f"--junit {junit}: there is no folder {junit.absolute().parent}")


def _held(gates: Sequence[MetricGate], data: ReportData | None) -> list[GateResult]:
    from rag_assay.evals.reporting.thresholds import gate_results, not_measured

    if data is None:
        return not_measured(gates, "there is no leaderboard; the failures are listed above")
    leader = data.verdict.leader
    return gate_results(gates, data.leaderboard, data.scores, leader.cell if leader else None)


def _look_ahead(study: Study) -> bool:
    """Read the question files, for a typo must not cost a crawl; return whether all models can be asked."""
    from rag_assay.evals.study.grid import read_questions_of
    from rag_assay.evals.study.study_check import unreachable_models

    read_questions_of(study)
    reasons = unreachable_models(study)
    for reason in reasons:
        say(f"warning: {reason}; what needs it will fail")
    return not reasons
