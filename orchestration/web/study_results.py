"""The results of a study for the pages that show them: read once for all sessions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import streamlit as st

from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.pair_comparison import bases
from rag_assay.evals.reporting.question_matrix import QuestionMatrix
from rag_assay.evals.reporting.rows import report_data
from rag_assay.evals.reporting.texts import metric_title
from rag_assay.evals.study.run_studies import find_known
from rag_assay.evals.study.study import Study
from rag_assay.evals.successive_halving.records import narrow_study
from rag_assay.orchestration.web.address_state import choose_one, switch
from rag_assay.orchestration.web.board import looking, or_trouble
from rag_assay.orchestration.web.languages import app_texts, language_here, words_in
from rag_assay.orchestration.web.page_context import PageContext
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.study_records import read_study_record

T = TypeVar("T")


def matrix_of(context: PageContext) -> QuestionMatrix | None:
    return read_or_tell(lambda: _matrix(context.reference, context.workspace, stamp_of(context)))


def report_of(context: PageContext) -> ReportData | None:
    return read_or_tell(lambda: _report(context.reference, context.workspace, stamp_of(context)))


READING = app_texts("study_results")
BASES = app_texts("study_results_bases")


def choose_metric(context: PageContext, data: ReportData, *, every: bool = False) -> str:
    """By equal contexts or equal numbers of passages; every: any other metric, too."""
    words, found = context.words(BASES), bases(data)
    titles = {one.name: metric_title(one.title, context.language) for one in data.metrics}
    name = data.primary.name
    with st.container(horizontal=True, key="measured_by", vertical_alignment="bottom"):
        if len(found) > 1:
            first = next((basis for basis, one in found.items() if one == data.primary), "context")
            basis = switch(context, "basis", words("basis"), list(found), words, first)
            name = next((one.name for of, one in found.items() if of == basis), name)
        if every:
            shown = {**titles, "": words("by_basis", title=titles[name])}
            chosen = choose_one(context, "metric", words("metric"), ["", *titles], shown.__getitem__, 420)
            name = chosen or name
    return name


def read_or_tell(read: Callable[[], T]) -> T | None:
    def look() -> T:
        with st.spinner(words_in(READING, language_here())("reading")), looking():
            return read()

    return or_trouble(look)


def stamp_of(context: PageContext) -> str:
    study, workspace = context.study, context.workspace
    store, record = ArtifactStore(workspace), read_study_record(workspace, study)
    changed = [store.pointed_at(one, study) for one in ("leaderboard", "annotations")]
    path = Path(record.path) if record else Path()
    return repr([*changed, path.stat().st_mtime_ns if path.is_file() else None])


def _study(reference: str, workspace: Home) -> Study:
    return narrow_study(find_known(reference, workspace), workspace)


@st.cache_resource(max_entries=4, show_spinner=False, hash_funcs={Home: lambda home: str(home.root)})
def _matrix(reference: str, workspace: Home, stamp: str) -> QuestionMatrix:
    del stamp
    return QuestionMatrix(_study(reference, workspace), workspace)


@st.cache_resource(max_entries=2, show_spinner=False, hash_funcs={Home: lambda home: str(home.root)})
def _report(reference: str, workspace: Home, stamp: str) -> ReportData:
    del stamp
    return report_data(_study(reference, workspace), workspace, with_hits=False)
