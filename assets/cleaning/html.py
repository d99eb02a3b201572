"""HTML pages: main text by trafilatura, and what the page says of itself."""

from __future__ import annotations

import re
from typing import Any

from assets.cleaning.draft import Draft, Unusable
from warehouse.pages import decode

_LANGUAGE = re.compile(r"<html[^>]*?\blang\s*=\s*[\"']?([A-Za-z]{2})", re.I)


def clean_html(body: bytes, content_type: str | None, url: str) -> Draft:
    """Extract main text, title, date, authors and tags.

    Raises:
        Unusable: the page holds no main text.
    """
    from trafilatura import bare_extraction

    html, _encoding = decode(body, content_type)
    found: Any = bare_extraction(html, url=url, include_tables=True, include_comments=False, favor_recall=True, with_metadata=True)
    if found is None or not (found.text or "").strip():
        raise Unusable("no main text found")
    match = _LANGUAGE.search(html[:4096])
    return Draft(
        text=found.text.strip(),
        title=found.title or None,
        published_at=found.date or None,
        language=match[1].lower() if match else None,
        authors=tuple(name.strip() for name in (found.author or "").split(";") if name.strip()),
        keywords=tuple(found.tags or ()),
        metadata={"sitename": found.sitename} if found.sitename else {},
    )
