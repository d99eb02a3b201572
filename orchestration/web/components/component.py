"""Components of Streamlit with HTML, CSS and JavaScript of our own, and the smaller ones of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rag_assay.warehouse.identity import Json

_FOLDER = Path(__file__).parent
_SCORING = tuple(f"scoring/{name}.js" for name in ("dom", "reading", "rubric", "frames", "main"))
PAGE = "page"  # the key of the page of scoring
Listen = Callable[[], None]


@cache
def component(name: str, **parts: Any) -> Callable[..., Any]:
    from streamlit.components import v2

    return v2.component(f"assay_{name}", **parts)


@cache
def read(*paths: str) -> str:
    return "\n".join((_FOLDER / path).read_text(encoding="utf-8") for path in paths)


def follow(serial: str) -> None:
    """Show the end of a conversation when `serial` changes (empty: stay); open passages that are cited."""
    component("follow", js=read("follow.js"), isolate_styles=False)(key="follow", data={"serial": serial})


def scoring_page(view: Mapping[str, Json], texts: Mapping[str, str], on_event: Listen) -> None:
    parts = {"html": '<div class="as-page"></div>', "css": read("scoring/scoring.css"), "js": read(*_SCORING)}
    page = component("scoring", **parts, isolate_styles=False)
    page(key=PAGE, data={**view, "words": dict(texts)}, on_event_change=on_event)


def pressed() -> Mapping[str, Json] | None:
    import streamlit as st

    event = st.session_state[PAGE].get("event")
    return event if isinstance(event, Mapping) else None
