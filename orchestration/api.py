"""The Python API, `import rag_assay as ra`: studies, their results, and pipelines that answer questions.

There the classes are called `Study`, `Result` and `Pipeline`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_assay.orchestration.settings import Settings, prepare
from rag_assay.warehouse.closing import Closeable
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.paths import Home, home, project_folder

if TYPE_CHECKING:
    import polars as pl

    from rag_assay.assets.engine.stage import BuildContext, Progress
    from rag_assay.evals.pipeline.pipeline import PipelineResult
    from rag_assay.evals.reporting.data import ReportData
    from rag_assay.evals.reporting.pair_comparison import PairComparison
    from rag_assay.evals.reporting.thresholds import GateResult
    from rag_assay.evals.statistics.verdict import Verdict
    from rag_assay.evals.study import study as studies
    from rag_assay.orchestration.question_service.opened_cell import OpenedCell
    from rag_assay.warehouse.study_records import PinnedArtifacts


class RunFailedError(AssayError):
    """A run has built no leaderboard; the message says which stages failed and why."""


class LoadedStudy:
    """A study file and the workspace that it is run in.

    >>> study = ra.Study.load("study.yaml")  # doctest: +SKIP
    >>> study.run().verdict.sentences[0]  # doctest: +SKIP
    'Use articles · bilingual.'
    """

    def __init__(self, study: studies.Study, workspace: str) -> None:
        self._study = study
        self.workspace = workspace

    @classmethod
    def load(cls, study: str | Path, workspace: str | Path | None = None) -> LoadedStudy:
        """Read a study file, or a study that the workspace knows by its name.

        workspace: a folder, or a URL on object storage. Default: `ASSAY_HOME`, else `var` in the project
            folder.

        Raises:
            InputError: the file has mistakes; each is named with its line.
        """
        from rag_assay.evals.study.run_studies import find_known

        place = _workspace.default() if workspace is None else str(workspace)
        return cls(find_known(str(study), _workspace.use(place)), place)

    @property
    def name(self) -> str:
        return self._study.study

    @property
    def path(self) -> Path:
        return self._study.path

    @property
    def cells(self) -> list[str]:
        """The cells, `study.chunking.embedder.retriever.generator`, also those that were not run."""
        return [cell.key for cell in self._study.cells()]

    def check(self) -> list[str]:
        """Return warnings of `assay check`.

        Raises:
            InputError: the file, or a file that it names, has mistakes.
        """
        from rag_assay.evals.study.study_check import check_study

        return list(check_study(self.path, _workspace.use(self.workspace)).warnings)

    def run(
        self,
        *,
        cells: Sequence[str] = (),
        questions: str | int | None = None,
        progress: Progress | None = None,
    ) -> StudyResult:
        """Build what is missing or outdated, as `assay run` does, and return the result.

        cells: patterns; only the cells that match are run, as a study of their own
        questions: how many are drawn by the study's seed, or ids and patterns with commas between
        progress: called with (label, done, total); total is 0 for a message without a count

        Raises:
            InputError: the study, or what it names, cannot be used.
            RunFailedError: there is no leaderboard. What was built stays, and the next run continues.
        """
        from rag_assay.orchestration.run_report import failure_notes
        from rag_assay.orchestration.study_runs import run_study

        where, hear = _workspace.use(self.workspace), progress or (lambda _label, _done, _total: None)
        found, report = run_study(self._study, where, hear, cells=cells, questions=questions)
        if not report.is_there("leaderboard"):
            raise RunFailedError("\n".join(failure_notes(report.stages)) or "no leaderboard was built")
        return _read(found, self.workspace, failure_notes(report.stages))

    def result(self) -> StudyResult:
        """Return the result of the last run; nothing is built.

        Raises:
            InputError: the study has not been run.
        """
        from rag_assay.evals.successive_halving.records import narrow_study

        return _read(narrow_study(self._study, _workspace.use(self.workspace)), self.workspace)

    def __repr__(self) -> str:
        return f"<Study {self.name!r}: {len(self.cells)} cells, {self.path}>"


def _read(study: studies.Study, workspace: str, notes: tuple[str, ...] = ()) -> StudyResult:
    from rag_assay.evals.reporting.rows import report_data
    from rag_assay.evals.reporting.stale_results import stored_result

    where = _workspace.use(workspace)
    found = stored_result(study, where, as_run=True)
    return StudyResult(found.study, workspace, report_data(study, where, notes, with_hits=False), found.store)


class StudyResult:
    """What a run of a study measured."""

    def __init__(
        self, study: studies.Study, workspace: str, data: ReportData, store: PinnedArtifacts
    ) -> None:
        self._study = study
        self._data = data
        self._store = store
        self.workspace = workspace

    @property
    def study(self) -> str:
        return self._study.study

    @property
    def verdict(self) -> Verdict:
        """The decision: which cell to use, its interval, which others are tied, and why (`sentences`)."""
        return self._data.verdict

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know: failures, cells that were not run, inputs that have changed since."""
        return self._data.notes

    @property
    def leaderboard(self) -> pl.DataFrame:
        """A row a cell, metric and subset of the questions, with interval, rank and comparison."""
        return self._data.leaderboard

    @property
    def questions(self) -> pl.DataFrame:
        """A row a question, with its ground truth and evidence."""
        return self._data.questions

    @property
    def scores(self) -> pl.DataFrame:
        """A row a cell, replicate, question and metric: `value`, or a `status` with its `reason`."""
        return self._data.scores

    @property
    def answers(self) -> pl.DataFrame:
        """A row a cell, replicate and question: text, citations, tokens, cost, seconds, `status`."""
        return self._data.answers

    @cached_property
    def rankings(self) -> pl.DataFrame:
        """A row a ranking, question and rank: the chunk, its place in its document, and its score."""
        import polars as pl

        from rag_assay.evals.reporting.stored_rows import select_rows
        from rag_assay.warehouse.schemas import HITS

        names = self._study.rankings()
        query = (
            "SELECT * FROM current_hits WHERE list_contains(?, ranking) ORDER BY ranking, question_id, rank"
        )
        with self._store.connect() as connection:
            return select_rows(connection, query, [names], {"ranking": pl.String, **HITS})

    def compare(self, first: str, second: str, metric: str | None = None) -> PairComparison:
        """Compare two cells question by question: first less second, with its interval.

        metric: default: the primary one

        Raises:
            InputError: the study has no such cell or metric.
        """
        import polars as pl

        from rag_assay.evals.reporting.pair_comparison import compare_pair
        from rag_assay.orchestration.cell_selection import named_cell
        from rag_assay.warehouse.suggestions import did_you_mean

        data = self._data
        known = {one.name: one for one in data.metrics}
        if metric is not None and metric not in known:
            raise InputError(f"{self.study} has no metric {metric!r}; {did_you_mean(metric, list(known))}")
        chosen = known[metric] if metric else data.primary
        pair = named_cell(self._study, first).name, named_cell(self._study, second).name
        rows = data.values.filter(pl.col("metric") == chosen.name, pl.col("value").is_not_null())
        values = {
            (question, cell): value
            for question, cell, value in rows.select("question_id", "cell", "value").iter_rows()
        }
        return compare_pair(data, chosen, pair, values, data.questions["question_id"].to_list())

    def gates(self, *gates: str) -> list[GateResult]:
        """Hold the result against gates, written as for `assay run --fail-under`: `ndcg@10=0.8`.

        Raises:
            InputError: a gate names no metric or cell of the study.
        """
        from rag_assay.evals.reporting.thresholds import gate_results, read_gates

        leader = self.verdict.leader
        held = read_gates(gates, self._study)
        return gate_results(held, self.leaderboard, self.scores, leader.cell if leader else None)

    def open(self, cell: str | None = None) -> OpenedPipeline:
        """Open a cell to ask it questions.

        cell: default: the one that the verdict recommends; if that is a system, the best-ranked cell of the
            grid
        """
        from rag_assay.orchestration.cell_selection import cell_of
        from rag_assay.orchestration.question_service.opened_cell import open_cell

        where, study = _workspace.use(self.workspace), self._study
        chosen = cell_of(study, cell, where)
        return _opened(where, lambda work: open_cell(study, chosen, work, study.budget, interactive=False))

    @property
    def report(self) -> Path:
        """The HTML report of the last run."""
        return _workspace.use(self.workspace).report(self.study)

    def __repr__(self) -> str:
        return f"<Result of {self.study!r}: {' '.join(self.verdict.sentences)}>"

    def _repr_html_(self) -> str:
        """Return the verdict and the ranks of the primary metric, as a notebook shows them."""
        from rag_assay.evals.reporting.display import interval, number
        from rag_assay.evals.reporting.standings import main_subset

        data, unit = self._data, self._data.primary.unit
        rows = data.leaderboard.filter(metric=data.primary.name, subset=main_subset(data).name)
        rows = rows.sort("rank", nulls_last=True)
        body = "".join(
            f"<tr><td>{row['rank'] or ''}</td><td>{escape(row['cell'])}</td>"
            f"<td>{number(row['value'], unit)}</td><td>{interval(row['low'], row['high'], unit)}</td></tr>"
            for row in rows.iter_rows(named=True)
        )
        return (
            f"{self.verdict._repr_html_()}<table><thead><tr><th>Rank</th>"
            f"<th>Cell</th><th>{escape(data.primary.heading)}</th><th>Interval</th></tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )


class OpenedPipeline(Closeable):
    """A pipeline that answers single questions as it was measured.

    Use it as a context manager, or close it.
    """

    def __init__(self, opened: OpenedCell, held: ExitStack) -> None:
        self._opened = opened
        self._held = held

    @property
    def name(self) -> str:
        return self._opened.key

    @property
    def differences(self) -> tuple[str, ...]:
        """What may make the answers of an export differ from those that were measured."""
        return self._opened.differences

    def ask(self, question: str, conversation: Sequence[str] = ()) -> PipelineResult:
        """Return passages and answer; what failed is the status and reason of the result.

        conversation: the turns before, the oldest first: question, answer, question, …

        Raises:
            InputError: the question is empty or too long.
        """
        from rag_assay.evals.chat.question_requests import QuestionRequest, check_question

        request = QuestionRequest(question, None, None, frozenset(), tuple(conversation))
        return self._opened.result(check_question(request))

    def close(self) -> None:
        self._held.close()


def evaluate(  # noqa: PLR0913 -- the parameters of the public function, most by name
    system: Any,
    questions: Any,
    documents: Any = None,
    *,
    metrics: Sequence[str] | None = None,
    judges: Mapping[str, Any] | Iterable[str] | None = None,
    name: str = "evaluation",
    version: str | None = None,
    max_usd: float | None = None,
    workspace: str | Path | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Measure RAG systems, or answers that they gave before, as a study without a file.

    system: a function or an object of LangChain, LlamaIndex or Haystack; a URL; `module:function`; the
        `{kind: {parameters}}` of a study file; or several, as `{name: system}`. None: the questions have
        answers (`response`) and passages (`retrieved_contexts`), and nothing is called
    questions: texts or mappings, a polars or pandas table, a Hugging Face dataset, a dataset of ragas, or a
        file of questions
    documents: a folder, file or URL, texts, mappings, a table, or documents of LangChain and LlamaIndex that
        passages are looked for in. None: metrics of rankings are not run
    metrics: the first one ranks. Default: those that the questions have ground truth or evidence for, else
        those of the judges, and latency
    judges: `{name: {kind: {parameters}}}` as in a study file, or names of kinds
    name: of the study, whose earlier result it replaces
    version: of systems that are Python objects: answers are kept for it. None: an object is asked again in
        another process, and so is another object
    max_usd: what calls may cost

    >>> result = ra.evaluate(my_rag, ["Who runs the ferry?"], judges=["similarity"])  # doctest: +SKIP

    Raises:
        InputError: what was given cannot be used; the message says where.
        RunFailedError: there is no leaderboard.
    """
    from rag_assay.orchestration.evaluation import Evaluation, write_evaluation

    place = _workspace.default() if workspace is None else str(workspace)
    given = Evaluation(name, system, metrics, judges, version, max_usd)
    path = write_evaluation(given, questions, documents, _workspace.use(place))
    return LoadedStudy.load(path, place).run(progress=progress)


def open(  # noqa: A001 -- ra.open
    export: str | Path, *, trust: Sequence[str] = (), max_usd: float | None = None
) -> OpenedPipeline:
    """Open a folder that `assay export` wrote.

    trust: servers, beside those of this machine, that it may send questions and passages to
    max_usd: what calls of models may cost; None: no limit

    Raises:
        InputError: the folder is no export, was changed, or names servers that are not trusted.
    """
    from rag_assay.orchestration.question_service.opened_cell import open_folder

    where = _workspace.use(_workspace.default())
    return _opened(where, lambda work: open_folder(Path(export), work, max_usd, trust, interactive=False))


def _opened(where: Home, opening: Callable[[BuildContext], OpenedCell]) -> OpenedPipeline:
    from rag_assay.assets.engine.stage import BuildContext

    with ExitStack() as held:
        opened = opening(held.enter_context(closing(BuildContext(where))))
        held.callback(opened.close)
        return OpenedPipeline(opened, held.pop_all())


class _Workspace:
    """Sets `ASSAY_HOME` of this process to the workspace of the study in use."""

    def __init__(self) -> None:
        self._given: str | None = None  # the user's `ASSAY_HOME`
        self._written: str | None = None  # ours
        self._place = ""

    def default(self) -> str:
        named = os.environ.get("ASSAY_HOME")
        if named != self._written:
            self._given = named
        return self._given or str(project_folder() / "var")

    def use(self, place: str) -> Home:
        self.default()
        if place != self._place or os.environ.get("ASSAY_HOME") != self._written:
            prepare(Settings(home=place))
            self._place, self._written = place, os.environ["ASSAY_HOME"]
        return home()


_workspace = _Workspace()
