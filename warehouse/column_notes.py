"""What the schema files say of the columns of stored tables: the comments beside them."""

from __future__ import annotations

import inspect
import re
from functools import cache

from rag_assay.warehouse import schemas
from rag_assay.warehouse.schemas import Schema

_BEGIN = re.compile(r"(\w+): Schema = \{")
_COLUMN = re.compile(r'    "(\w+)": .*?,\s+# (.+)')


def notes_of(schema: Schema) -> dict[str, str]:
    """Return column -> the comment that stands beside it, of a schema of the warehouse; else nothing.

    >>> from rag_assay.warehouse.schemas import CHUNKS
    >>> notes_of(CHUNKS)["words"] if "words" in notes_of(CHUNKS) else notes_of(CHUNKS)["page"]
    'of the file, from 1; NULL for what has no pages'
    """
    notes = _notes()
    return next((notes[name] for name in notes if getattr(schemas, name) is schema), {})


@cache
def _notes() -> dict[str, dict[str, str]]:
    """Return schema -> column -> comment, by the text of `schemas`; nothing where it has no text."""
    try:
        lines = inspect.getsource(schemas).splitlines()
    except OSError:
        return {}
    found: dict[str, dict[str, str]] = {}
    notes: dict[str, str] = {}
    for line in lines:
        if begin := _BEGIN.fullmatch(line):
            notes = found.setdefault(begin[1], {})
        elif column := _COLUMN.fullmatch(line):
            notes[column[1]] = column[2]
    return found
