"""The component that keeps in sight what is new in a conversation, and opens the passages that are cited."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path


def follow(serial: str) -> None:
    """Scroll to the end when the serial is another than before; an empty one stays where it is."""
    _component()(key="follow", data={"serial": serial})


@cache
def _component() -> Callable[..., object]:
    from streamlit.components import v2

    script = Path(__file__).with_name("follow.js")
    return v2.component("assay_follow", js=script.read_text(encoding="utf-8"), isolate_styles=False)
