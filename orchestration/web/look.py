"""One look for all pages: what each page begins with."""

from __future__ import annotations

from functools import cache
from pathlib import Path


def dress(title: str, *sheets: str) -> None:
    """Set the title; sheets: style sheets beside `look`, as `frame`, that of Streamlit's elements."""
    import streamlit as st

    st.set_page_config(page_title=title, layout="wide", menu_items={})
    add_styles("look", *sheets)


def add_styles(*sheets: str) -> None:
    import streamlit as st

    if sheets:
        st.html(f"<style>{''.join(map(_style, sheets))}</style>")


@cache
def _style(sheet: str) -> str:
    return (Path(__file__).parent / f"{sheet}.css").read_text(encoding="utf-8")
