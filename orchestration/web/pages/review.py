"""The page Review: people rate answers, blind to the pipelines that gave them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import inf

import streamlit as st

import rag_assay.evals.study.registry  # noqa: F401 -- the rubrics that a queue may name
from rag_assay.evals.human.queue import Queue, read_queue
from rag_assay.orchestration.web.address_state import switch
from rag_assay.orchestration.web.annotation.annotation_session import (
    AnnotationSession,
    View,
    desk_view,
    name_view,
    trouble_view,
)
from rag_assay.orchestration.web.components.component import pressed, scoring_page
from rag_assay.orchestration.web.languages import app_texts, table_in
from rag_assay.orchestration.web.page_context import PERSON, PageContext, person_of
from rag_assay.orchestration.web.sign_in import page_home
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.failure_tags import FailureTags
from rag_assay.warehouse.human_scores import HumanScore, HumanScores, annotator_name

SHEETS = ("board",)
VIEWS = ("rate", "users", "tags", "agreement")
SCORING = app_texts("annotation")
TEXTS = app_texts("review")
_PREPARING = threading.Lock()


def known_names(rows: Iterable[HumanScore]) -> list[str]:
    """Return who has scored a queue, in the order of the alphabet; a foreign sheet's annotators did not."""
    names = {row.annotator for row in rows if row.queue_version is not None}
    return sorted(name for name in names if person_of(name) == name)


@dataclass
class AnnotationTab:
    """What is known of one tab of a browser; note: what was wrong with what was entered."""

    study: str
    queue: Queue | None = None
    desk: AnnotationSession | None = None
    note: str = ""


def render(context: PageContext) -> None:
    view = switch(context, "view", "", VIEWS, context.words(TEXTS), VIEWS[0])
    if view == "rate":
        _rate(context)
        return
    from rag_assay.orchestration.web.annotation import review_views

    show = {"users": review_views.show_user_questions, "tags": review_views.show_tag_counts}
    show.get(view, review_views.show_agreement)(context)


def _rate(context: PageContext) -> None:
    tab = _tab(context)
    try:
        view = _view(context, tab)
    except AssayError as error:
        view = trouble_view(str(error), context.words(SCORING))
    scoring_page(view, table_in(SCORING, context.language), lambda: _on_event(context))
    tab.note = ""


def _tab(context: PageContext) -> AnnotationTab:
    tab: AnnotationTab | None = st.session_state.get("annotation")
    if tab is None or tab.study != context.study or (tab.desk and tab.desk.annotator != context.person):
        tab = st.session_state["annotation"] = AnnotationTab(context.study)
    return tab


def _queue(context: PageContext, tab: AnnotationTab) -> Queue:
    if tab.queue is None:
        stamp = ArtifactStore(context.workspace).pointed_at("leaderboard", context.study)
        with st.spinner(context.words(TEXTS)("preparing")), _PREPARING:  # of several tabs, one makes it
            tab.queue = _prepared(context.study, context.reference, stamp)
    return tab.queue


@lru_cache(maxsize=8)
def _prepared(name: str, reference: str, stamp: float | None) -> Queue:
    """Without the study's file, the last queue; stamp: when its answers were last ranked."""
    from rag_assay.evals.human.queue_builder import prepare_queue
    from rag_assay.evals.study.run_studies import find_known
    from rag_assay.evals.successive_halving.records import narrow_study

    home = page_home()
    kept = read_queue(home, name)
    try:
        study = narrow_study(find_known(reference, home), home)
    except InputError:
        if kept is not None:
            return kept
        raise
    changed = max(stamp or inf, study.path.stat().st_mtime)
    return kept if kept is not None and kept.made_at.timestamp() > changed else prepare_queue(study, home)


def _desk(context: PageContext, tab: AnnotationTab) -> AnnotationSession | None:
    if tab.desk is None and context.person:
        home = context.workspace
        tags = FailureTags(home, context.study)
        tab.desk = AnnotationSession(_queue(context, tab), context.person, HumanScores(home), tags)
    if tab.desk is not None:
        tab.desk.words = context.words(SCORING)
    return tab.desk


def _view(context: PageContext, tab: AnnotationTab) -> View:
    desk = _desk(context, tab)
    if desk is not None:
        return desk_view(desk)
    queue = _queue(context, tab)
    rows = (HumanScore(**row) for row in HumanScores(context.workspace).rows(queue.study))
    return name_view(queue, known_names(rows), tab.note)


def _on_event(context: PageContext) -> None:
    tab, event = _tab(context), pressed()
    if event is None:
        return
    kind = event.get("kind")
    if kind == "name":
        _take_name(context, tab, event.get("name"))
    elif kind == "leave":
        tab.desk = tab.queue = None
        context.set(**{PERSON: None})
    elif tab.desk is not None:
        tab.desk.take(event)
    elif (desk := _desk(context, tab)) is not None:  # the server was restarted since the page was drawn
        desk.notice = desk.words("restarted")


def _take_name(context: PageContext, tab: AnnotationTab, typed: object) -> None:
    try:
        context.set(**{PERSON: annotator_name(str(typed))})
    except InputError as error:
        tab.note = f"{error}."[0].upper() + f"{error}."[1:]
