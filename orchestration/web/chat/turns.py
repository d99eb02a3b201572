"""The conversation: questions, answers with their sources, what a person says of them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby

import streamlit as st

from rag_assay.evals.generation.citations import without_markers
from rag_assay.evals.reporting.display import plain
from rag_assay.orchestration.web.chat.answer_html import answer_html, label, text_html
from rag_assay.orchestration.web.chat.facts import (
    ANSWERED,
    DECLINED,
    chip,
    facts_html,
    failure,
    removed_html,
)
from rag_assay.orchestration.web.chat.page_session import ChatPageSession, Thumbs, notify
from rag_assay.orchestration.web.chat.sources import anchor_of, sources_html
from rag_assay.orchestration.web.languages import Words
from rag_assay.warehouse.conversations import AnswerFeedback, StoredInterpretation, Turn
from rag_assay.warehouse.status import Status

_COMMENT = 10_000  # characters
UP: Thumbs = 1
DOWN: Thumbs = -1
NEITHER: Thumbs = 0


def show_turns(session: ChatPageSession) -> None:
    found = session.conversation
    turns = sorted(found.turns, key=lambda one: (one.number, one.side or "")) if found else []
    for _, same in groupby(turns, key=lambda one: one.number):
        sides = list(same)
        show_question(sides[0].question)
        if sides[0].side is None:
            for turn in sides:
                _show_answer(session, turn)
        else:
            _show_pair(session, sides)


def show_question(question: str) -> None:
    with st.chat_message("user"):
        st.html(f'<div class="as-asked" dir="auto">{text_html(question)}</div>')


def draft_html(text: str) -> str:
    answer = answer_html(text, (), range(1, 100), "d")
    return f'<div class="as-answer as-draft" dir="auto" aria-live="off">{answer}</div>'


def _show_answer(session: ChatPageSession, turn: Turn) -> None:
    with st.chat_message("assistant"):
        _understood(session, turn)
        _body(session, turn)
        _facts(session, turn)
        if turn.answer is not None:
            _opinion(session, turn)


def _understood(session: ChatPageSession, turn: Turn) -> None:
    words = session.words
    rewritten = [
        one.value for one in turn.understood if one.kind == "follow_up" and one.value and not one.removed
    ]
    for text in rewritten:
        st.html(
            f'<p class="as-note">{escape(words("asked_as"))}: <em dir="auto">{escape(plain(text))}</em></p>'
        )
    narrowing = [
        one for one in turn.understood if one.removable and not one.removed and one.status != "unused"
    ]
    if narrowing:
        with st.container(horizontal=True, gap="small", key=f"chips-{turn.record_id}"):
            for at, one in enumerate(narrowing):
                rewriting = one.kind == "follow_up"
                st.button(
                    words("follow_up") if rewriting else label(chip(one, words), 80),
                    key=f"chip-{turn.record_id}-{at}",
                    icon=":material/close:",
                    icon_position="right",
                    help=words("remove_help"),
                    on_click=_ask_without,
                    args=(session, turn, one),
                )
    gone = removed_html(turn.understood, words)
    if gone:
        st.html(gone)


def _ask_without(session: ChatPageSession, turn: Turn, one: StoredInterpretation) -> None:
    gone = {other.removal for other in turn.understood if other.removed}
    session.ask(turn.question, [turn.cell], frozenset({*gone, one.removal}))


def _body(session: ChatPageSession, turn: Turn) -> None:
    words = session.words
    if turn.status in DECLINED:
        why = words(f"declined_{turn.declined}" if turn.declined else "declined_more")
        st.html(
            f'<div class="as-declined"><p><b>{escape(words("declined"))}.</b> {escape(why)}</p>'
            f"{sources_html(turn, words)}</div>"
        )
    elif turn.answer is not None and turn.status in ANSWERED:
        texts = [one.text for one in turn.passages]
        numbers = {one.number for one in turn.passages}
        answer = answer_html(turn.answer, texts, numbers, anchor_of(turn))
        cut = (
            f'<p class="as-note">{escape(words("truncated"))}</p>' if turn.status is Status.TRUNCATED else ""
        )
        lang = f' lang="{escape(turn.language)}"' if turn.language else ""
        st.html(f'<div class="as-answer" dir="auto"{lang}>{answer}</div>{cut}{sources_html(turn, words)}')
    elif turn.status is Status.OK:
        st.html(f'<p class="as-note">{escape(plain(turn.reason or ""))}</p>{sources_html(turn, words)}')
    else:
        _failed(session, turn)


def _failed(session: ChatPageSession, turn: Turn) -> None:
    words = session.words
    sentence, reason = failure(turn, words)
    st.html(
        f'<div class="as-failed" role="note"><p><b>{escape(words("no_answer"))}.</b> {escape(sentence)}</p>'
        f'<p class="as-note">{escape(reason)}</p>{_partial(turn, words)}</div>'
    )
    st.button(
        words("ask_again"),
        key=f"again-{turn.record_id}",
        icon=":material/replay:",
        on_click=session.ask,
        args=(turn.question,),
    )


def _partial(turn: Turn, words: Words) -> str:
    if not turn.partial:
        return ""
    text = answer_html(turn.partial, (), (), anchor_of(turn))
    summary = f"<summary>{escape(words('partial'))}</summary>"
    return f'<details class="as-others">{summary}<div class="as-answer">{text}</div></details>'


def _facts(session: ChatPageSession, turn: Turn) -> None:
    catalogue = session.catalogue
    choice = catalogue.of(turn.cell) if catalogue else None
    wanted = choice.model if choice else None
    name = choice.short if choice else " · ".join(turn.cell.split(".")[1:])
    st.html(facts_html(turn, wanted, name, session.words))


# What a person says of it ---------------------------------------------------------------------------------


def _opinion(session: ChatPageSession, turn: Turn) -> None:
    words = session.words
    kept = session.conversation.feedback.get(turn.record_id) if session.conversation else None
    thumbs = {1: 1, -1: 0}.get(kept.thumbs) if kept else None
    is_down = kept is not None and kept.thumbs < 0
    with st.container(
        horizontal=True, gap="small", vertical_alignment="center", key=f"opinion-{turn.record_id}"
    ):
        key = f"thumbs-{turn.record_id}"
        st.feedback("thumbs", key=key, default=thumbs, on_change=_take_thumbs, args=(session, turn, key))
        if not is_down:
            with st.popover(words("comment"), type="tertiary", icon=":material/edit_note:"):
                _comment(session, turn, kept, words("comment_label"))
    if is_down and not (kept and kept.comment):
        with st.container(key=f"wrong-{turn.record_id}"):
            _comment(session, turn, kept, words("what_was_wrong"))
    elif is_down:
        with st.container(horizontal=True, gap="small", vertical_alignment="center"):
            st.html(f'<p class="as-note">{escape(words("for_review"))}</p>', width="content")
            session.context.link("review", words("to_review"), view="users")
    if kept and kept.comment:
        st.html(f'<blockquote class="as-comment" dir="auto">{text_html(kept.comment)}</blockquote>')


def _comment(session: ChatPageSession, turn: Turn, kept: AnswerFeedback | None, label: str) -> None:
    text = f"said-{turn.record_id}"
    with st.form(f"comment-{turn.record_id}", border=False):
        st.text_area(label, kept.comment if kept else "", key=text, max_chars=_COMMENT)
        st.form_submit_button(session.words("save"), on_click=_take_comment, args=(session, turn, text))


def _take_thumbs(session: ChatPageSession, turn: Turn, key: str) -> None:
    session.opine(turn, thumbs={1: UP, 0: DOWN}.get(st.session_state[key], NEITHER))


def _take_comment(session: ChatPageSession, turn: Turn, key: str) -> None:
    if session.opine(turn, comment=str(st.session_state[key])):
        notify(session.words("comment_kept"), "success")


# Two cells side by side ------------------------------------------------------------------------------------


def _show_pair(session: ChatPageSession, sides: Sequence[Turn]) -> None:
    """Show two answers; which cells gave them is shown when a person has chosen, or cannot."""
    words, number = session.words, sides[0].number
    said = session.conversation.votes.get(number) if session.conversation else None
    can_vote = len(sides) == 2 and all(turn.answer for turn in sides)
    is_same = can_vote and _same(sides)
    is_blind = said is None and not is_same and (can_vote or len(sides) < 2)
    for column, turn in zip(st.columns(2), sides, strict=False):
        with column, st.chat_message("assistant"):
            st.html(f'<p class="as-kicker">{escape(words(f"answer_{turn.side}"))}</p>')
            if not is_blind:
                _understood(session, turn)
            _body(session, turn)
            if not is_blind:
                _facts(session, turn)
                _opinion(session, turn)
    if is_same:
        st.html(f'<p class="as-note">{escape(words("same_answers"))}</p>')
    elif said is not None:
        st.html(f'<p class="as-note">{escape(words(f"voted_{said.preferred}"))}</p>')
    elif can_vote:
        st.html(f'<p class="as-kicker">{escape(words("vote"))}</p>')
        with st.container(horizontal=True, gap="small", key=f"vote-{sides[0].record_id}"):
            for preferred in ("a", "tie", "b"):
                st.button(
                    words(f"vote_{preferred}"),
                    key=f"vote-{sides[0].record_id}-{preferred}",
                    on_click=session.vote,
                    args=(number, preferred, sides[0].cell),
                )


def _same(sides: Sequence[Turn]) -> bool:
    first, second = (without_markers(turn.answer or "").split() for turn in sides)
    return first == second
