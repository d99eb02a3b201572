"""Review of what users asked: answers with a thumb down become questions of the study, and are measured."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from functools import lru_cache
from html import escape
from math import inf
from typing import Any

import streamlit as st
from pydantic import ValidationError

from rag_assay.evals.question_generation.chat_review import ChatReview
from rag_assay.evals.question_generation.review import ReviewedQuestion, ReviewFile
from rag_assay.evals.question_sets.question_files import EvidenceQuote
from rag_assay.evals.study.run_studies import find_known
from rag_assay.orchestration.runs.current_run import run_now
from rag_assay.orchestration.web.chat.answer_html import label, text_html
from rag_assay.orchestration.web.languages import Words, app_texts
from rag_assay.orchestration.web.page_context import PageContext
from rag_assay.orchestration.web.sign_in import page_home
from rag_assay.orchestration.web.study_results import stamp_of
from rag_assay.warehouse.conversations import Conversations
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.validation_errors import in_words

TEXTS = app_texts("user_questions")
_NOTICE, _STARTED = "users_notice", "users_started"
_STARTING = threading.Lock()
_LONGEST = 2_000
_TO_LOCK = 30.0  # seconds that a run may take until it has the lock of the workspace


@lru_cache(maxsize=8)
def _review(reference: str, _stamp: object) -> ChatReview:
    home = page_home()
    return ChatReview(find_known(reference, home), home)


@lru_cache(maxsize=8)
def _file(review: ChatReview, _stamp: object) -> ReviewFile:
    return review.file()


def _stamp(review: ChatReview, study: str) -> tuple[object, ...]:
    chats = sorted(
        (name, one) for (of, name), one in Conversations(review.home).stamps().items() if of == study
    )
    files = [one.stat().st_mtime_ns for one in (review.path, review.study.path) if one.exists()]
    return (*chats, *files)


def show_user_questions(context: PageContext) -> None:
    words = context.words(TEXTS)
    st.caption(words("users_about"))
    if (said := st.session_state.pop(_NOTICE, None)) is not None:
        kind, text = said
        (st.success if kind == "success" else st.error)(label(text, 1_000))
    try:
        review = _review(context.reference, stamp_of(context))
        with st.spinner("…"):
            file = _file(review, _stamp(review, context.study))
    except AssayError as error:
        st.error(label(words("not_done", why=error), 1_000))
        return
    waiting = [one for one in file.questions if one.review == "open" and one.asked and one.asked.down]
    if not waiting:
        st.info(words("none_open"), icon=":material/inbox:")
    else:
        st.html(f'<p class="as-kicker">{escape(words("waiting", n=len(waiting)))}</p>')
    for one in waiting:
        _one(review, file, one, words)
    _next(context, review, file, words)


def _one(review: ChatReview, file: ReviewFile, one: ReviewedQuestion, words: Words) -> None:
    with st.container(border=True, key=f"user-{one.id}"):
        told = one.asked
        if told:
            st.html(f'<p class="as-note">{escape(words("asked", n=told.times, down=told.down))}</p>')
            for comment in told.comments:
                st.html(f'<blockquote class="as-comment" dir="auto">{text_html(comment)}</blockquote>')
        with st.form(f"decide-{one.id}", border=False):
            st.text_area(
                words("question"), one.question, key=f"question-{one.id}", max_chars=_LONGEST, height=68
            )
            st.text_area(
                words("truth"), one.ground_truth or "", key=f"truth-{one.id}", max_chars=_LONGEST, height=68
            )
            pages = list(dict.fromkeys(passage.url for passage in one.passages))
            if pages:
                st.selectbox(words("page"), pages, key=f"page-{one.id}")
                st.text_area(words("quote"), key=f"quote-{one.id}", max_chars=_LONGEST, height=68)
            st.checkbox(words("unanswerable"), not one.answerable, key=f"cannot-{one.id}")
            with st.container(horizontal=True, gap="small"):
                for decision, kind in (("accept", "primary"), ("drop", "secondary")):
                    st.form_submit_button(
                        words(decision),
                        type=kind,
                        key=f"{decision}-{one.id}",
                        on_click=_decide,
                        args=(review, file, one, decision, words),
                    )
        if one.passages:
            shown = "".join(
                f'<p class="as-note">{escape(passage.url)}</p><div class="as-text" dir="auto">'
                f"{text_html(passage.text)}</div>"
                for passage in one.passages
            )
            st.html(
                f'<details class="as-more"><summary>{escape(words("passages"))}</summary>{shown}</details>'
            )


def _decide(review: ChatReview, file: ReviewFile, one: ReviewedQuestion, decision: str, words: Words) -> None:
    try:
        review.decide(file, _decided(one, decision))
    except ValidationError as error:
        st.session_state[_NOTICE] = (
            "error",
            words("not_done", why=in_words(error, ReviewedQuestion)[0].text),
        )
    except (AssayError, OSError) as error:
        st.session_state[_NOTICE] = ("error", words("not_done", why=error))


def _decided(one: ReviewedQuestion, decision: str) -> ReviewedQuestion:
    written = one.model_dump()
    if decision == "drop":
        return ReviewedQuestion.model_validate({**written, "review": "drop"})
    state = st.session_state
    typed = {
        name: str(state.get(f"{name}-{one.id}") or "").strip() for name in ("question", "truth", "quote")
    }
    answerable = not state.get(f"cannot-{one.id}")
    evidence = [found.model_dump() for found in one.evidence] if answerable else []
    if typed["quote"] and answerable:
        page = EvidenceQuote(url=state.get(f"page-{one.id}"), quote=typed["quote"])
        evidence.append(page.model_dump())
    new: dict[str, Any] = {
        "question": typed["question"],
        "ground_truth": typed["truth"] or None,
        "answerable": answerable,
        "evidence": evidence,
    }
    is_same = (
        all(written[name] == value for name, value in new.items() if name != "evidence")
        and not typed["quote"]
    )
    return ReviewedQuestion.model_validate({**written, **new, "review": "accept" if is_same else "mend"})


def _next(context: PageContext, review: ChatReview, file: ReviewFile, words: Words) -> None:
    accepted = [one for one in file.questions if one.review in {"accept", "mend"}]
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="users_next"):
        if accepted:
            st.html(f"<p>{escape(words('accepted', n=len(accepted)))}</p>", width="content")
            st.button(
                words("add"), key="users_add", type="primary", on_click=_add, args=(context, review, words)
            )
        if review.questions.exists():
            # A run that was just started has not taken its lock yet.
            since = time.monotonic() - st.session_state.get(_STARTED, -inf)
            if run_now(context.workspace) is None and since > _TO_LOCK:
                st.button(
                    words("run"), key="users_run", on_click=_run, args=(review, context.workspace, words)
                )
            else:
                context.link("monitor", words("follow"), icon=":material/monitoring:")
            context.link("monitor", words("changes"), icon=":material/difference:", view="changes")


def _add(context: PageContext, review: ChatReview, words: Words) -> None:
    try:
        n = review.add_to_study()
    except (AssayError, OSError) as error:
        st.session_state[_NOTICE] = ("error", words("not_done", why=error))
    else:
        st.session_state.pop(_STARTED, None)
        st.session_state[_NOTICE] = ("success", words("added", n=n, study=context.study))


def _run(review: ChatReview, home: Home, words: Words) -> None:
    with _STARTING:
        if run_now(home) is not None:
            return
        command = [
            sys.executable,
            "-m",
            "rag_assay.orchestration.start",
            "run",
            str(review.study.path.resolve()),
        ]
        with (home.root / "ui-run.log").open("ab") as log:
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    st.session_state[_STARTED] = time.monotonic()
    st.session_state[_NOTICE] = ("success", words("started"))
