"""The views of the page Review beside rating: what users asked, failure tags, and agreement."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from html import escape
from math import inf
from typing import Any

import polars as pl
import streamlit as st
from pydantic import ValidationError

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.pipeline.cell_items import current_items
from rag_assay.evals.question_generation.from_conversations import ChatReview
from rag_assay.evals.question_generation.review import ReviewedQuestion, ReviewFile
from rag_assay.evals.question_sets.question_files import EvidenceQuote
from rag_assay.evals.reporting.human_ratings import people_section
from rag_assay.evals.reporting.judge_cards import judges_section
from rag_assay.evals.reporting.page import render_sections
from rag_assay.evals.reporting.texts import metric_title
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.run_studies import find_known
from rag_assay.evals.successive_halving.records import narrow_study
from rag_assay.orchestration.runs.current_run import run_now
from rag_assay.orchestration.web.address_state import action_button
from rag_assay.orchestration.web.board import or_trouble, table
from rag_assay.orchestration.web.chat.answer_html import label, text_html
from rag_assay.orchestration.web.chat.catalogue import verdict_rows
from rag_assay.orchestration.web.components.result_views import show_sections
from rag_assay.orchestration.web.languages import Words, app_texts
from rag_assay.orchestration.web.page_context import PageContext
from rag_assay.orchestration.web.sign_in import page_home
from rag_assay.orchestration.web.study_results import report_of, stamp_of
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.conversations import Conversations
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.failure_tags import FailureTag, FailureTags, tags_by_use
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
            box = partial(st.text_area, max_chars=_LONGEST, height=68)
            box(words("question"), one.question, key=f"question-{one.id}")
            box(words("truth"), one.ground_truth or "", key=f"truth-{one.id}")
            pages = list(dict.fromkeys(passage.url for passage in one.passages))
            if pages:
                st.selectbox(words("page"), pages, key=f"page-{one.id}")
                box(words("quote"), key=f"quote-{one.id}")
            st.checkbox(words("unanswerable"), not one.answerable, key=f"cannot-{one.id}")
            with st.container(horizontal=True, gap="small"):
                for decision, kind in (("accept", "primary"), ("drop", "secondary")):
                    act = partial(_decide, review, file, one, decision, words)
                    st.form_submit_button(
                        words(decision), type=kind, key=f"{decision}-{one.id}", on_click=act
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
    except (ValidationError, AssayError, OSError) as error:
        why = in_words(error, ReviewedQuestion)[0].text if isinstance(error, ValidationError) else error
        st.session_state[_NOTICE] = ("error", words("not_done", why=why))


def _decided(one: ReviewedQuestion, decision: str) -> ReviewedQuestion:
    written = one.model_dump()
    if decision == "drop":
        return ReviewedQuestion.model_validate({**written, "review": "drop"})
    state = st.session_state
    names = ("question", "truth", "quote")
    typed = {name: str(state.get(f"{name}-{one.id}") or "").strip() for name in names}
    answerable = not state.get(f"cannot-{one.id}")
    evidence = [found.model_dump() for found in one.evidence] if answerable else []
    if typed["quote"] and answerable:
        page = EvidenceQuote(url=state.get(f"page-{one.id}"), quote=typed["quote"])
        evidence.append(page.model_dump())
    new: dict[str, Any] = {"question": typed["question"], "ground_truth": typed["truth"] or None}
    new["answerable"] = answerable
    is_same = not typed["quote"] and all(written[name] == value for name, value in new.items())
    review = "accept" if is_same else "mend"
    return ReviewedQuestion.model_validate({**written, **new, "evidence": evidence, "review": review})


def _next(context: PageContext, review: ChatReview, file: ReviewFile, words: Words) -> None:
    accepted = [one for one in file.questions if one.review in {"accept", "mend"}]
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="users_next"):
        if accepted:
            st.html(f"<p>{escape(words('accepted', n=len(accepted)))}</p>", width="content")
            action_button(words("add"), "users_add", _add, context, review, words, type="primary")
        if review.questions.exists():
            # A run that was just started has not taken its lock yet.
            since = time.monotonic() - st.session_state.get(_STARTED, -inf)
            if run_now(context.workspace) is None and since > _TO_LOCK:
                action_button(words("run"), "users_run", _run, review, context.workspace, words)
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
        program = [sys.executable, "-m", "rag_assay.orchestration.start"]
        command = [*program, "run", str(review.study.path.resolve())]
        with (home.root / "ui-run.log").open("ab") as log:
            nothing, both = subprocess.DEVNULL, subprocess.STDOUT
            subprocess.Popen(command, stdin=nothing, stdout=log, stderr=both, start_new_session=True)
    st.session_state[_STARTED] = time.monotonic()
    st.session_state[_NOTICE] = ("success", words("started"))


AGREEMENT = app_texts("agreement")


def show_agreement(context: PageContext) -> None:
    data = report_of(context)
    if data is None:
        return
    found = [replace(one, folded=False) for one in (people_section(data), judges_section(data, ())) if one]
    if found:
        show_sections("agreement", render_sections(found), lang="en")
    else:
        st.info(context.words(AGREEMENT)("none"))


TAG_TEXTS = app_texts("tag_counts")


@dataclass(frozen=True)
class Measured:
    """The pipelines of a study: ids of answers by cell in leaderboard order, and means."""

    items: Mapping[str, frozenset[str]]
    values: Mapping[str, float | None]
    title: str


@lru_cache(maxsize=8)
def _measured(reference: str, _stamp: float | None) -> Measured:
    home = page_home()
    study = narrow_study(find_known(reference, home), home)
    rows = verdict_rows(study, home)
    with closing(BuildContext(home)) as work:
        found: dict[str, set[str]] = {}  # replicates of a cell together, as the leaderboard has them
        for cell, items in current_items(Grid([study]), study, work):
            found.setdefault(cell.name, set()).update(item.item_id for item in items.items.values())
    metric = next((row["metric"] for row in rows.values()), study.metrics[0])
    ranks = {key: (rows.get(key) or {}).get("rank") for key in found}
    ordered = sorted(found, key=lambda key: (ranks[key] is None, ranks[key] or 0))
    values = {key: (rows.get(key) or {}).get("value") for key in found}
    return Measured({key: frozenset(found[key]) for key in ordered}, values, study.metric(metric).title)


def show_tag_counts(context: PageContext) -> None:
    words = context.words(TAG_TEXTS)
    st.caption(words("tags_about"))
    tags = FailureTags(context.workspace, context.study).current()
    if not tags:
        st.info(words("no_tags"), icon=":material/label:")
        return
    with st.container(key="board"):
        column = {
            name: words(f"column_{name}") for name in ("tag", "answers", "annotators", "pipeline", "tagged")
        }

        def title(name: str) -> str:
            return column.get(name) or metric_title(name, context.language)

        table("failure-tags", words("by_tag"), count_tags(tags), title, folded=False)
        stamp = ArtifactStore(context.workspace).pointed_at("leaderboard", context.study)
        measured = or_trouble(lambda: _measured(context.reference, stamp))
        if measured is not None:
            rows = count_by_cell(tags, measured)
            table("failure-tags-pipelines", words("by_pipeline"), rows, title, folded=False)


def count_tags(tags: Sequence[FailureTag]) -> pl.DataFrame:
    rows = [
        (
            tag,
            len({one.item_id for one in tags if one.tag == tag}),
            len({one.annotator for one in tags if one.tag == tag}),
        )
        for tag in tags_by_use(tags)
    ]
    return pl.DataFrame(rows, ["tag", "answers", "annotators"], orient="row")


def count_by_cell(tags: Sequence[FailureTag], measured: Measured) -> pl.DataFrame:
    names = tags_by_use(tags)
    given = {(one.item_id, one.tag) for one in tags}
    rows: list[dict[str, Any]] = []
    for cell, items in measured.items.items():
        mine = [(item, tag) for item, tag in given if item in items]
        counts = Counter(tag for _, tag in mine)
        tagged = len({item for item, _ in mine})
        row = {"pipeline": cell.partition(".")[2], measured.title: measured.values[cell], "tagged": tagged}
        rows.append({**row, **{f"“{name}”": counts[name] for name in names}})
    return pl.DataFrame(rows, infer_schema_length=None)
