"""Buttons, and controls whose state is the address of the page by keys that do not depend on the language."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from rag_assay.orchestration.web.page_context import PageContext

Titles = Callable[[str], str]


def choose_one(
    context: PageContext, name: str, label: str, options: Sequence[str], title: Titles, width: int = 300
) -> str:
    key, change = _begin(context, name, options[0], options), _change(context, name, options[0])
    st.selectbox(label, options, format_func=title, key=key, width=width, **change)
    return str(st.session_state[key])


def switch(
    context: PageContext, name: str, label: str, options: Sequence[str], title: Titles, first: str
) -> str:
    """label: empty: none is shown; first: default of the address"""
    key, visible = _begin(context, name, first, options), "visible" if label else "collapsed"
    look: dict[str, Any] = {"required": True, "label_visibility": visible, **_change(context, name, first)}
    st.segmented_control(label or name, options, format_func=title, key=key, **look)
    return str(st.session_state[key] or first)


def choose_many(
    context: PageContext, name: str, label: str, options: Sequence[str], title: Titles, first: Sequence[str]
) -> list[str]:
    key = f"at_{name}"
    known = [one for one in dict.fromkeys(context.get_all(name)) if one in options]
    st.session_state[key] = known or list(first)
    st.multiselect(label, options, format_func=title, key=key, width=480, **_change(context, name, []))
    return list(st.session_state[key])


def type_words(context: PageContext, name: str, label: str) -> str:
    key = _begin(context, name, "")
    st.text_input(label, key=key, width=220, **_change(context, name, ""))
    return str(st.session_state[key])


def action_button(text: str, key: str, act: Callable[..., object], *args: object, **more: Any) -> None:
    st.button(text, key=key, on_click=act, args=args, **more)


def page_number(context: PageContext) -> int:
    """Return which page of a list the address names, from 0; `page` counts from 1."""
    typed = (context.get("page") or "")[:9]
    return max(0, int(typed) - 1) if typed.isdecimal() else 0


def _begin(context: PageContext, name: str, first: str, options: Sequence[str] | None = None) -> str:
    key, typed = f"at_{name}", context.get(name)
    is_known = typed is not None and (options is None or typed in options)
    st.session_state[key] = typed if is_known else first
    return key


def _change(context: PageContext, name: str, first: str | list[str]) -> dict[str, Any]:
    """Return what a control takes to set the address when it changes; first: what the address leaves out."""

    def keep() -> None:
        value = st.session_state[f"at_{name}"]
        context.set(**{name: value if value != first else None, "page": None})

    return {"on_change": keep}
