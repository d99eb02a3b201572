"""The app of `assay ui`: one Streamlit application, its pages and the frame around them.

A page is a module in `pages/` with `render(context: PageContext) -> None`. The frame sets the title and the
style sheets, asks for the password, and shows the navigation.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import streamlit as st

from rag_assay.orchestration.web.address_state import action_button
from rag_assay.orchestration.web.chat.answer_html import label
from rag_assay.orchestration.web.languages import (
    LANGUAGES,
    PARAMETER,
    Language,
    app_texts,
    language_here,
    words_in,
)
from rag_assay.orchestration.web.no_study import show_no_study
from rag_assay.orchestration.web.page_context import (
    PAGES,
    PERSON,
    STUDY,
    PageContext,
    options_here,
    person_of,
)
from rag_assay.orchestration.web.sign_in import let_in, page_home
from rag_assay.warehouse.artifacts import ArtifactStore

if TYPE_CHECKING:
    from streamlit.navigation.page import StreamlitPage

    from rag_assay.warehouse.paths import Home

TEXTS = app_texts("frame")


def main() -> None:
    language = language_here()
    words = words_in(TEXTS, language)
    pages: dict[str, StreamlitPage] = {}
    for name in PAGES:
        pages[name] = st.Page(partial(_show, name, pages, language), title=words(name), url_path=name)
    # The default page has no path of its own: `/` leads to the first one.
    start = st.Page(partial(_open_first, pages), title=words(PAGES[0]), default=True)
    st.navigation([start, *pages.values()], position="hidden").run()


def _open_first(pages: dict[str, StreamlitPage]) -> None:
    st.switch_page(pages[PAGES[0]], query_params=st.query_params.to_dict())


def _show(name: str, pages: dict[str, StreamlitPage], language: Language) -> None:
    words = words_in(TEXTS, language)
    st.set_page_config(page_title=words(name), layout="wide", menu_items={})
    _add_styles("look", "frame")
    if not let_in(language):
        return
    context = _context(name, pages, language)
    _masthead(context)
    if not context.study and name != "monitor":
        show_no_study(context)
        return
    with st.spinner(words("loading")):  # the frame is there before the modules of the first page
        module = page_module(name)
    _add_styles(*getattr(module, "SHEETS", ()))
    module.render(context)


@cache
def page_module(name: str) -> ModuleType:
    return import_module(f"rag_assay.orchestration.web.pages.{name}")


def load() -> None:
    for name in PAGES:
        with suppress(Exception):  # it fails again where it is shown
            page_module(name)


def _add_styles(*sheets: str) -> None:
    if sheets:
        st.html(f"<style>{''.join(map(_style, sheets))}</style>")


@cache
def _style(sheet: str) -> str:
    return (Path(__file__).parent / f"{sheet}.css").read_text(encoding="utf-8")


def _context(page: str, pages: dict[str, StreamlitPage], language: Language) -> PageContext:
    home, options = page_home(), options_here()
    studies = studies_in(home)
    if options.study and options.study not in studies:  # it was not run here: its file is known
        studies = (options.study, *studies)
    wanted = st.query_params.get(STUDY) or options.study or (studies[0] if studies else "")
    study = wanted if wanted in studies else ""
    person = person_of(st.query_params.get(PERSON))
    return PageContext(home, study, studies, language, person, options, page, pages)


def studies_in(home: Home) -> tuple[str, ...]:
    store = ArtifactStore(home)
    whole = [name for name in store.keys("leaderboard") if "@" not in name]
    return tuple(sorted(whole, key=lambda name: (-(store.pointed_at("leaderboard", name) or 0.0), name)))


def _masthead(context: PageContext) -> None:
    words = context.words(TEXTS)
    with st.container(key="frame"), st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if len(context.studies) > 1:
            st.selectbox(
                words("study"),
                context.studies,
                context.studies.index(context.study) if context.study else None,
                key="frame_study",
                label_visibility="collapsed",
                width=190,
                on_change=_take_study,
                args=(context,),
            )
        elif context.study:
            st.html(f'<p class="as-study">{label(context.study)}</p>', width="content")
        with st.container(key="pages", horizontal=True, gap="small", vertical_alignment="center"):
            for name in PAGES:
                with st.container(key="here", width="content") if name == context.page else nullcontext():
                    context.link(name, words(name))
        other: Language = "de" if context.language == "en" else "en"
        action_button(
            LANGUAGES[other], "language", lambda: context.set(**{PARAMETER: other}), type="tertiary"
        )


def _take_study(context: PageContext) -> None:
    st.query_params.from_dict(context.address(**{STUDY: st.session_state["frame_study"]}))
