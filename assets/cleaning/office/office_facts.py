"""What an Office file says of itself: title, authors, dates, keywords."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from assets.cleaning.draft import Draft, Unusable
from assets.cleaning.outline import Outline
from assets.cleaning.titles import is_title, names_in
from assets.cleaning.unicode import tidy
from assets.cleaning.written_dates import written_date
from warehouse.office_packages import KINDS, why_not

_HEAD = 300  # characters in which the date of a document stands, if it is its own
_TEMPLATES = ("2013-12-23T23:15", "2013-01-27T09:14")  # of python-docx and python-pptx: of nobody's document


def check_package(body: bytes, suffix: str) -> None:
    """Raise `Unusable` for a file that is none of its kind, or must not be opened."""
    if reason := why_not(body, KINDS[suffix]):
        raise Unusable(f"{KINDS[suffix].name}: {reason}")


def with_facts(outline: Outline, said: Any, first: str | None, **metadata: Any) -> Draft:
    """Return the draft of an Office file.

    The date is the one that its head writes out, or else the day on which the file says it was created.

    Args:
        outline: its text.
        said: the core properties of the file.
        first: what stands as its title in the text.
        metadata: what else is known of it.
    """
    text = outline.closed().text
    if not text:
        raise Unusable("no text in the file")
    own = tidy(str(said.title or ""))
    title = own if is_title(own) else first or text.split("\n", 1)[0]
    created, changed = _time(said.created), _time(said.modified)
    written = written_date(title) or written_date(text[:_HEAD])
    known = {
        "date_source": "text" if written else "file" if created else "none",
        "created": created,
        "modified": changed,
        "description": tidy(str(getattr(said, "subject", None) or "")) or None,
        **metadata,
    }
    return Draft(
        text=text,
        title=title[:_HEAD],
        published_at=written or (created[:10] if created else None),
        language=_language(getattr(said, "language", None)),
        authors=names_in(tidy(str(getattr(said, "author", None) or getattr(said, "creator", None) or ""))),
        keywords=tuple(word.strip() for word in re.split("[,;]", str(said.keywords or "")) if word.strip()),
        sections=tuple(outline.sections),
        metadata={name: value for name, value in known.items() if value is not None},
        repaired=True,
    )


def _time(value: object) -> str | None:
    if not isinstance(value, datetime) or value.isoformat().startswith(_TEMPLATES):
        return None
    return value.isoformat()


def _language(said: object) -> str | None:
    found = re.match(r"([a-z]{2})(?:[-_]|$)", str(said or "").lower())
    return found[1] if found else None
