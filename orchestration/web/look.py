"""One look for all pages: what Streamlit is started with, and what each page begins with."""

from __future__ import annotations

from functools import cache
from pathlib import Path

LIGHT = {"primaryColor": "#0b5a86", "backgroundColor": "#ffffff", "secondaryBackgroundColor": "#f5f7f8"}
DARK = {"primaryColor": "#62b3e4", "backgroundColor": "#13171b", "secondaryBackgroundColor": "#1b2126"}
"""Colours of Streamlit's own widgets; those of everything else stand in `look.css`."""


def theme_options() -> dict[str, str]:
    """Return Streamlit's options that give its widgets our colours; light or dark is the system's choice."""
    themes = {"light": {**LIGHT, "textColor": "#1a2026"}, "dark": {**DARK, "textColor": "#e3e8ec"}}
    return {
        f"theme.{theme}.{name}": colour
        for theme, colours in themes.items()
        for name, colour in colours.items()
    }


def dress(title: str, *sheets: str) -> None:
    """Begin a page: its title in the browser, the style sheet of all pages, no menu of Streamlit.

    sheets: style sheets beside it that the page has too, as `frame`, that of Streamlit's own elements
    """
    import streamlit as st

    st.set_page_config(page_title=title, layout="wide", menu_items={})
    add_styles("look", *sheets)


def add_styles(*sheets: str) -> None:
    """Give the page style sheets."""
    import streamlit as st

    if sheets:
        st.html(f"<style>{''.join(map(_style, sheets))}</style>")


@cache
def _style(sheet: str) -> str:
    return (Path(__file__).parent / f"{sheet}.css").read_text(encoding="utf-8")
