"""The page of `assay ratings annotate`. Streamlit runs it for each event; a browser tab has a session."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

import streamlit as st

import rag_assay.evals.study.registry  # noqa: F401 -- the rubrics that a queue may name
from rag_assay.evals.human.queue import Queue, read_queue
from rag_assay.orchestration.authentication import TooManyAttemptsError
from rag_assay.orchestration.web.annotation.annotation_session import AnnotationSession, Event
from rag_assay.orchestration.web.annotation.view import View, desk_view, gate_view, name_view, trouble_view
from rag_assay.orchestration.web.components.scoring_page import pressed, scoring_page
from rag_assay.orchestration.web.look import dress
from rag_assay.orchestration.web.sign_in import gate_of, page_home
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.human_scores import HumanScore, HumanScores, annotator_name


def name_or_none(typed: object) -> str | None:
    """Return the name of an annotator in the form in which it is kept; None for what is none.

    >>> name_or_none("  Ada   Lovelace "), name_or_none(" "), name_or_none(None)
    ('Ada Lovelace', None, None)
    """
    try:
        return annotator_name(typed) if isinstance(typed, str) else None
    except InputError:
        return None


def known_names(rows: Iterable[HumanScore]) -> list[str]:
    """Return who has scored a queue, in the order of the alphabet; a foreign sheet's annotators did not."""
    names = {row.annotator for row in rows if row.queue_version is not None}
    return sorted(name for name in names if name_or_none(name) == name)


NAME = "annotator"
"""What the annotator is called in the address, so that a reload keeps the name."""


@dataclass
class AnnotationTab:
    """What is known of one tab of a browser.

    queue: the one that counted when somebody sat down
    is_in: whether the right password was given
    ticket: what is to be kept in place of the password, until it was sent
    note: what was wrong with what was entered
    """

    queue: Queue | None = None
    desk: AnnotationSession | None = None
    is_in: bool = False
    ticket: str | None = None
    note: str = ""


def page() -> None:
    dress("Human ratings")
    session = _session()
    try:
        view = _view(session)
    except AssayError as error:
        view = trouble_view(str(error))
    scoring_page({**view, "ticket": session.ticket}, _on_event)
    session.ticket, session.note = None, ""


def _session() -> AnnotationTab:
    session: AnnotationTab = st.session_state.setdefault(
        "session", AnnotationTab(is_in=gate_of("annotate").is_open)
    )
    return session


def _queue(session: AnnotationTab) -> Queue:
    study = sys.argv[1]
    session.queue = session.queue or read_queue(page_home(), study)
    if session.queue is None:
        raise AssayError(f"The study {study} has no queue. Start `assay ratings annotate {study}` again.")
    return session.queue


def _desk(session: AnnotationTab) -> AnnotationSession | None:
    name = name_or_none(st.query_params.get(NAME))
    if session.desk is None and name is not None:
        session.desk = AnnotationSession(_queue(session), name, HumanScores(page_home()))
    return session.desk


def _view(session: AnnotationTab) -> View:
    if not session.is_in:
        return gate_view(session.note)
    desk = _desk(session)
    if desk is not None:
        return desk_view(desk)
    queue = _queue(session)
    rows = (HumanScore(**row) for row in HumanScores(page_home()).rows(queue.study))
    return name_view(queue, known_names(rows), session.note)


def _on_event() -> None:
    session, event = _session(), pressed()
    if event is None:
        return
    kind = event.get("kind")
    if kind in {"unlock", "resume"}:
        _let_in(session, event)
    elif not session.is_in:
        return
    elif kind == "name":
        _take_name(session, event.get("name"))
    elif kind == "leave":
        session.desk = session.queue = None
        st.query_params.pop(NAME, None)
    elif session.desk is not None:
        session.desk.take(event)
    elif (desk := _desk(session)) is not None:  # the server was restarted since the page was drawn
        desk.notice = "The server was started again. What was saved is kept; press that key once more."


def _let_in(session: AnnotationTab, event: Event) -> None:
    if event["kind"] == "resume":
        session.is_in = session.is_in or gate_of("annotate").knows(str(event.get("ticket")))
        return
    try:
        session.ticket = gate_of("annotate").enter(str(event.get("password")), st.context.ip_address)
    except TooManyAttemptsError as error:
        session.note = str(error)
        return
    session.is_in = session.is_in or session.ticket is not None
    session.note = "" if session.is_in else "That is not the password."


def _take_name(session: AnnotationTab, typed: object) -> None:
    try:
        st.query_params[NAME] = annotator_name(str(typed))
    except InputError as error:
        session.note = f"{error}."[0].upper() + f"{error}."[1:]
