"""What continuous integration gets of a run: JUnit XML; GitHub's annotations, summary and comment."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Literal

import httpx

from rag_assay.assets.engine.builder import checks_of
from rag_assay.assets.engine.stage import Check
from rag_assay.evals.reporting.changes.results import HistoryEntry
from rag_assay.evals.reporting.ci_formats import JUnitCase, Suite, WorkflowAnnotation, junit_xml
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.display import interval, number, several
from rag_assay.evals.reporting.markdown import escape_markdown, markdown_table
from rag_assay.evals.reporting.pair_comparison import TEXTS
from rag_assay.evals.reporting.standings import entries, main_subset
from rag_assay.evals.reporting.texts import words_in
from rag_assay.evals.reporting.thresholds import GateResult
from rag_assay.evals.study.study import Study
from rag_assay.orchestration.run_report import RunReport, StageReport, by_reason
from rag_assay.orchestration.terminal.cli_errors import say
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.yaml_positions import MarkedYaml, Place, load

CELLS = 10  # in the summary
LONGEST = 60_000  # characters of a comment; GitHub takes 65,536
ROWS = 20  # of each table of a comment
TIMEOUT = 20.0  # seconds
PAGE = 100  # comments that are read at once
Level = Literal["error", "warning", "notice"]
SUMMARY = "GITHUB_STEP_SUMMARY"
_SECTIONS = ("generators", "retrievers", "embedders", "chunkings")  # the first that a key names


@dataclass
class CiOutputs:
    """What a run writes for continuous integration; before: the last result before the run."""

    junit: Path | None
    github: bool
    commented: PullRequest | None
    before: HistoryEntry | None = None

    def look_before(self, home: Home, study: str) -> None:
        self.before = last_result(home, study) if self.commented else None

    def write(
        self,
        study: Study,
        home: Home,
        report: RunReport,
        gates: Sequence[GateResult],
        data: ReportData | None,
    ) -> None:
        if self.junit:
            now = datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="seconds")
            suites = suites_of(study, report, gates, home)
            with atomic_write(self.junit) as temporary:
                temporary.write_text(junit_xml(study.study, suites, now) + "\n", encoding="utf-8")
        text = summary(study, report, gates, data)
        if self.github:
            for one in annotations_of(study, report, gates, home):
                say(one.command)  # to stderr, which the runner reads too
            if place := os.environ.get(SUMMARY):
                with Path(place).open("a", encoding="utf-8") as file:
                    file.write(text)
        if self.commented:
            changes = changes_since(self.before, home, study.study)
            self.commented.comment(f"<!-- rag-assay: {study.study} -->", f"{text}\n{changes}\n")


def suites_of(study: Study, report: RunReport, gates: Sequence[GateResult], home: Home) -> list[Suite]:
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
    cases = {key: JUnitCase(key) for key in stage.names}
    for key in cases.keys() & stage.left_out.keys():
        cases[key] = JUnitCase(key, "skipped", f"left out: {stage.left_out[key]}")
    for key in cases.keys() & stage.failed.keys():
        cases[key] = JUnitCase(key, "error", stage.failed[key])
    return Suite(stage.stage, tuple(cases.values()), stage.seconds)


def annotations_of(
    study: Study, report: RunReport, gates: Sequence[GateResult], home: Home
) -> list[WorkflowAnnotation]:
    """Return what failed, each reason once, at its line of the study file; weak checks are warnings."""
    file = _in_repository(study.path)
    marked: MarkedYaml | None = None
    with suppress(InputError):  # the file was changed meanwhile
        marked = load(study.path)

    def annotation(level: Level, title: str, message: str, stage: str, key: str) -> WorkflowAnnotation:
        line = marked.line(_place(study, stage, key)) if marked else 0
        return WorkflowAnnotation(level, title, message, file, line)

    found = []
    for one in report.stages:
        for reason, keys in by_reason(one.failed).items():
            others = f" and {several(len(keys) - 1, 'other')}" if len(keys) > 1 else ""
            message = f"{keys[0]}{others}: {reason}"
            found.append(annotation("error", f"{one.stage} failed", message, one.stage, keys[0]))
    for stage, key, check in _checks(report, home):
        if not check.passed:
            title, message = f"check {check.name} of {stage}", f"{key}: {check.description}"
            found.append(annotation("error" if check.severe else "warning", title, message, stage, key))
    return found + [annotation("error", "gate", one.sentence, "gate", "") for one in gates if not one.passed]


def _place(study: Study, stage: str, key: str) -> Place:
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
    root = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
    try:
        return str(path.resolve().relative_to(root.resolve()))
    except ValueError:
        return str(path)


def summary(study: Study, report: RunReport, gates: Sequence[GateResult], data: ReportData | None) -> str:
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
        for entry in entries(data, main_subset(data))[:CELLS]
    ]
    return markdown_table(["rank", "cell", metric.heading, "95 % interval", "against the leader"], found)


@dataclass(frozen=True)
class PullRequest:
    """A pull request, to which comments can be written; api: address of GitHub's API."""

    api: str
    repository: str
    number: int
    token: str = field(repr=False)

    def comment(self, mark: str, text: str) -> None:
        """Write a comment, or replace the bot's that begins with the same mark; a failure is a warning."""
        import httpx

        from rag_assay.warehouse.inference.egress import Destination, guard_client, only_to, origin
        from rag_assay.warehouse.inference.http_limits import limit

        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/vnd.github+json"}
        body = {"body": f"{mark}\n{_cut(text)}"}
        issue = f"/repos/{self.repository}/issues"
        try:
            opened = httpx.Client(base_url=self.api, headers=headers, timeout=TIMEOUT)
            with only_to(Destination(frozenset({origin(self.api)}))), guard_client(limit(opened)) as client:
                comments = f"{issue}/{self.number}/comments"
                known = _comment_of(client, comments, mark)
                method, url = ("POST", comments) if known is None else ("PATCH", f"{issue}/comments/{known}")
                client.request(method, url, json=body).raise_for_status()
        except httpx.HTTPStatusError as error:
            code = error.response.status_code
            hint = "; the job needs `permissions: {pull-requests: write}`" if code in {401, 403, 404} else ""
            say(f"warning: no comment on pull request {self.number}: GitHub answered {code}{hint}")
        except (httpx.HTTPError, ValueError, TypeError, KeyError, AttributeError) as error:
            say(f"warning: no comment on pull request {self.number}: {type(error).__name__} at {self.api}")


def _comment_of(client: httpx.Client, url: str, mark: str) -> int | None:
    for page in count(1):
        reply = client.get(url, params={"per_page": PAGE, "page": page})
        reply.raise_for_status()
        found: list[dict[str, Any]] = reply.json()
        for one in found:  # what people write may begin with the mark, too
            author = one["user"] or {}  # null: the account is gone
            if (one["body"] or "").startswith(mark) and author.get("type") == "Bot":
                return int(one["id"])
        if len(found) < PAGE:
            break
    return None


def _cut(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return text[: text.rindex("\n", 0, LONGEST)] + "\n\n(cut; the report is complete)\n"


def pull_request() -> PullRequest | None:
    """Return the pull request of this run of GitHub Actions; None: it has none."""
    names = ("GITHUB_REPOSITORY", "GITHUB_EVENT_PATH", "GITHUB_TOKEN")
    repository, event, token = values = [os.environ.get(name, "") for name in names]
    if not all(values):
        missing = names[values.index("")]
        hint = "; give the step `env: {GITHUB_TOKEN: ${{ github.token }}}`" if missing == names[2] else ""
        raise InputError(f"--comment works in GitHub Actions, but {missing} is not set{hint}")
    try:
        found = json.loads(Path(event).read_text(encoding="utf-8")).get("pull_request")
        number = int(found["number"]) if found else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"--comment: GITHUB_EVENT_PATH: {event} is not a GitHub event") from error
    if number is None:
        say("This run belongs to no pull request: nothing is commented on.")
        return None
    return PullRequest(
        os.environ.get("GITHUB_API_URL") or "https://api.github.com", repository, number, token
    )


def last_result(home: Home, study: str) -> HistoryEntry | None:
    from rag_assay.evals.reporting.changes.results import entries_of

    found = entries_of(home, study)
    return found[-1] if found else None


def changes_since(before: HistoryEntry | None, home: Home, study: str) -> str:
    from rag_assay.evals.reporting.changes.diff import diff
    from rag_assay.evals.reporting.changes.diff_page import diff_page
    from rag_assay.evals.reporting.changes.pages import truncate_page
    from rag_assay.evals.reporting.markdown import render_page

    after = last_result(home, study)
    if before is None or after is None:
        return "There is no earlier result to compare with."
    page = diff_page(diff(before, after, ArtifactStore(home)))
    return render_page(truncate_page(page, ROWS, f"`assay diff {before.name} {after.name}`"))
