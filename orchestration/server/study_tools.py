"""The tools of `assay mcp`, with which coding agents plan, run within a budget and read studies.

An agent names studies, cells and questions, never paths: it reaches those of the workspace and those that the
command was started with.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from rag_assay.orchestration.server.mcp_server import Reply, ToolDefinition
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.inference.budget import Budget, Budgets, Caps
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.suggestions import did_you_mean

if TYPE_CHECKING:
    from rag_assay.evals.reporting.question_rows import RankingResult
    from rag_assay.evals.study.run_plan import CallEstimate
    from rag_assay.evals.study.study import Study
    from rag_assay.orchestration.api import StudyResult

LOCAL = "local/"
SHOWN, LONGEST = 5, 1_000  # passages of a cell; characters of each
Result = TypeVar("Result")


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class NoArguments(_Form):
    """The arguments of a tool that takes none."""


class StudyForm(_Form):
    """A study."""

    study: Annotated[str, Field(description="Name of a study, as `studies` lists them.")]


class RunForm(StudyForm):
    """A study, and which part of it is run."""

    cells: Annotated[
        list[str], Field(max_length=100, description="Patterns of cells, such as `*.hybrid.*`; none: all.")
    ] = []
    questions: Annotated[int | None, Field(ge=1, description="How many questions; default: all.")] = None


class CompareForm(StudyForm):
    """Two cells of a study."""

    first: Annotated[str, Field(description="A cell, as the verdict names it.")]
    second: Annotated[str, Field(description="The cell that it is compared with.")]
    metric: Annotated[str | None, Field(description="Default: the study's primary metric.")] = None


class QuestionForm(StudyForm):
    """A question of a study in one cell."""

    question: Annotated[str, Field(description="Id of the question.")]
    cell: Annotated[str | None, Field(description="Default: the recommended cell.")] = None


class StudyTools:
    """The tools of one server; studies: further files by name; usd: what all runs may cost."""

    def __init__(self, home: Home, studies: Mapping[str, Path], usd: float) -> None:
        self._home = home
        self._studies = studies
        self._budget = Budget(Caps(usd=usd))
        self._usd = usd
        self._one_at_a_time = threading.Lock()

    @property
    def left_usd(self) -> float:
        return max(0.0, self._usd - self._budget.spent_usd)

    def definitions(self) -> dict[str, ToolDefinition]:
        cost = f"All runs together may cost {self._usd:g} US dollars; local models cost nothing."
        about = {
            "studies": "List the studies of the workspace, with what is wrong with a file.",
            "plan": "Say what a run of a study would build, call and cost; nothing is run.",
            "run": f"Run a study, or some of its cells and questions, and return the verdict. {cost}",
            "verdict": "Say which cell (chunking, embedder, retriever, model) to use, and how sure that is.",
            "compare": "Compare two cells question by question, with the interval of the difference.",
            "question": "Look at a question in a cell: evidence, passages, where evidence was lost, answer, "
            "scores.",
        }
        tools: dict[str, tuple[type[BaseModel], Callable[[Any], Reply]]] = {
            "studies": (NoArguments, self._list),
            "plan": (StudyForm, self._plan),
            "run": (RunForm, self._run),
            "verdict": (StudyForm, lambda form: self._verdict_of(self._result(form.study))),
            "compare": (CompareForm, self._compare),
            "question": (QuestionForm, self._question),
        }
        return {
            name: ToolDefinition(about[name], form, self._in_thread(answer), changes=name == "run")
            for name, (form, answer) in tools.items()
        }

    def _in_thread(self, answer: Callable[[Any], Reply]) -> Callable[[Any], Any]:
        def alone(form: BaseModel) -> Reply:
            with self._one_at_a_time:
                return answer(form)

        async def answered(form: BaseModel) -> Reply:
            import anyio

            return await anyio.to_thread.run_sync(partial(alone, form))

        return answered

    def _named(self, name: str) -> Study:
        from rag_assay.evals.study.run_studies import find_known, known_studies
        from rag_assay.evals.study.study_file import read_study

        if name in self._studies:
            return read_study(self._studies[name])  # it may have been edited
        known = known_studies(self._home)
        names = [*self._studies, *(one.name for one in known if one.path is not None)]
        names += [part.name for one in known for part in one.slices]
        if name not in names:
            raise InputError(f"there is no study {name[:100]!r}; {did_you_mean(name, names)}")
        return find_known(name, self._home)

    def _list(self, _form: NoArguments) -> Reply:
        from rag_assay.evals.study.run_studies import known_studies

        known = {one.name: one for one in known_studies(self._home)}
        stored = {name: (one.cells, one.mistake or None) for name, one in known.items() if one.path}
        given = {name: (len(self._named(name).cells()), None) for name in self._studies}
        found = {name: one for name, one in stored.items() if name not in given} | given
        was_run = {name for name, one in known.items() if one.run_at}
        rows = [
            {"name": name, "cells": cells, "was_run": name in was_run, "mistake": mistake}
            for name, (cells, mistake) in found.items()
        ]
        text = "\n".join(
            f"{row['name']}: {row['mistake'] or '{} cells'.format(row['cells'])}"
            + (", was run" if row["was_run"] else "")
            for row in rows
        )
        return text or "There are no studies.", {"studies": rows}

    def _plan(self, form: StudyForm) -> Reply:
        study = self._named(form.study)
        stages, rows = self._estimated(study)
        record = {
            "stages": stages,
            "calls": [_estimate_record(one) for one in rows],
            "left_usd": self.left_usd,
        }
        to_do = ", ".join(f"{name} {n}" for name, n in stages.items() if n)
        lines = [f"To build: {to_do}." if to_do else "Everything is up to date."]
        lines += [_estimate_line(one) for one in rows]
        lines.append(f"US dollars left: {self.left_usd:g}.")
        return "\n".join(lines), record

    def _estimated(self, study: Study) -> tuple[dict[str, int], list[CallEstimate]]:
        from rag_assay.evals.study.cost_estimate import estimates
        from rag_assay.evals.study.grid import Grid
        from rag_assay.evals.study.run_plan import plan
        from rag_assay.evals.successive_halving.records import narrow_study
        from rag_assay.orchestration.stages import stages_of

        found = narrow_study(study, self._home)
        stages = stages_of(Grid([found]))
        planned = plan(found, stages, self._home)
        rows = estimates(found, planned, stages, self._home)
        return {one.stage: one.to_do for one in planned.stages}, list(rows)

    def _run(self, form: RunForm) -> Reply:
        from rag_assay.evals.study.run_plan import total
        from rag_assay.evals.study.run_studies import slice_study
        from rag_assay.orchestration.run_report import failure_notes
        from rag_assay.orchestration.study_runs import run_study
        from rag_assay.warehouse.inference.embedding_api import OF_ALL

        OF_ALL.within = self._budget
        study = self._named(form.study)
        part = slice_study(study, tuple(form.cells), None if form.questions is None else str(form.questions))
        _, rows = self._estimated(part)
        self._refuse_unpriced(rows)
        least = total(rows).least
        if least > self.left_usd:
            raise InputError(
                f"the run would cost at least {least:.4g} US dollars, and {self.left_usd:g} are left; name "
                "fewer cells or questions, or start `assay mcp` with a higher --budget-usd"
            )
        before = self._budget.spent_usd
        found, report = run_study(part, self._home, _quiet, budgets=Budgets(within=self._budget))
        notes = failure_notes(report.stages)
        if not report.is_there("leaderboard"):
            raise AssayError("; ".join(notes) or "no leaderboard was built")
        text, record = self._verdict_of(self._read(found))
        spent = self._budget.spent_usd - before
        lines = [text, *notes, f"The run cost {spent:.4g} US dollars; {self.left_usd:g} are left."]
        record |= {"study": found.study, "usd": spent, "left_usd": self.left_usd, "failures": list(notes)}
        return "\n".join(lines), record

    def _refuse_unpriced(self, rows: list[CallEstimate]) -> None:
        unpriced = {
            one.model
            for one in rows
            if one.usd is None and one.calls.most != 0 and not one.model.startswith(LOCAL)
        }
        if unpriced:
            raise InputError(
                f"the price of {', '.join(sorted(unpriced))} is not known, so no budget can hold it; set "
                "`price` of the model in the study file"
            )

    def _verdict_of(self, result: StudyResult) -> Reply:
        decided = result.verdict
        return "\n".join((*decided.sentences, *result.notes)), decided.row()

    def _compare(self, form: CompareForm) -> Reply:
        found = self._result(form.study).compare(form.first, form.second, form.metric)
        values = [
            {"question": name, "first": first, "second": second} for name, first, second in found.questions
        ]
        record = {
            "metric": found.metric.name,
            "difference": found.difference,
            "low": found.low,
            "high": found.high,
            "p": found.p,
            "standing": found.standing,
            "questions": [{k: None if v != v else v for k, v in one.items()} for one in values],  # noqa: PLR0124
        }
        return "\n".join(found.sentences), record

    def _question(self, form: QuestionForm) -> Reply:
        from rag_assay.evals.reporting.question_rows import question_rows
        from rag_assay.orchestration.cell_selection import cell_of

        study = self._named(form.study)
        rows = question_rows(study, form.question, self._home)
        cell = cell_of(study, form.cell, self._home)
        found = next((one for one in rows.found for of in one.cells if of.cell.name == cell.name), None)
        if found is None:
            raise InputError(f"{cell.key} was not run for {form.question}")
        record = {"cell": cell.key, "note": rows.note, **_question_record(rows.question, found, cell.key)}
        return json.dumps(record, ensure_ascii=False, indent=1, default=str), record

    def _result(self, name: str) -> StudyResult:
        from rag_assay.evals.successive_halving.records import narrow_study

        return self._read(narrow_study(self._named(name), self._home))

    def _read(self, study: Study) -> StudyResult:
        from rag_assay.orchestration.api import LoadedStudy

        return LoadedStudy(study, str(self._home.root)).result()


def _quiet(_label: str, _done: int, _total: int) -> None:
    pass


def _estimate_record(one: CallEstimate) -> dict[str, Any]:
    found = asdict(one)
    return {
        "for": one.what,
        "model": one.model,
        **{name: list(found[name]) for name in ("calls", "read", "written")},
        "usd": None if one.usd is None else list(one.usd),
        "why": one.why,
    }


def _estimate_line(one: CallEstimate) -> str:
    cost = "price not known" if one.usd is None else f"US$ {one.usd.least:.4g} to {_most(one.usd.most)}"
    return f"{one.what}: {one.model}, {one.calls.least:.0f} to {_most(one.calls.most)} calls, {cost}."


def _most(number: float | None) -> str:
    return "unbounded" if number is None else f"{number:.4g}"


def _question_record(question: Mapping[str, Any], found: RankingResult, cell: str) -> dict[str, Any]:
    answered = next((one for one in found.cells if one.cell.key == cell), found.cells[0])
    answer = answered.answer or {}
    evidence = [{key: piece[key] for key in ("url", "quote")} for piece in question["evidence"] or ()]
    return {
        "question": question["question"],
        "ground_truth": question["ground_truth"],
        "evidence": evidence,
        "passages": [
            {"rank": hit.rank, "url": hit.url, "is_evidence": hit.gold, "text": (hit.text or "")[:LONGEST]}
            for hit in found.hits[:SHOWN]
        ],
        "lost": [{"lost_at": row["lost_at"], "step": row["step"]} for row in found.losses if row["lost_at"]],
        "answer": {key: answer.get(key) for key in ("status", "reason", "answer", "model", "usd")},
        "scores": [
            {key: row[key] for key in ("metric", "status", "value", "reason")} for row in answered.scores
        ],
    }
