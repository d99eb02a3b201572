"""The names of annotators, as the page gets them: typed, or in its address."""

from __future__ import annotations

from collections.abc import Iterable

from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.human_scores import HumanScore, annotator_name


def name_or_none(typed: object) -> str | None:
    """Return the name of an annotator in the form in which it is kept; None for what is none.

    >>> name_or_none("  Ada   Lovelace "), name_or_none(" "), name_or_none(None)
    ('Ada Lovelace', None, None)
    """
    try:
        return annotator_name(typed) if isinstance(typed, str) else None
    except InputError:
        return None


def known_names(rows: Iterable[HumanScore]) -> list[str]:
    """Return who has scored a queue, in the order of the alphabet; a foreign sheet's annotators did not."""
    names = {row.annotator for row in rows if row.queue_version is not None}
    return sorted(name for name in names if name_or_none(name) == name)
