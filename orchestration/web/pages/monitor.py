"""The page Monitor: runs as they go, crawls, alerts, and what users ask and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any

import streamlit as st

from rag_assay.assets.engine.stage import Stage, is_of_now
from rag_assay.evals.reporting.display import count, plain
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.run_studies import find_known
from rag_assay.evals.study.study import Study
from rag_assay.evals.successive_halving.records import narrow_study
from rag_assay.orchestration.alerts.journal import Journal
from rag_assay.orchestration.runs.current_run import run_now
from rag_assay.orchestration.stages import stages_of
from rag_assay.orchestration.terminal.outcome_sentences import crawl_sentence
from rag_assay.orchestration.web.address_state import switch
from rag_assay.orchestration.web.board import OUTCOMES, dagster_url, or_trouble, section
from rag_assay.orchestration.web.chat.answer_html import label
from rag_assay.orchestration.web.components.result_views import show_sections
from rag_assay.orchestration.web.languages import Words, app_texts, named
from rag_assay.orchestration.web.no_study import show_no_study
from rag_assay.orchestration.web.page_context import PageContext
from rag_assay.orchestration.web.usage.panels import show_usage
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.paths import Home

CELL_STAGES = ("rankings", "answers", "scores")
"""Stages that a pipeline has a key of its own in."""


@dataclass(frozen=True)
class StageProgress:
    """How many keys of a stage are built from its current inputs, of how many."""

    stage: str
    done: int
    keys: int


@dataclass(frozen=True)
class CellProgress:
    """Which stages of a pipeline are built, and how its answers ended: status -> answers."""

    cell: str
    done: Mapping[str, bool]
    answers: Mapping[str, int]


@dataclass(frozen=True)
class StudyProgress:
    """How far a study is; crawls: source -> the row of its last crawl (`schemas.CRAWLS`)."""

    stages: tuple[StageProgress, ...]
    cells: tuple[CellProgress, ...]
    crawls: Mapping[str, Mapping[str, Any]]

    @property
    def is_complete(self) -> bool:
        return all(one.done == one.keys for one in self.stages)


def study_progress(reference: str, home: Home) -> StudyProgress:
    """Return how far the study of a name or path is. DuckDB is left alone, which a run may be writing."""
    study = narrow_study(find_known(reference, home), home)
    store = ArtifactStore(home)
    stages = stages_of(Grid([study]))
    built = {
        name: {key for key in one.keys() if store.current(name, key) and is_of_now(one, key, store)}
        for name, one in stages.items()
    }
    wanted = [(name, len(one.keys())) for name, one in stages.items()]
    crawls = {key: store.current("pages", key) for key in stages["pages"].keys()}
    return StudyProgress(
        tuple(StageProgress(name, len(built[name]), n) for name, n in wanted if n),
        tuple(_cell_progress(study, built, stages, store)),
        {key: found.meta["crawl"] for key, found in crawls.items() if found and "crawl" in found.meta},
    )


def _cell_progress(
    study: Study, built: Mapping[str, set[str]], stages: Mapping[str, Stage], store: ArtifactStore
) -> Iterator[CellProgress]:
    wanted = {name: set(stages[name].keys()) for name in CELL_STAGES}
    for cell in study.runs():
        keys = {"rankings": cell.ranking, "answers": cell.key, "scores": cell.key}
        done = {name: key in built[name] for name, key in keys.items() if key in wanted[name]}
        answers = store.current("answers", cell.key)
        yield CellProgress(cell.key, done, answers.meta.get("by_status", {}) if answers else {})


SHEETS = ("board",)
_AGAIN, _IDLE = "4s", "10s"  # until a page looks again by itself: while a run is under way, else
_RUNS = 5  # runs of Dagster that are listed
_ALERTS = 20
_CELLS = 60  # pipelines that the progress of is shown
VIEWS = ("runs", "changes", "usage")

TEXTS = app_texts("monitor")
STAGES = app_texts("monitor_stages")
"""Stages by name; those of other packages keep their own names."""


def render(context: PageContext) -> None:
    words = context.words(TEXTS)
    with st.container(key="board"):
        st.title(words("title"), anchor=False)
        view = switch(context, "view", "", VIEWS, words, VIEWS[0])
        if view == "usage":
            show_usage(context)
        elif not context.study:
            show_no_study(context)
        elif view == "changes":
            _changes(context, words)
        else:
            _show_runs(context, words)


def _show_runs(context: PageContext, words: Words) -> None:
    is_running = run_now(context.workspace) is not None

    def show() -> None:
        _progress(context, words, was_running=is_running)

    st.fragment(show, run_every=_AGAIN if is_running else _IDLE)()
    _alerts(context, words)
    _dagster(words)


def _changes(context: PageContext, words: Words) -> None:
    html = or_trouble(lambda: _changes_html(context.study, context.workspace, words("changes_of")))
    if html:
        show_sections("changed", html, lang="en")
    elif html is not None:
        st.info(words("one_result", study=label(context.study)), icon=":material/difference:")


def _changes_html(study: str, home: Home, title: str) -> str:
    from rag_assay.evals.reporting.changes.diff import diff
    from rag_assay.evals.reporting.changes.diff_page import diff_page
    from rag_assay.evals.reporting.changes.results import history_of
    from rag_assay.evals.reporting.page import render_sections
    from rag_assay.evals.reporting.sections import PageSection

    found = history_of(study, home, lambda name: name)
    if len(found) < 2:
        return ""
    page = diff_page(diff(found[-2], found[-1], ArtifactStore(home)))
    return render_sections([PageSection("", title, page.lead), *page.sections])


def _progress(context: PageContext, words: Words, *, was_running: bool) -> None:
    now = run_now(context.workspace)
    if was_running != (now is not None):
        st.rerun()
    found = or_trouble(lambda: study_progress(context.reference, context.workspace))
    if found is None:
        return
    if now is not None:
        command, process = label(now.command or "assay run", 120), label(now.process, 20)
        said = words("running", command=command, process=process)
        st.info(said, icon=":material/progress_activity:")
    else:
        _standing(context, found, words)
    _stages(found, words, context.words(STAGES))
    _cells(context, found, words)
    if found.crawls:
        with section("crawls", words("crawls")):
            st.html(_list(crawl_sentence(source, row) for source, row in found.crawls.items()))


def _standing(context: PageContext, found: StudyProgress, words: Words) -> None:
    if found.is_complete:
        at = ArtifactStore(context.workspace).pointed_at("leaderboard", context.study)
        moment = datetime.fromtimestamp(at or 0, UTC)
        st.success(words("complete", at=f"{moment:%Y-%m-%d %H:%M}"), icon=":material/check:")
        return
    done, n = sum(one.done for one in found.stages), sum(one.keys for one in found.stages)
    said = words("unfinished", done=f"{done:,}", n=f"{n:,}", study=context.study)
    st.info(said, icon=":material/pause_circle:")


def _stages(found: StudyProgress, words: Words, names: Words) -> None:
    rows = "".join(
        f"<li><span>{escape(named(one.stage, STAGES, names))}</span>"
        f'<progress max="{one.keys}" value="{one.done}" '
        f'aria-label="{escape(named(one.stage, STAGES, names))}"></progress>'
        f"<span>{count(one.done)} / {count(one.keys)}</span></li>"
        for one in found.stages
    )
    with section("stages", words("stages"), words("stages_about")):
        st.html(f'<ol class="as-stages">{rows}</ol>')


def _cells(context: PageContext, found: StudyProgress, words: Words) -> None:
    heads = [words("pipeline"), *map(context.words(STAGES), CELL_STAGES), words("endings")]
    ends = context.words(OUTCOMES)
    rows = []
    for one in found.cells[:_CELLS]:
        counts = one.answers.items()
        endings = ", ".join(f"{count(n)} {named(status, OUTCOMES, ends)}" for status, n in counts)
        marks = [_mark(one.done.get(stage), words) for stage in CELL_STAGES]
        name = escape(one.cell.partition(".")[2].replace(".", " · "))
        rows.append(f'<tr><th scope="row">{name}</th>{"".join(marks)}<td>{escape(endings)}</td></tr>')
    head = "".join(f'<th scope="col">{escape(one)}</th>' for one in heads)
    with section("cells", words("cells"), words("cells_about")):
        st.html(
            '<div class="as-scroll" tabindex="0" role="region" aria-label="'
            f'{escape(words("cells"))}"><table class="as-cells"><thead><tr>{head}</tr></thead>'
            f"<tbody>{''.join(rows)}</tbody></table></div>"
        )
        if len(found.cells) > _CELLS:
            st.caption(words("cells_more", n=_CELLS, of=f"{len(found.cells):,}"))


def _mark(done: bool | None, words: Words) -> str:
    if done is None:
        return "<td>–</td>"
    return f'<td class="{"as-good" if done else "as-open"}">{escape(words("done" if done else "open"))}</td>'


def _alerts(context: PageContext, words: Words) -> None:
    told = Journal(context.workspace, context.study).lines()
    events = [one for one in told if one["line"].startswith("event ")][-_ALERTS:]
    with section("alerts", words("alerts")):
        if not events:
            st.caption(words("no_alerts"))
            return
        lines = []
        for one in reversed(events):
            kind = f"kind_{one.get('kind')}"
            name = words(kind) if kind in TEXTS else one.get("kind")
            lines.append(f"{str(one.get('at'))[:16].replace('T', ' ')} · {name} · {one.get('title')}")
        st.html(_list(lines))


def _list(lines: Iterable[str]) -> str:
    return f'<ul class="as-lines">{"".join(f"<li>{escape(plain(one))}</li>" for one in lines)}</ul>'


def _dagster(words: Words) -> None:
    url = dagster_url()
    if not url:
        st.caption(words("no_dagster"))
        return
    st.link_button(words("dagster"), f"{url}/runs", icon=":material/open_in_new:")
    st.html(_runs(url))


def _runs(url: str) -> str:
    import dagster as dg

    with dg.DagsterInstance.get() as instance:
        records: Sequence[dg.RunRecord] = instance.get_run_records(limit=_RUNS)
    lines = [
        f'<li><a href="{url}/runs/{escape(one.dagster_run.run_id)}" target="_blank" rel="noopener">'
        f"{one.create_timestamp:%Y-%m-%d %H:%M} · {escape(one.dagster_run.job_name)}</a> · "
        f"{escape(one.dagster_run.status.value.replace('_', ' ').lower())}</li>"
        for one in records
    ]
    return f'<ul class="as-lines">{"".join(lines)}</ul>'
