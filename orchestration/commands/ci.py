"""What a server for continuous integration reads of a run: JUnit XML, GitHub annotations and summary."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rag_assay.assets.engine.builder import checks_of
from rag_assay.evals.reporting.ci_formats import JUnitCase, Suite, WorkflowAnnotation, junit_xml
from rag_assay.evals.reporting.display import interval, number, several
from rag_assay.evals.reporting.markdown import escape_markdown, markdown_table
from rag_assay.evals.reporting.pair_comparison import TEXTS
from rag_assay.evals.reporting.standings import entries, main_subset
from rag_assay.evals.reporting.texts import words_in
from rag_assay.orchestration.run_report import by_reason
from rag_assay.orchestration.terminal.cli_errors import say
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.yaml_positions import MarkedYaml, Place, load

if TYPE_CHECKING:
    from rag_assay.assets.engine.stage import Check
    from rag_assay.evals.reporting.data import ReportData
    from rag_assay.evals.reporting.thresholds import GateResult
    from rag_assay.evals.study.study import Study
    from rag_assay.orchestration.run_report import RunReport, StageReport
    from rag_assay.warehouse.paths import Home

ROWS = 10  # cells in the summary
Level = Literal["error", "warning", "notice"]
SUMMARY = "GITHUB_STEP_SUMMARY"
_SECTIONS = (
    "generators",
    "retrievers",
    "embedders",
    "chunkings",
)  # the first that a key names


def suites_of(study: Study, report: RunReport, gates: Sequence[GateResult], home: Home) -> list[Suite]:
    """Return what a run did: a suite a stage with a case a key, one of checks, one of gates."""
    suites = [_stage_suite(stage) for stage in report.stages]
    checks = [_check_case(*found) for found in _checks(report, home)]
    held = [JUnitCase(one.gate.name, "passed" if one.passed else "failed", one.reason) for one in gates]
    return [*suites, Suite("checks", tuple(checks)), *([Suite("gates", tuple(held))] if held else [])]


def _checks(report: RunReport, home: Home) -> Iterator[tuple[str, str, Check]]:
    store = ArtifactStore(home)
    for stage in report.stages:
        for key in stage.names:
            artifact = store.current(stage.stage, key)
            for check in checks_of(artifact) if artifact else ():
                yield stage.stage, key, check


def _check_case(stage: str, key: str, check: Check) -> JUnitCase:
    name = f"{stage}: {check.name} of {key}"
    if check.passed:
        return JUnitCase(name)
    # JUnit knows no warnings: one is a case that was skipped, with what it warns of.
    return JUnitCase(name, "failed" if check.severe else "skipped", check.description)


def _stage_suite(stage: StageReport) -> Suite:
    cases = []
    for key in stage.names:
        if key in stage.failed:
            cases.append(JUnitCase(key, "error", stage.failed[key]))
        elif key in stage.left_out:
            cases.append(JUnitCase(key, "skipped", f"left out: {stage.left_out[key]}"))
        else:
            cases.append(JUnitCase(key))
    return Suite(stage.stage, tuple(cases), stage.seconds)


def write_junit(path: Path, study: Study, suites: Sequence[Suite]) -> None:
    """Write suites to a file, at once or not at all."""
    now = datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="seconds")
    with atomic_write(path) as temporary:
        temporary.write_text(junit_xml(study.study, suites, now) + "\n", encoding="utf-8")


def annotations_of(
    study: Study, report: RunReport, gates: Sequence[GateResult], home: Home
) -> list[WorkflowAnnotation]:
    """Return what failed, each reason once, at the line of the study file that names the part.

    Checks that only warn are warnings.
    """
    at = _Places(study)
    found = [
        WorkflowAnnotation(
            "error", f"{stage.stage} failed", f"{_named(keys)}: {reason}", at.file, at(stage.stage, keys[0])
        )
        for stage in report.stages
        for reason, keys in by_reason(stage.failed).items()
    ]
    for stage, key, check in _checks(report, home):
        if not check.passed:
            level: Level = "error" if check.severe else "warning"
            title = f"check {check.name} of {stage}"
            found.append(
                WorkflowAnnotation(level, title, f"{key}: {check.description}", at.file, at(stage, key))
            )
    failed = [one for one in gates if not one.passed]
    return found + [
        WorkflowAnnotation("error", "gate", one.sentence, at.file, at("gate", "")) for one in failed
    ]


def _named(keys: Sequence[str]) -> str:
    return keys[0] if len(keys) == 1 else f"{keys[0]} and {several(len(keys) - 1, 'other')}"


class _Places:
    """The lines of a study file on which parts of it stand; 0 where the file was changed meanwhile."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.file = _in_repository(study.path)
        try:
            self.marked: MarkedYaml | None = load(study.path)
        except InputError:
            self.marked = None

    def __call__(self, stage: str, key: str) -> int:
        return self.marked.line(_place(self.study, stage, key)) if self.marked else 0


def _place(study: Study, stage: str, key: str) -> Place:
    """Return the part of a study file that a key of a stage depends on most: the last of its axes."""
    if stage in {"pages", "documents"}:
        return ("sources", key)
    if stage in {"questions", "gate"}:
        return ("questions",) if stage == "questions" else ("metrics",)
    parts = key.split(".")
    if "by" in parts:
        return ("judges", parts[-1])
    named = [(section, name) for section in _SECTIONS for name in parts if name in getattr(study, section)]
    return named[0] if named else ("study",)


def _in_repository(path: Path) -> str:
    """Return a path as GitHub knows it: from the folder of the repository, where it lies there."""
    root = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
    try:
        return str(path.resolve().relative_to(root.resolve()))
    except ValueError:
        return str(path)


def summary(study: Study, report: RunReport, gates: Sequence[GateResult], data: ReportData | None) -> str:
    """Return a run in Markdown: verdict, gates, what failed, the first cells."""
    parts = [f"## {escape_markdown(study.study)}"]
    if data is not None:
        parts.append(escape_markdown(" ".join(data.verdict.sentences)))
    if gates:
        rows = [["passed" if one.passed else "FAILED", one.gate.name, _outcome(one)] for one in gates]
        parts += ["### Gates", markdown_table(["", "gate", "found"], rows)]
    failed = [
        [stage.stage, str(len(keys)), keys[0], reason]
        for stage in report.stages
        for reason, keys in by_reason({**stage.failed, **stage.left_out}).items()
    ]
    if failed:
        parts += ["### Failed or left out", markdown_table(["stage", "keys", "first", "reason"], failed)]
    if data is not None:
        parts += ["### Leaderboard", _board(data)]
    return "\n\n".join(parts) + "\n"


def _outcome(one: GateResult) -> str:
    return one.reason or f"{number(one.value, one.gate.unit)} ({one.cell})"


def _board(data: ReportData) -> str:
    metric, words = data.primary, words_in(TEXTS, "en")
    found = [
        [
            str(entry.rank) if entry.rank is not None else "",
            entry.label,
            number(entry.result.value, metric.unit),
            interval(entry.result.low, entry.result.high, metric.unit),
            words(entry.result.standing) if entry.result.standing else "",
        ]
        for entry in entries(data, main_subset(data))[:ROWS]
    ]
    return markdown_table(["rank", "cell", metric.heading, "95 % interval", "against the leader"], found)


def tell_github(annotations: Sequence[WorkflowAnnotation], text: str) -> None:
    """Print annotations to stderr, which the runner reads too, and add the summary to that of the step."""
    for one in annotations:
        say(one.command)
    if place := os.environ.get(SUMMARY):
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(text)
