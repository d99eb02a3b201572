"""What the address of the page says, so that a reload keeps it: who asks, which conversation, which cells."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.human_scores import annotator_name

CONVERSATION, PERSON, CELL, RIVAL = "c", "person", "cell", "against"


@dataclass(frozen=True)
class ChatLocation:
    """Where a session is.

    conversation: its id; None: one that is not begun yet
    person: who asks; empty: nobody said
    cell: key of the cell that was chosen; None: the recommended one
    rival: key of the cell beside it; None: one answers alone
    """

    conversation: str | None
    person: str
    cell: str | None
    rival: str | None


def place_here() -> ChatLocation:
    """Return where the session is."""
    said = st.query_params
    return ChatLocation(said.get(CONVERSATION), person_of(said.get(PERSON)), said.get(CELL), said.get(RIVAL))


def go(**to: str | None) -> None:
    """Change the address: name of a parameter -> its value; None takes it away."""
    for name, value in to.items():
        if value:
            st.query_params[name] = value
        else:
            st.query_params.pop(name, None)


def person_of(typed: str | None) -> str:
    """Return a person's name in the form in which it is kept; empty for what is none.

    >>> person_of("  Ada   Lovelace "), person_of("a\\u202eb"), person_of(None)
    ('Ada Lovelace', '', '')
    """
    try:
        return annotator_name(typed) if typed else ""
    except InputError:
        return ""
