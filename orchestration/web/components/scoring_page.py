"""The component of the page of scoring: it shows a view, and yields what is pressed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from rag_assay.warehouse.identity import Json

KEY = "page"
_FOLDER = Path(__file__).with_name("scoring")
_SCRIPTS = ("dom.js", "reading.js", "rubric.js", "frames.js", "main.js")


def scoring_page(view: Mapping[str, Json], texts: Mapping[str, str], on_event: Callable[[], None]) -> None:
    """Show a view of `annotation/view.py` with texts of `texts.yaml`, annotation."""
    _component()(key=KEY, data={**view, "words": dict(texts)}, on_event_change=on_event)


def pressed() -> Mapping[str, Json] | None:
    import streamlit as st

    event = st.session_state[KEY].get("event")
    return event if isinstance(event, Mapping) else None


@cache
def _component() -> Callable[..., object]:
    from streamlit.components import v2

    texts = [(_FOLDER / name).read_text(encoding="utf-8") for name in _SCRIPTS]
    return v2.component(
        "assay_scoring",
        html='<div class="as-page"></div>',
        css=(_FOLDER / "scoring.css").read_text(encoding="utf-8"),
        js="\n".join(texts),
        isolate_styles=False,
    )
