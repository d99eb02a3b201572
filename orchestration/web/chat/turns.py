"""The conversation: questions, answers with their sources, what a person says of them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby
from urllib.parse import quote, urldefrag, urlsplit

import streamlit as st

from rag_assay.evals.chat.open_questions import DECLINED
from rag_assay.evals.generation.citations import public_url, without_markers
from rag_assay.evals.reporting.display import plain
from rag_assay.orchestration.web.address_state import action_button
from rag_assay.orchestration.web.chat.answer_html import answer_html, label, text_html
from rag_assay.orchestration.web.chat.page_session import ChatPageSession, Thumbs, notify
from rag_assay.orchestration.web.languages import Words
from rag_assay.warehouse.conversations import AnswerFeedback, ShownPassage, StoredInterpretation, Turn
from rag_assay.warehouse.status import Status

_WORDS = 6  # on each side of a passage that is looked for in a web page
_LONGEST = 2_000  # characters of an address


def source_link(passage: ShownPassage, language: str | None) -> str | None:
    """Return the address of a passage; None where its document is not on the web.

    A web page opens at the evidence (`#:~:text=`), a PDF at its page.

    >>> one = ShownPassage(number=1, chunk_id="c", doc_id="d", text="It costs two. Or more.",
    ...     url="https://x.example/a b", evidence=((0, 13),))
    >>> source_link(one, "en")
    'https://x.example/a%20b#:~:text=It%20costs%20two.'
    >>> source_link(one.model_copy(update={"page": 7, "url": "http://x.example/a.pdf"}), "en")
    'http://x.example/a.pdf#page=7'
    >>> source_link(one.model_copy(update={"url": "javascript:alert(1)"}), "en")
    """
    url = public_url(passage.url, language) or ""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not host or len(url) > _LONGEST:
        return None
    page, fragment = urldefrag(url)
    page = quote(page, safe=":/?#[]@!$&'()*+,;=%~-._")
    if passage.page is not None:
        return f"{page}#page={passage.page}"
    found = _text_fragment(passage)
    fragment = quote(fragment, safe="!$&'()*+,;=%~-._:@/?")
    return page + (f"#{fragment}{found}" if fragment or found else "")


def _text_fragment(passage: ShownPassage) -> str:
    start, end = passage.evidence[0] if passage.evidence else (0, len(passage.text))
    line = next((one for one in passage.text[start:end].splitlines() if one.strip()), "")
    words = line.split()
    if not words:
        return ""
    if len(words) <= 2 * _WORDS:
        return f":~:text={_quoted(words)}"
    return f":~:text={_quoted(words[:_WORDS])},{_quoted(words[-_WORDS:])}"


def _quoted(words: list[str]) -> str:
    # A dash and a comma have meanings of their own there.
    return quote(" ".join(words), safe="").replace("-", "%2D")


def anchor_of(turn: Turn) -> str:
    return f"p-{turn.record_id}"


def sources_html(turn: Turn, words: Words) -> str:
    cited = [one for one in turn.passages if one.cited]
    others = [one for one in turn.passages if not one.cited]
    if not turn.passages:
        return ""
    parts = []
    if cited:
        parts.append(f'<p class="as-kicker">{escape(words("sources"))}</p>{_list(cited, turn, words)}')
    if others:
        name = "more_sources" if cited else "read_sources"
        summary = escape(words(name, n=len(others)))
        parts.append(
            f'<details class="as-others"><summary>{summary}</summary>{_list(others, turn, words)}</details>'
        )
    return f'<div class="as-sources">{"".join(parts)}</div>'


def _list(passages: Sequence[ShownPassage], turn: Turn, words: Words) -> str:
    return f"<ol>{''.join(_source(one, turn, words) for one in passages)}</ol>"


def _source(passage: ShownPassage, turn: Turn, words: Words) -> str:
    title = escape(plain(passage.title or words("untitled_source")))
    about = [" › ".join(passage.section)] if passage.section else []
    about += [words("page", page=passage.page)] if passage.page is not None else []
    about += [passage.date[:10]] if passage.date else []
    more = "".join(f"<span>{escape(plain(one))}</span>" for one in about)
    text = text_html(passage.text, passage.evidence)
    name = escape(f"{anchor_of(turn)}-{passage.number}")
    # A link to an id inside of a closed `details` opens it.
    target = f'<mark id="{name}">' if "<mark>" in text else None
    text = text.replace("<mark>", target, 1) if target else text
    box = "" if target else f' id="{name}"'
    return (
        f'<li><details><summary><span class="as-number">{passage.number}</span>'
        f'<span class="as-source"><b dir="auto">{title}</b>{more}</span></summary>'
        f'<div class="as-passage" dir="auto"{box}>{text}</div>{_link(passage, turn, words)}</details></li>'
    )


def _link(passage: ShownPassage, turn: Turn, words: Words) -> str:
    link = source_link(passage, turn.language)
    if link is None:
        return f'<p class="as-where">{escape(plain(passage.url or words("no_link")))}</p>'
    label = words("open_source") if passage.page is None else words("open_page", page=passage.page)
    return (
        f'<p class="as-where"><a href="{escape(link)}" target="_blank" rel="noopener noreferrer">'
        f"{escape(label)} ↗</a> <span>{escape(plain(passage.url or ''))}</span></p>"
    )


ANSWERED = frozenset({Status.OK, Status.TRUNCATED})
_AS_SAID = frozenset({"date", "season"})  # entities that a person knows by the question's words


def facts_html(turn: Turn, wanted: str | None, cell: str, words: Words) -> str:
    """wanted: the model that the cell asks first, None: none; cell: its name for people"""
    parts = [cell] if cell else []
    if turn.model or turn.status in ANSWERED:  # what a gate declines, nothing has quoted
        parts.append(_model(turn, wanted, words))
    if turn.seconds is not None:
        parts.append(words("seconds", n=f"{turn.seconds:.1f}"))
    if turn.model and turn.prompt_tokens is not None:
        parts.append(words("tokens", n=f"{turn.prompt_tokens + (turn.completion_tokens or 0):,}"))
    if turn.model and turn.usd is not None:
        parts.append(words("usd", n=f"{turn.usd:.4f}".rstrip("0").rstrip(".")))
    if turn.model and turn.cached:
        parts.append(words("cached"))
    spans = "".join(f"<span>{escape(plain(one))}</span>" for one in parts)
    n = turn.turns_left_out
    left_out = f'<p class="as-note">{escape(words("left_out", n=n))}</p>' if n else ""
    return f'<p class="as-facts">{spans}</p>{left_out}'


def _model(turn: Turn, wanted: str | None, words: Words) -> str:
    if turn.model is None:
        return words("quoted")
    if wanted is not None and turn.model != wanted:
        return f"{turn.model} ({words('fallback', model=wanted)})"
    return turn.model


def failure(turn: Turn, words: Words) -> tuple[str, str]:
    named = {Status.OVER_BUDGET: "over_budget", Status.NOT_RUN: "stopped"}
    named |= dict.fromkeys((Status.ERROR, Status.TIMEOUT, Status.RATE_LIMITED), "model_gone")
    is_not_put = turn.status is Status.ERROR and not turn.cell
    sentence = words("not_put" if is_not_put else named.get(turn.status, "no_answer"))
    return f"{sentence} {words('kept')}", words("why", reason=plain(turn.reason or str(turn.status)))


def chip(one: StoredInterpretation, words: Words) -> str:
    """Return what was understood, in few words.

    >>> year = StoredInterpretation(kind="time_frame", text="in 2021", value="2021-01-01/2021-12-31")
    >>> chip(year, {"time_frame": "Time"}.__getitem__)
    'Time: 2021'
    """
    name = words(one.kind) if one.kind in {"follow_up", "time_frame", "entities"} else one.kind
    value = one.text if one.type in _AS_SAID else one.value
    if one.kind == "time_frame":
        value = _days(one.value, words)
    dropped = f" ({words('relaxed')})" if one.status == "relaxed" else ""
    return f"{name}: {value or one.text}{dropped}"


def _days(value: str, words: Words) -> str:
    start, end = (one.strip(".") for one in (value + "/").split("/")[:2])  # `..`: that end is open
    if start and end:
        if (start[4:], end[4:]) == ("-01-01", "-12-31"):
            return start[:4] if start[:4] == end[:4] else f"{start[:4]} – {end[:4]}"
        return start if start == end else f"{start} – {end}"
    return words("from_on", start=start) if start else words("until", end=end) if end else ""


def removed(understood: Sequence[StoredInterpretation], words: Words) -> list[str]:
    return [chip(one, words) for one in understood if one.removed]


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
        if sides[0].side is not None:
            _show_pair(session, sides)
            continue
        for turn in sides:
            with st.chat_message("assistant"):
                _understood(session, turn)
                _body(session, turn)
                _facts(session, turn)
                if turn.answer is not None:
                    _opinion(session, turn)


def show_question(question: str) -> None:
    with st.chat_message("user"):
        st.html(f'<div class="as-asked" dir="auto">{text_html(question)}</div>')


def draft_html(text: str) -> str:
    answer = answer_html(text, (), range(1, 100), "d")
    return f'<div class="as-answer as-draft" dir="auto" aria-live="off">{answer}</div>'


def _understood(session: ChatPageSession, turn: Turn) -> None:
    words = session.words
    standing = [one for one in turn.understood if not one.removed]
    for one in standing:
        if one.kind == "follow_up" and one.value:
            text = f'<em dir="auto">{escape(plain(one.value))}</em>'
            st.html(f'<p class="as-note">{escape(words("asked_as"))}: {text}</p>')
    narrowing = [one for one in standing if one.removable and one.status != "unused"]
    if narrowing:
        with st.container(horizontal=True, gap="small", key=f"chips-{turn.record_id}"):
            for at, one in enumerate(narrowing):
                shown = words("follow_up") if one.kind == "follow_up" else label(chip(one, words), 80)
                look = {"icon": ":material/close:", "icon_position": "right", "help": words("remove_help")}
                key = f"chip-{turn.record_id}-{at}"
                action_button(shown, key, _ask_without, session, turn, one, **look)
    if gone := [f"<s>{escape(plain(one))}</s>" for one in removed(turn.understood, words)]:
        st.html(f'<p class="as-note">{escape(words("without"))} {", ".join(gone)}</p>')


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
        is_cut = turn.status is Status.TRUNCATED
        cut = f'<p class="as-note">{escape(words("truncated"))}</p>' if is_cut else ""
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
    again = words("ask_again")
    action_button(again, f"again-{turn.record_id}", session.ask, turn.question, icon=":material/replay:")


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
    words, number = session.words, sides[0].number
    said = session.conversation.votes.get(number) if session.conversation else None
    can_vote = len(sides) == 2 and all(turn.answer for turn in sides)
    texts = [without_markers(turn.answer or "").split() for turn in sides]
    is_same = can_vote and texts[0] == texts[1]
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
                key = f"vote-{sides[0].record_id}-{preferred}"
                action_button(words(f"vote_{preferred}"), key, session.vote, number, preferred, sides[0].cell)
