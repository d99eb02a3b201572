"""The conversation before a question, as `assay ask` is given it."""

from __future__ import annotations

from pathlib import Path

from rag_assay.warehouse.errors import InputError

MOST_TURNS = 1_000


def conversation_of(after: list[str], file: Path | None) -> list[str]:
    """Return the turns before a question, oldest first: those of `--after`, or of a file.

    Raises:
        InputError: both are given, or the file is no list of texts.
    """
    if after and file:
        raise InputError("give the conversation by --after or by --conversation, not by both")
    turns = _read(file) if file else after
    if len(turns) > MOST_TURNS:
        raise InputError(f"the conversation has {len(turns)} turns, more than {MOST_TURNS}")
    return turns


def _read(file: Path) -> list[str]:
    from rag_assay.warehouse.yaml_positions import load

    marked = load(file)
    if not isinstance(marked.data, list):
        raise InputError(f"{file}: a conversation is a list of texts, question and answer by turns")
    for place, turn in enumerate(marked.data):
        if not isinstance(turn, str):
            raise InputError(f"{marked.at((place,))}: turn {place + 1} is no text; put it into quotes")
    return list(marked.data)
