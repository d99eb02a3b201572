"""`assay ratings`: exports and imports ratings as spreadsheets; the app takes them on its page Review."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from rag_assay.orchestration.commands.study_arguments import (
    home_of,
    prepare_home,
    show,
    study_of,
    walk,
    whole_study_of,
)
from rag_assay.orchestration.terminal.cli_errors import DONE, FAILED, StudyArgument, example, plainly, say
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.files import check_regular

if TYPE_CHECKING:
    from rag_assay.evals.human.spreadsheets.upload import Returned
    from rag_assay.evals.spreadsheet_import.import_run import ImportSummary
    from rag_assay.evals.study.study import Study
    from rag_assay.warehouse.paths import Home

app = typer.Typer(
    no_args_is_help=True,
    help="Export and import ratings as spreadsheets; `assay ui --page review` takes them in the browser.",
)
SUFFIX = ".mapping.yaml"
MOST_SHOWN = 20  # rejects and notes


@app.command("queue", epilog=example("assay ratings queue demo anna.xlsx --annotator Anna"))
@plainly
def export_queue(
    study: StudyArgument,
    file: Annotated[
        Path,
        Argument(
            metavar="FILE",
            help="File to write: a spreadsheet (.xlsx, .csv), or tasks for Label Studio (.json).",
            dir_okay=False,
        ),
    ],
    annotator: Annotated[
        str | None, Option(metavar="NAME", help="Who fills it in; optional for Label Studio.")
    ] = None,
    among: Annotated[
        list[str] | None, Option(metavar="NAME", help="Share the items among these annotators; repeatable.")
    ] = None,
    config: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write Label Studio's labeling configuration here.", dir_okay=False),
    ] = None,
    force: Annotated[bool, Option("--force", help="Replace existing files.")] = False,
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
    print(*filter(None, (file, config)), sep="\n")
    return DONE


def _check(file: Path, config: Path | None, who: str | None, among: list[str], *, force: bool) -> None:
    findings = [
        f"{path}: the file exists and may contain ratings; choose another name, or use --force"
        for path in (file, config)
        if path and path.exists() and not force
    ]
    if among and (who is None or who not in among):
        findings.insert(0, "--among must list all annotators, including --annotator")
    if config and file.suffix.lower() != ".json":
        findings.insert(0, "--config is for Label Studio tasks; the file name must end in .json")
    if findings:
        raise InputError(*findings)


@app.command(
    "import", epilog=example("assay ratings import anna.xlsx", "assay ratings import scores.csv --guess")
)
@plainly
def import_scores(
    file: Annotated[
        Path,
        Argument(
            metavar="FILE",
            help="A spreadsheet (XLSX, CSV, TSV, JSON lines), or an annotation queue that was filled in.",
        ),
    ],
    mapping: Annotated[
        Path | None,
        Option(metavar="FILE", help=f"Meaning of its columns; default: FILE{SUFFIX}.", dir_okay=False),
    ] = None,
    guess: Annotated[
        bool, Option("--guess", help="Write a mapping to start from, and import nothing.")
    ] = False,
    partial: Annotated[
        bool, Option("--partial", help="Import the valid rows even if others are invalid.")
    ] = False,
    run: Annotated[bool, Option(help="Run the study afterwards, unless that calls a judge.")] = True,
    force: Annotated[bool, Option("--force", help="Replace an existing mapping file.")] = False,
) -> int:
    """Import ratings from a spreadsheet, as a new study or into one."""
    from rag_assay.evals.human.spreadsheets.upload import is_ours

    check_regular(file)
    if is_ours(file):
        if mapping:
            raise InputError(f"{file}: an exported queue needs no mapping; remove --mapping")
        return _bring_back(file, partial=partial)
    path = mapping or file.with_name(file.name + SUFFIX)
    if guess:
        return _guess(file, path, force=force)
    if not path.exists():
        raise InputError(
            f"{path}: there is no such mapping; give one with --mapping FILE, or write one: "
            f"assay ratings import --guess {file}"
        )
    return _import(file, path, partial=partial, run=run)


def _guess(file: Path, path: Path, *, force: bool) -> int:
    from rag_assay.evals.spreadsheet_import.bundle import replace_text
    from rag_assay.evals.spreadsheet_import.column_inference import guess, reasons, write_mapping

    if path.exists() and not force:
        raise InputError(f"{path} exists already; give another file with --mapping, or use --force")
    found = guess(file)
    replace_text(path, write_mapping(found, file))
    print(path)
    say(*reasons(found))
    named = "" if path.name == file.name + SUFFIX else f" --mapping {path}"
    say(f"Check it, fill in what is missing, then: assay ratings import {file}{named}")
    return DONE


def _import(file: Path, path: Path, *, partial: bool, run: bool) -> int:
    import rag_assay.evals.study.registry  # noqa: F401 -- fills the registry of rubrics
    from rag_assay.evals.human.answer_matching import match_sheet
    from rag_assay.evals.spreadsheet_import.import_run import import_sheet
    from rag_assay.evals.spreadsheet_import.mapping import read_mapping

    mapping = read_mapping(path)
    where = prepare_home()
    study = _of_own_answers(mapping.study, where)
    if study is None:
        found = import_sheet(file, path, mapping, where, partial=partial)
    else:
        found = match_sheet(file, path, mapping, study, where, partial=partial)
    say(*_sentences(found))
    print(found.study_file)
    return _bring_up_to_date(found.study_file) if run else DONE


def _of_own_answers(name: str, where: Home) -> Study | None:
    from rag_assay.evals.spreadsheet_import.bundle import STUDY_FILE, imports_folder
    from rag_assay.evals.study.run_studies import known_path
    from rag_assay.evals.study.study_file import read_study

    if (imports_folder(where, name) / STUDY_FILE).is_file():
        return None
    try:
        path = known_path(name, where)
    except InputError:
        return None
    return read_study(path)


def _bring_up_to_date(path: Path) -> int:
    from rag_assay.evals.study.imported_study import ImportedStudy
    from rag_assay.evals.study.run_studies import note

    study = study_of(str(path))
    if study.judges or not isinstance(study, ImportedStudy):
        return DONE
    where = home_of(study)
    note(study, where)
    report = walk(study, where)
    if not report.is_there("leaderboard"):
        return FAILED
    show(study, where, report)
    return DONE if report.ok else FAILED


def _sentences(found: ImportSummary) -> Iterator[str]:
    for kind, lines in (("not taken", found.rejects), ("note", found.notes)):
        yield from (f"{kind}: {line}" for line in lines[:MOST_SHOWN])
        if len(lines) > MOST_SHOWN:
            yield f"{kind}: {len(lines) - MOST_SHOWN:,} more, in sheet.json beside the rows"
    counts = f"{found.questions:,} questions, {found.cells:,} cells, {found.answers:,} answers"
    yield f"Sheet {found.sheet} of the study {found.study}: {found.rows:,} rows, {counts}."
    for metric, values in found.scores.items():
        each = ", ".join(f"{value:g}: {n:,}" for value, n in sorted(values.items(), reverse=True))
        yield f"{metric}: {sum(values.values()):,} scores ({each})."
    if found.doubles:
        yield f"{found.doubles:,} rows are duplicates and count once."
    if found.rejects:
        yield f"{len(found.rejects):,} reasons why rows were skipped."
    if not found.changed:
        yield "No change: all of it was imported before."
    else:
        changes = (("added", found.added), ("corrected", found.corrected), ("withdrawn", found.withdrawn))
        told = ", ".join(f"{n:,} {what}" for what, n in changes if n)
        yield f"Scores: {told or 'none changed'}."
    yield f"Now: assay run {found.study_file}"


def _bring_back(file: Path, *, partial: bool) -> int:
    import rag_assay.evals.study.registry  # noqa: F401 -- fills the registry of rubrics
    from rag_assay.evals.human.spreadsheets.upload import bring_back as read
    from rag_assay.evals.human.spreadsheets.upload import keep

    where = prepare_home()
    found = read(file, where, datetime.now(UTC))
    say(*(f"note: {note}" for note in _some(found.notes)))
    if found.rejects and not partial:
        rows = f"{len(found.rejects):,} reasons why rows are invalid"
        raise InputError(
            *_some(found.rejects), f"{file}: {rows}; nothing was imported (--partial imports the valid rows)"
        )
    say(*(f"not taken: {reject}" for reject in _some(found.rejects)))
    found.rejects.clear()
    keep(found, where)
    say(*_returned_sentences(found))
    return DONE


def _some(lines: list[str]) -> Iterator[str]:
    yield from lines[:MOST_SHOWN]
    if len(lines) > MOST_SHOWN:
        yield f"{len(lines) - MOST_SHOWN:,} more like these"


def _returned_sentences(found: Returned) -> Iterator[str]:
    if not found.scores:
        yield f"No change: {found.unchanged:,} scores of it were there before."
        return
    counts = found.counts
    kinds = (("scores", "ok"), ("skipped", "skipped"), ("taken back", "withdrawn"))
    told = ", ".join(f"{counts[status]:,} {what}" for what, status in kinds if counts[status])
    people = len({one.annotator for one in found.scores})
    of = f"{people:,} people" if people > 1 else found.scores[0].annotator
    yield f"Added of {of}: {told}; {found.unchanged:,} unchanged."


@app.command("export", epilog=example("assay ratings export demo ratings.csv"))
@plainly
def export_scores(
    study: StudyArgument,
    file: Annotated[
        Path, Argument(metavar="FILE", help="File to write (.xlsx, .csv, .json).", dir_okay=False)
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
