"""Title, authors, dates and keywords from an Office file's properties."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.outline import OutlineBuilder
from rag_assay.assets.cleaning.titles import is_title, names_in
from rag_assay.assets.cleaning.unicode import tidy
from rag_assay.assets.cleaning.written_dates import written_date
from rag_assay.warehouse.office_packages import KINDS, why_not

_HEAD = 300  # characters in which the date of a document stands, if it is its own
_TEMPLATES = ("2013-12-23T23:15", "2013-01-27T09:14")  # of python-docx and python-pptx: of nobody's document


def check_package(body: bytes, suffix: str) -> None:
    """Raise `UnusablePage` for a file that is none of its kind, or must not be opened."""
    if reason := why_not(body, KINDS[suffix]):
        raise UnusablePage(f"{KINDS[suffix].name}: {reason}")


def with_facts(outline: OutlineBuilder, properties: Any, first: str | None, **metadata: Any) -> DocumentDraft:
    """Return the draft of an Office file.

    The date is the one that its head writes out, or else the day on which the file says it was created.

    Args:
        outline: its text.
        properties: the core properties of the file.
        first: what stands as its title in the text.
        metadata: what else is known of it.
    """
    text = outline.closed().text
    if not text:
        raise UnusablePage("no text in the file")
    file_title = tidy(str(properties.title or ""))
    title = file_title if is_title(file_title) else first or text.split("\n", 1)[0]
    created, changed = _time(properties.created), _time(properties.modified)
    written = written_date(title) or written_date(text[:_HEAD])
    known = {
        "date_source": "text" if written else "file" if created else "none",
        "created": created,
        "modified": changed,
        "description": tidy(str(getattr(properties, "subject", None) or "")) or None,
        **metadata,
    }
    return DocumentDraft(
        text=text,
        title=title[:_HEAD],
        published_at=written or (created[:10] if created else None),
        language=_language(getattr(properties, "language", None)),
        authors=names_in(
            tidy(str(getattr(properties, "author", None) or getattr(properties, "creator", None) or ""))
        ),
        keywords=tuple(
            word.strip() for word in re.split("[,;]", str(properties.keywords or "")) if word.strip()
        ),
        sections=tuple(outline.sections),
        metadata={name: value for name, value in known.items() if value is not None},
        repaired=True,
    )


def _time(value: object) -> str | None:
    if not isinstance(value, datetime) or value.isoformat().startswith(_TEMPLATES):
        return None
    return value.isoformat()


def _language(code: object) -> str | None:
    found = re.match(r"([a-z]{2})(?:[-_]|$)", str(code or "").lower())
    return found[1] if found else None
