"""How well annotators agree, and how judges agree with them: the report's sections, as of the last run."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from rag_assay.evals.reporting.human_ratings import people_section
from rag_assay.evals.reporting.judge_cards import judges_section
from rag_assay.evals.reporting.page import render_sections
from rag_assay.orchestration.web.components.result_views import show_sections
from rag_assay.orchestration.web.languages import app_texts
from rag_assay.orchestration.web.page_context import PageContext
from rag_assay.orchestration.web.study_results import report_of

TEXTS = app_texts("agreement")


def show_agreement(context: PageContext) -> None:
    data = report_of(context)
    if data is None:
        return
    found = [replace(one, folded=False) for one in (people_section(data), judges_section(data, ())) if one]
    if found:
        show_sections("agreement", render_sections(found), lang="en")
    else:
        st.info(context.words(TEXTS)("none"))
