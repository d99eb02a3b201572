"""The page Verdict: which pipeline to use, how sure that is, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace

import streamlit as st

from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.page import render_sections
from rag_assay.evals.reporting.pair_comparison import intervals_of
from rag_assay.evals.reporting.sections import Block, Details, PageSection, PageTemplate
from rag_assay.evals.reporting.texts import metric_title
from rag_assay.evals.reporting.trust import trust_lines
from rag_assay.evals.statistics.verdict import JUDGES, labels_of, verdict_sentences
from rag_assay.evals.statistics.verdict import TEXTS as VERDICT_TEXTS
from rag_assay.orchestration.web.chat.answer_html import label
from rag_assay.orchestration.web.components.result_views import show_sections
from rag_assay.orchestration.web.languages import Language, Words, app_texts, language_here
from rag_assay.orchestration.web.page_context import PageContext
from rag_assay.orchestration.web.study_results import choose_metric, matrix_of

SHEETS = ("results",)
ROWS = 12  # of the chart

TEXTS = app_texts("verdict")


def render(context: PageContext) -> None:
    words = context.words(TEXTS)
    matrix = matrix_of(context)
    if matrix is None:
        return
    data = matrix.data
    decision, *reasons = _sentences(data)
    st.header(label(decision, 500), anchor=False)
    if data.part:
        st.warning(label(data.part, 400), icon=":material/content_cut:")
    st.markdown("\n".join(f"- {label(one, 600)}" for one in reasons))
    _buttons(context, data, words)
    if data.notes:
        with st.expander(words("notes", n=len(data.notes)), icon=":material/warning:"):
            st.markdown("\n".join(f"- {label(one, 600)}" for one in data.notes))
    metric = choose_metric(context, data)
    show_sections("verdict_sections", _html(data, metric, words, context.language), "two")


def _sentences(data: ReportData) -> tuple[str, ...]:
    found = data.verdict
    if language_here() == "en" or not found.sentences:
        return found.sentences
    judged = next((by for by in JUDGES if VERDICT_TEXTS[f"judged_by_{by}"][0] in found.sentences), None)
    by = metric_title(found.by, "de") if found.by else None
    found = replace(found, title=metric_title(found.title, "de"), by=by)
    return verdict_sentences(found, labels_of(data.leaderboard.to_dicts()), judged=judged, german=True)


def _buttons(context: PageContext, data: ReportData, words: Words) -> None:
    picks = [one.cell for one in (data.verdict.recommended, data.verdict.leader) if one]
    pair = list(dict.fromkeys([*picks, *data.verdict.tied, *data.verdict.worse]))[:2]
    with st.container(key="next", horizontal=True, gap="small", vertical_alignment="center"):
        pipelines: Mapping[str, str] = dict(zip(("a", "b"), pair, strict=False))
        context.link("compare", words("compare"), icon=":material/compare_arrows:", **pipelines)
        context.link("questions", words("questions"), icon=":material/table_chart:")
        context.link("chat", words("try"), icon=":material/chat:")
        with st.popover(words("ship"), icon=":material/package_2:"):
            name = shlex.quote(context.reference)
            for text, command in (
                ("export", f"assay export {name} best/"),
                ("serve", "assay serve best/"),
                ("serve_here", f"assay serve {name} --port 8600"),
            ):
                st.caption(words(text))
                st.code(command, language="bash")


def _html(data: ReportData, metric: str, words: Words, language: Language) -> str:
    info = next(one for one in data.metrics if one.name == metric)
    chart = intervals_of(data, info, ROWS, language)
    blocks: list[Block] = [words("none")]
    if chart:
        blocks = [replace(chart, about=""), Details(words("reading"), [chart.about])]
    lines = PageTemplate("trust.html", {"trust": trust_lines(data, language), "linked": False})
    return render_sections(
        [
            PageSection("chart", chart.caption if chart else info.title, blocks),
            PageSection("trust", words("trust"), [lines]),
        ]
    )
