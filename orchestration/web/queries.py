"""How pages look into DuckDB: one at a time, on short connections; who has to be waited for is said."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import streamlit as st

from rag_assay.orchestration.web.chat.answer_html import label
from rag_assay.warehouse.errors import AssayError

T = TypeVar("T")
Say = Callable[[str], None]

_TURN = threading.Lock()
"""Sessions of one process share DuckDB's file: two that write it at once would be in each other's way."""


@contextmanager
def looking(sentence: str) -> Iterator[Say]:
    """Look into DuckDB in the block, which is given what tells the person whom it waits for.

    sentence: what is done, while it takes
    """
    place = st.empty()
    with _TURN:
        yield lambda words: _tell(place, f"{words} {sentence}")
    place.empty()


def _tell(place: object, words: str) -> None:
    place.info(label(words, 400), icon=":material/hourglass_top:")  # type: ignore[attr-defined]


def or_trouble(look: Callable[[], T]) -> T | None:
    """Return what a look found; None where it failed, and the page says why."""
    try:
        return look()
    except AssayError as error:
        st.error(label(str(error), 1000), icon=":material/error:")
        st.button("Look again", icon=":material/refresh:")
        return None
