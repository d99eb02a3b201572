"""How well annotators agree, and how judges agree with them: the report's sections, as of the last run."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import streamlit as st

from rag_assay.evals.reporting.human_ratings.section import people_section
from rag_assay.evals.reporting.judge_cards import judges_section
from rag_assay.evals.reporting.page import render_sections
from rag_assay.evals.reporting.rows import report_data
from rag_assay.evals.study.run_studies import find_known
from rag_assay.evals.successive_halving.records import narrow_study
from rag_assay.orchestration.web.board import looking, or_trouble
from rag_assay.orchestration.web.components.result_views import show_sections
from rag_assay.orchestration.web.languages import Texts
from rag_assay.orchestration.web.page_context import PageContext
from rag_assay.orchestration.web.sign_in import page_home
from rag_assay.warehouse.artifacts import ArtifactStore

TEXTS: Texts = {
    "none": (
        "The study has no rubrics and no judges, so there is nothing to agree on.",
        "Die Studie hat kein Bewertungsschema und keine Judges.",
    ),
}


def show_agreement(context: PageContext) -> None:
    words = context.words(TEXTS)
    stamp = ArtifactStore(context.workspace).pointed_at("leaderboard", context.study)
    with looking():
        html = or_trouble(lambda: _html(context.reference, stamp))
    if html:
        show_sections("agreement", html)
    elif html is not None:
        st.info(words("none"))


@lru_cache(maxsize=8)
def _html(reference: str, _stamp: float | None) -> str:
    """Return the sections as HTML; empty where the study has neither ratings nor judges."""
    home = page_home()
    data = report_data(narrow_study(find_known(reference, home), home), home, with_hits=False)
    found = [one for one in (people_section(data), judges_section(data, ())) if one is not None]
    return render_sections([replace(one, folded=False) for one in found]) if found else ""
