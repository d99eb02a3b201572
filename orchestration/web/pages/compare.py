"""The page Compare: two pipelines on the same questions, what each axis does, and what quality costs."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from urllib.parse import urlencode

import streamlit as st

from rag_assay.evals.reporting.contexts import contexts, costs_section
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.effects import effects
from rag_assay.evals.reporting.figures.heat import effects_section
from rag_assay.evals.reporting.figures.planes import contexts_section
from rag_assay.evals.reporting.page import render_sections
from rag_assay.evals.reporting.pair_comparison import compare_pair, pair_section
from rag_assay.evals.reporting.question_matrix import QuestionMatrix
from rag_assay.evals.reporting.standings import cell_labels
from rag_assay.evals.reporting.trust import reasons_missing
from rag_assay.evals.reporting.view import fronts_of
from rag_assay.orchestration.web.address_state import choose_one, switch
from rag_assay.orchestration.web.components.result_views import show_sections
from rag_assay.orchestration.web.languages import Language, Words, app_texts
from rag_assay.orchestration.web.page_context import PageContext
from rag_assay.orchestration.web.study_results import choose_metric, matrix_of, read_or_tell, report_of

SHEETS = ("results",)
ROWS = 24  # questions that are listed
LONGEST = 90  # characters of a pipeline's name in a list
KEY = "compared"

TEXTS = app_texts("compare")
VIEWS = ("pair", "axes", "costs")


def render(context: PageContext) -> None:
    words = context.words(TEXTS)
    st.subheader(words("title"), anchor=False)
    view = switch(context, "view", words("view"), VIEWS, words, "pair")
    html = _pair(context, words) if view == "pair" else _sections(context, view, words)
    followed = show_sections(KEY, html) if html else None
    if followed:
        context.go("questions", **followed)


def _pair(context: PageContext, words: Words) -> str | None:
    matrix = matrix_of(context)
    if matrix is None:
        return None
    labels = matrix.labels
    if len(labels) < 2:
        st.info(words("few"))
        return None
    keys = list(labels)
    with st.container(horizontal=True, key="two", vertical_alignment="bottom"):
        first = choose_one(context, "a", words("first"), keys, lambda one: labels[one][:LONGEST], 420)
        others = [one for one in keys if one != first]  # the next best one at first
        second = choose_one(context, "b", words("second"), others, lambda one: labels[one][:LONGEST], 420)
        if context.get("b") != second:
            context.set(b=second)  # named, it stays when the first pipeline is another one
    metric = choose_metric(context, matrix.data, every=True)
    return read_or_tell(lambda: _pair_html(matrix, metric, (first, second), context.language))


def _pair_html(matrix: QuestionMatrix, metric: str, pair: tuple[str, str], language: Language) -> str:
    asked = dict(matrix.questions.select("question_id", "question").iter_rows())
    values = matrix.values(metric, pair)
    found = compare_pair(matrix.data, matrix.metrics[metric], pair, values, list(asked))
    links = {
        one: "?" + urlencode({"question": one, "show": pair[0], "beside": pair[1], "metric": metric})
        for one in asked
    }
    names = (matrix.labels[pair[0]], matrix.labels[pair[1]])
    return render_sections([pair_section(found, names, asked, links, ROWS, language)])


def _sections(context: PageContext, view: str, words: Words) -> str | None:
    data = report_of(context)
    if data is None:
        return None
    html = (_axes_html if view == "axes" else _costs_html)(data, context.language)
    if not html:
        st.info(words("nothing"))
    return html


@lru_cache(maxsize=4)
def _axes_html(data: ReportData, language: Language) -> str:
    found = effects_section(effects(data), language)
    return render_sections([replace(found, folded=False)]) if found else ""


@lru_cache(maxsize=4)
def _costs_html(data: ReportData, language: Language) -> str:
    labels = cell_labels(data)
    at_length = contexts(data)
    found = [
        contexts_section(at_length, fronts_of(data, at_length), language),
        costs_section(data, labels, reasons_missing(data), language),
    ]
    return render_sections([replace(one, folded=False) for one in found if one])
