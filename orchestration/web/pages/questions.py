"""The page Questions: questions by pipelines, and the journey of a question through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from rag_assay.evals.reporting.question_matrix import (
    FOUND,
    LOST_WORDS,
    MatrixFilter,
    MatrixRow,
    QuestionMatrix,
)
from rag_assay.evals.reporting.texts import metric_title, read_yaml
from rag_assay.orchestration.web.address_state import choose_many, choose_one, page_number, type_words
from rag_assay.orchestration.web.chat.answer_html import label
from rag_assay.orchestration.web.components.result_views import show_questions
from rag_assay.orchestration.web.languages import Words, app_texts
from rag_assay.orchestration.web.page_context import PageContext
from rag_assay.orchestration.web.study_results import matrix_of, read_or_tell
from rag_assay.warehouse.identity import digest

JOURNEY: Mapping[str, str] = read_yaml("texts.yaml", "rag_assay.orchestration.web")["journey"]


SHEETS = ("results", "questions")
PAGE = 50  # questions that are shown at once
FIRST = 5  # pipelines that are shown until others are chosen
LONGEST = 90  # characters of a pipeline's name in a list

TEXTS = app_texts("questions")
_DRAWN = ("where", "none", "previous", "next", "close", "pipeline", "beside", "alone", "open", "unknown")
KEY = "matrix"


def render(context: PageContext) -> None:
    words = context.words(TEXTS)
    matrix = matrix_of(context)
    if matrix is None:
        return
    st.subheader(words("title"), anchor=False)
    st.caption(label(words("about"), 400))
    wanted = _filter(context, matrix, words)
    view = read_or_tell(lambda: _view(context, matrix, wanted, words))
    if view is not None:
        show_questions(KEY, view, lambda: _open(context), lambda: _turn(context))


def _filter(context: PageContext, matrix: QuestionMatrix, words: Words) -> MatrixFilter:
    metrics, labels = matrix.metrics, matrix.labels

    def choice(name: str, options: Sequence[str], titles: Mapping[str, str] | None = None) -> str:
        title = {"": words("any"), **(titles or {})}
        return choose_one(context, name, words(name), ["", *options], lambda one: title.get(one, one))

    with st.container(horizontal=True, key="filters", vertical_alignment="bottom"):
        search = type_words(context, "search", words("search"))
        titles = {name: metric_title(one.title, context.language) for name, one in metrics.items()}
        metric = choose_one(context, "metric", words("metric"), [*titles], titles.__getitem__, 260)
        with st.popover(words("choose"), icon=":material/view_column:"):
            short = {name: label[:LONGEST] for name, label in labels.items()}
            title, first = short.__getitem__, [*short][:FIRST]
            pipelines = choose_many(context, "pipelines", words("pipelines"), [*short], title, first)
        with st.popover(words("filters"), icon=":material/filter_list:"):
            kind = choice("type", matrix.questions["kind"].unique().sort().to_list())
            sources = matrix.questions["sources"].explode().drop_nulls().unique().sort()
            source = choice("source", sources.to_list())
            said = _journey_words(context)
            lost = choice("lost", list(LOST_WORDS), {one: said.get(of, of) for one, of in LOST_WORDS.items()})
            orders = ["all", *(["regressions"] if len(pipelines) > 1 else []), "disputed"]
            order = choose_one(context, "order", words("order"), orders, words)
    return MatrixFilter(
        metric,
        tuple(pipelines),
        search,
        kind,
        source,
        lost,
        is_regression=order == "regressions",
        by_dispute=order == "disputed",
    )


def _journey_words(context: PageContext) -> Mapping[str, str]:
    return JOURNEY if context.language == "de" else {}


def _view(context: PageContext, matrix: QuestionMatrix, wanted: MatrixFilter, words: Words) -> dict[str, Any]:
    ids = matrix.matching(wanted)
    most = max(0, (len(ids) - 1) // PAGE)
    first = PAGE * min(page_number(context), most)
    rows = matrix.rows(wanted, ids[first : first + PAGE])
    metric = matrix.metrics[wanted.metric]
    table = {
        "metric": {"unit": metric.unit, "worst": metric.worst, "ideal": metric.ideal},
        "pipelines": [{"key": one, "label": matrix.labels[one]} for one in wanted.pipelines],
        "rows": [_row(one) for one in rows],
    }
    texts = {name: words(name) for name in _DRAWN}
    view = {
        "matrix": table,
        "first": first,
        "size": PAGE,
        "matching": len(ids),
        "total": matrix.questions.height,
        "words": texts,
        "journey": dict(_journey_words(context)),
        "place": digest([first, wanted.metric, *wanted.pipelines]),
    }
    return {**view, "serial": digest(view), "open": _opened(context, matrix, wanted)}


def _row(row: MatrixRow) -> dict[str, Any]:
    return {
        "id": row.question_id,
        "text": row.question,
        "language": row.language,
        "kind": row.type,
        "dispute": row.dispute.words if row.dispute else None,
        "cells": [
            {
                **{name: getattr(one, name) for name in ("value", "why", "answer", "status")},
                "lost": "" if one.lost == FOUND else LOST_WORDS.get(one.lost, one.lost),
            }
            for one in row.cells
        ],
    }


def _opened(context: PageContext, matrix: QuestionMatrix, wanted: MatrixFilter) -> dict[str, Any] | None:
    question = context.get("question")
    if not question:
        return None
    shown, beside = context.get("show"), context.get("beside")
    pipeline = shown if shown in matrix.labels else wanted.pipelines[0]
    other = beside if beside in matrix.labels and beside != pipeline else None
    is_known = question in matrix.questions["question_id"]
    pair = [pipeline, *([other] if other else [])]
    return {
        "question": question,
        "pipeline": pipeline,
        "beside": other,
        "choices": [[key, name] for key, name in matrix.labels.items()],
        "journey": matrix.journey(question, pair) if is_known else None,
    }


def _open(context: PageContext) -> None:
    asked = st.session_state[KEY].get("open")
    if not isinstance(asked, Mapping):
        return
    names = {"question": "question", "show": "pipeline", "beside": "beside"}
    found = {name: asked.get(of) for name, of in names.items()}
    context.set(
        **{name: str(value) if value and found["question"] else None for name, value in found.items()}
    )


def _turn(context: PageContext) -> None:
    page = st.session_state[KEY].get("page")
    if isinstance(page, int | float):
        context.set(page=str(int(page) + 1) if page > 0 else None)
