"""What a page shows in place of a study that is not there."""

from __future__ import annotations

import streamlit as st

from rag_assay.orchestration.web.chat.answer_html import label
from rag_assay.orchestration.web.languages import app_texts
from rag_assay.orchestration.web.page_context import STUDY, PageContext

NO_STUDY = app_texts("no_study")


def show_no_study(context: PageContext) -> None:
    words, wanted = context.words(NO_STUDY), context.get(STUDY)
    with st.container(key="trouble"):
        st.info(words("unknown_study", name=label(wanted)) if wanted else words("no_study"))
