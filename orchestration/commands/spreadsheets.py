"""`assay ratings queue` and `export`; and a queue that came back, for `assay ratings import`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag_assay.orchestration.commands.study_arguments import home_of, prepare_home, whole_study_of
from rag_assay.orchestration.terminal.cli_errors import DONE, StudyArgument, plainly, say
from rag_assay.warehouse.errors import InputError

if TYPE_CHECKING:
    from rag_assay.evals.human.spreadsheets.upload import Returned

MOST_SHOWN = 20  # rejects and notes


@plainly
def export_queue(
    study: StudyArgument,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="File to write: a spreadsheet (.xlsx, .csv), or tasks for Label Studio (.json).",
            dir_okay=False,
        ),
    ],
    annotator: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Who fills it in; optional for Label Studio."),
    ] = None,
    among: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Share the items among these annotators; repeatable."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write Label Studio's labeling configuration here.", dir_okay=False
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> int:
    """Export the annotation queue as a spreadsheet, or as tasks for Label Studio."""
    import rag_assay.evals.human.spreadsheets.export as sheets
    from rag_assay.evals.human.queue_builder import prepare_queue
    from rag_assay.warehouse.human_scores import HumanScores, annotator_name

    who = annotator_name(annotator) if annotator is not None else None
    names = [annotator_name(name) for name in among or []]
    sheets.check_form(file, who)
    _check(file, config, who, names, force=force)
    found = whole_study_of(study)
    where = home_of(found)
    queue = prepare_queue(found, where, say)
    rows = HumanScores(where).rows(found.study)
    written = sheets.export_queue(queue, file, rows, datetime.now(UTC), annotator=who, among=names)
    if config:
        sheets.export_config(queue, config, who, names)
    repeats = f", {written.repeats:,} of them shown again" if written.repeats else ""
    scored = f"; {written.scored:,} rows have scores already" if written.scored else ""
    say(f"{written.items:,} items of the study {found.study}{repeats}{scored}.")
    say(f"After filling it in: assay ratings import {file}")
    for path in (file, config):
        if path:
            print(path)
    return DONE


@plainly
def export_scores(
    study: StudyArgument,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="File to write (.xlsx, .csv, .json).", dir_okay=False)
    ],
) -> int:
    """Export the human ratings of a study: who gave which value to which answer, and when."""
    import rag_assay.evals.human.spreadsheets.export as tables
    from rag_assay.evals.human.queue import read_queue
    from rag_assay.warehouse.human_scores import HumanScores

    found = whole_study_of(study)
    where = home_of(found)
    queue = read_queue(where, found.study)
    written = tables.export_scores(file, HumanScores(where).rows(found.study), queue)
    say(f"{written:,} scores of the study {found.study}.")
    print(file)
    return DONE


def bring_back(file: Path, *, partial: bool) -> int:
    """Add what a sheet of ours brings; nothing of it if some rows cannot be taken, unless `partial`."""
    import rag_assay.evals.study.registry  # noqa: F401 -- fills the registry of rubrics
    from rag_assay.evals.human.spreadsheets.upload import bring_back as read
    from rag_assay.evals.human.spreadsheets.upload import keep

    where = prepare_home()
    found = read(file, where, datetime.now(UTC))
    for note in _some(found.notes):
        say(f"note: {note}")
    if found.rejects and not partial:
        rows = f"{len(found.rejects):,} reasons why rows are invalid"
        raise InputError(
            *_some(found.rejects), f"{file}: {rows}; nothing was imported (--partial imports the valid rows)"
        )
    for reject in _some(found.rejects):
        say(f"not taken: {reject}")
    found.rejects.clear()
    keep(found, where)
    for sentence in _sentences(found):
        say(sentence)
    return DONE


def _check(file: Path, config: Path | None, who: str | None, among: list[str], *, force: bool) -> None:
    findings = []
    if config and file.suffix.lower() != ".json":
        findings.append("--config is for Label Studio tasks; the file name must end in .json")
    if among and (who is None or who not in among):
        findings.append("--among must list all annotators, including --annotator")
    there = [path for path in (file, config) if path and path.exists() and not force]
    findings += [
        f"{path}: the file exists and may contain ratings; choose another name, or use --force"
        for path in there
    ]
    if findings:
        raise InputError(*findings)


def _some(lines: list[str]) -> Iterator[str]:
    yield from lines[:MOST_SHOWN]
    if len(lines) > MOST_SHOWN:
        yield f"{len(lines) - MOST_SHOWN:,} more like these"


def _sentences(found: Returned) -> Iterator[str]:
    if not found.scores:
        yield f"No change: {found.unchanged:,} scores of it were there before."
        return
    counts = found.counts
    kinds = (("scores", "ok"), ("skipped", "skipped"), ("taken back", "withdrawn"))
    told = ", ".join(f"{counts[status]:,} {what}" for what, status in kinds if counts[status])
    people = len({one.annotator for one in found.scores})
    of = f"{people:,} people" if people > 1 else found.scores[0].annotator
    yield f"Added of {of}: {told}; {found.unchanged:,} unchanged."
