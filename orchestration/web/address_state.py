"""Controls whose state is the address of the page, by keys that do not depend on the language."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from rag_assay.orchestration.web.page_context import PageContext

Titles = Callable[[str], str]


def choose_one(
    context: PageContext, name: str, label: str, options: Sequence[str], title: Titles, width: int = 300
) -> str:
    key = _begin(context, name, options[0], options)
    st.selectbox(
        label,
        options,
        format_func=title,
        key=key,
        width=width,
        on_change=_keep,
        args=(context, name, options[0]),
    )
    return str(st.session_state[key])


def switch(
    context: PageContext, name: str, label: str, options: Sequence[str], title: Titles, first: str
) -> str:
    """label: empty: none is shown; first: default of the address"""
    key = _begin(context, name, first, options)
    st.segmented_control(
        label or name,
        options,
        format_func=title,
        key=key,
        required=True,
        label_visibility="visible" if label else "collapsed",
        on_change=_keep,
        args=(context, name, first),
    )
    return str(st.session_state[key] or first)


def choose_many(
    context: PageContext, name: str, label: str, options: Sequence[str], title: Titles, first: Sequence[str]
) -> list[str]:
    key = f"at_{name}"
    known = [one for one in dict.fromkeys(context.get_all(name)) if one in options]
    st.session_state[key] = known or list(first)
    st.multiselect(
        label, options, format_func=title, key=key, width=480, on_change=_keep_many, args=(context, name)
    )
    return list(st.session_state[key])


def type_words(context: PageContext, name: str, label: str) -> str:
    key = _begin(context, name, "")
    st.text_input(label, key=key, width=220, on_change=_keep, args=(context, name, ""))
    return str(st.session_state[key])


def page_number(context: PageContext) -> int:
    """Return which page of a list the address names, from 0; `page` counts from 1."""
    typed = (context.get("page") or "")[:9]
    return max(0, int(typed) - 1) if typed.isdecimal() else 0


def _begin(context: PageContext, name: str, first: str, options: Sequence[str] | None = None) -> str:
    key, typed = f"at_{name}", context.get(name)
    is_known = typed is not None and (options is None or typed in options)
    st.session_state[key] = typed if is_known else first
    return key


def _keep(context: PageContext, name: str, first: str) -> None:
    value = st.session_state[f"at_{name}"]
    context.set(**{name: value if value != first else None, "page": None})


def _keep_many(context: PageContext, name: str) -> None:
    context.set(**{name: list(st.session_state[f"at_{name}"]) or None, "page": None})
