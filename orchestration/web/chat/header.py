"""Above the conversation: a person's conversations, exports, and which cell answers."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import streamlit as st

from rag_assay.evals.generation.citations import public_url
from rag_assay.evals.reporting.display import plain
from rag_assay.orchestration.web.address_state import action_button
from rag_assay.orchestration.web.chat.answer_html import label
from rag_assay.orchestration.web.chat.catalogue import Choice
from rag_assay.orchestration.web.chat.page_session import CONVERSATION, ChatPageSession, notify
from rag_assay.orchestration.web.chat.turns import removed
from rag_assay.orchestration.web.languages import Words
from rag_assay.orchestration.web.page_context import PERSON, person_of, set_address
from rag_assay.warehouse.conversations import Conversation, ShownPassage, Turn

_SIGNS = re.compile(r"([\\`*_\[\]<>#|~!&])")


def json_of(found: Conversation) -> str:
    record = {
        "study": found.study,
        "conversation": found.conversation_id,
        "title": found.title,
        "begun": found.begun.model_dump(mode="json"),
        "turns": [turn.model_dump(mode="json") for turn in found.turns],
        "feedback": [said.model_dump(mode="json") for said in found.feedback.values()],
        "votes": [said.model_dump(mode="json") for said in found.votes.values()],
    }
    return json.dumps(record, ensure_ascii=False, indent=2)


def markdown_of(found: Conversation, words: Words) -> str:
    parts = [f"# {_text(found.title or words('untitled'))}"]
    for turn in sorted(found.turns, key=lambda one: (one.number, one.side or "")):
        parts += _turn(turn, words)
        said = found.feedback.get(turn.record_id)
        if said is not None and (said.thumbs or said.comment):
            thumbs = {1: "👍", -1: "👎"}.get(said.thumbs, "")
            parts.append(f"> {thumbs} {_text(said.comment)}".rstrip())
    return "\n\n".join(parts) + "\n"


def _turn(turn: Turn, words: Words) -> list[str]:
    side = f" ({turn.side.upper()})" if turn.side else ""
    parts = [f"## {turn.number}{side}. {_text(turn.question)}"]
    parts += [
        f"*{words('asked_as')}: {_text(one.value)}*"
        for one in turn.understood
        if one.kind == "follow_up" and one.value and not one.removed
    ]
    if gone := removed(turn.understood, words):
        parts.append(f"*{words('without')} {_text(', '.join(gone))}*")
    if turn.answer is not None:
        parts.append(_inert(turn.answer))
    else:
        parts.append(f"**{words('no_answer')}.** {_text(turn.reason or str(turn.status))}")
    cited = [one for one in turn.passages if one.cited]
    if cited:
        parts.append("\n".join(_source(one, turn) for one in cited))
    facts = [turn.cell, turn.model or "", turn.at.isoformat(timespec="seconds")]
    parts.append(f"<sub>{' · '.join(_text(one) for one in facts if one)}</sub>")
    return parts


def _source(passage: ShownPassage, turn: Turn) -> str:
    url = public_url(passage.url, turn.language) or ""
    page = f", {passage.page}" if passage.page is not None else ""
    where = " › ".join(passage.section)
    about = ", ".join(one for one in (passage.title or "", where, url) if one)
    return f"- \\[{passage.number}\\] {_text(about)}{page}"


def _text(text: str) -> str:
    r"""Return a text that Markdown shows as it is, on one line.

    >>> print(_text("a <b> [x](y)"))
    a \<b\> \[x\](y)
    """
    return _SIGNS.sub(r"\\\1", " ".join(plain(text).split()))


def _inert(answer: str) -> str:
    """Return an answer's Markdown without what loads, links or is HTML.

    >>> print(_inert("**So** <img src=x> ![a](b) [c](d) [1]"))
    **So** &lt;img src=x> !\\[a\\](b) \\[c\\](d) [1]
    """
    text = plain(answer).replace("<", "&lt;")
    return re.sub(r"\[([^\]\n]*)\](?=[(:\[])", r"\\[\1\\]", text)


_LONGEST_TITLE = 200
_SHOWN = 30  # conversations, until more are wanted
_MORE = "shown_conversations"


def show_head(session: ChatPageSession) -> None:
    with st.container(key="head", horizontal=True, vertical_alignment="center", gap="small"):
        choice, words = session.choice, session.words
        action_button("", "new", lambda: set_address(c=None), icon=":material/add:", help=words("new"))
        with st.popover("", icon=":material/forum:", help=words("conversations"), key="conversations_menu"):
            _conversations(session)
        if choice is None:
            st.html(f'<p class="as-note">{words("opening")}</p>', width="stretch")
        else:
            with st.popover(label(choice.short, 80), icon=":material/tune:", key="cells"):
                _choose(session, choice)
            st.html(f'<p class="as-measured">{_measured(choice, words)}</p>', width="stretch")
        if session.conversation is not None:
            with st.popover(
                "", icon=":material/more_horiz:", type="tertiary", help=words("menu"), key="menu"
            ):
                _menu(session)


def _measured(choice: Choice, words: Words) -> str:
    if choice.mean is None:
        return words("unmeasured", metric=choice.metric)
    name = "measured" if choice.rank is not None else "measured_unranked"
    return words(name, metric=choice.metric, mean=f"{choice.mean:.3f}", rank=choice.rank, n=choice.of)


def _choose(session: ChatPageSession, choice: Choice) -> None:
    words, catalogue = session.words, session.catalogue
    if catalogue is None:
        return
    keys = [one.key for one in catalogue.choices]

    def name(key: str) -> str:
        one = catalogue.of(key)
        mark = f" ({words('recommended')})" if key == keys[0] else ""
        return f"{one.short}{mark} – {_measured(one, words)}" if one else key

    st.selectbox(
        words("cell"),
        keys,
        keys.index(choice.key),
        format_func=name,
        help=words("cell_help"),
        key="chosen_cell",
        on_change=lambda: set_address(cell=st.session_state["chosen_cell"]),
    )
    others = [key for key in keys if key != choice.key]
    if others:
        st.toggle(
            words("compare"),
            session.rival is not None,
            key="compares",
            help=words("compare_help"),
            on_change=lambda: set_address(against=others[0] if st.session_state["compares"] else None),
        )
    if session.rival is not None:
        st.selectbox(
            words("other_cell"),
            others,
            others.index(session.rival.key),
            format_func=name,
            key="chosen_rival",
            on_change=lambda: set_address(against=st.session_state["chosen_rival"]),
        )
    report = session.room.home.report(session.study)
    if report.is_file():
        look: dict[str, Any] = {
            "help": words("report_help"),
            "icon": ":material/leaderboard:",
            "on_click": "ignore",
        }
        st.download_button(words("report"), report.read_bytes, f"{session.study}.html", "text/html", **look)


def _conversations(session: ChatPageSession) -> None:
    _list(session)
    look: dict[str, Any] = {
        "help": session.words("person_help"),
        "on_change": _take_person,
        "args": (session,),
    }
    st.text_input(session.words("person"), session.place.person, key="typed_person", **look)


def _list(session: ChatPageSession) -> None:
    words, here = session.words, session.place.conversation
    every = session.listing.of(session.place.person)
    # What could not be asked has left one without a question.
    entries = [one for one in every if one.title or one.conversation == here]
    shown = st.session_state.setdefault(_MORE, _SHOWN)
    if not entries:
        st.html(f'<p class="as-note">{words("no_conversations")}</p>')
    with st.container(key="conversations", gap=None):
        for entry in entries[:shown]:
            is_here = entry.conversation == here
            asked = next((one.question for one in session.pending), "") if is_here else ""
            title = label(entry.title or asked, 80) or words("untitled")
            look = {"type": "secondary" if is_here else "tertiary", "width": "stretch"}
            action_button(
                title, f"to-{entry.conversation}", partial(set_address, c=entry.conversation), **look
            )
    if len(entries) > shown:
        more = words("more_conversations", n=len(entries) - shown)
        further = {_MORE: shown + _SHOWN}
        action_button(more, "more", lambda: st.session_state.update(further), type="tertiary")


def _take_person(session: ChatPageSession) -> None:
    typed = st.session_state["typed_person"]
    name = person_of(typed)
    if typed.strip() and not name:
        notify(session.words("person_bad", why=typed[:80]))
        return
    set_address(**{PERSON: name, CONVERSATION: None})


# Of one conversation ----------------------------------------------------------------------------------------


def _menu(session: ChatPageSession) -> None:
    words, found = session.words, session.conversation
    if found is None:
        return
    with st.form("rename", border=False):
        title = found.title[:_LONGEST_TITLE]
        st.text_input(words("rename"), title, key="typed_title", max_chars=_LONGEST_TITLE)
        st.form_submit_button(words("save"), on_click=_rename, args=(session,))
    _exports(session, found)
    look = {"icon": ":material/delete:", "width": "stretch"}
    action_button(words("delete"), "delete", lambda: st.session_state.update(asks_delete=True), **look)


def _exports(session: ChatPageSession, found: Conversation) -> None:
    words = session.words
    files = {
        "export_markdown": (lambda: markdown_of(found, words).encode(), "md", "text/markdown"),
        "export_json": (lambda: json_of(found).encode(), "json", "application/json"),
    }
    look: dict[str, Any] = {"icon": ":material/download:", "on_click": "ignore", "width": "stretch"}
    for name, (write, ending, kind) in files.items():
        file = f"{session.study}-{found.conversation_id}.{ending}"
        st.download_button(words(name), write, file, kind, key=name, **look)


def _rename(session: ChatPageSession) -> None:
    found = session.conversation
    if found is not None:
        title = " ".join(str(st.session_state["typed_title"]).split())[:_LONGEST_TITLE]
        session.did(lambda: session.room.service.rename(session.study, found.conversation_id, title))


def ask_whether_to_delete(session: ChatPageSession) -> None:
    words = session.words
    if not st.session_state.pop("asks_delete", False) or session.conversation is None:
        return

    @st.dialog(words("delete"))
    def sure() -> None:
        st.write(words("delete_sure"))
        if st.button(words("delete_yes"), type="primary", key="delete_sure"):
            conversation = session.place.conversation or ""
            if session.did(lambda: session.room.service.delete(session.study, conversation)):
                set_address(c=None)
                notify(words("deleted"), "success")
            st.rerun()

    sure()
