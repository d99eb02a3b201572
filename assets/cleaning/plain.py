"""Plain text files and BEIR passages."""

from __future__ import annotations

import json

from assets.cleaning.draft import Draft, Unusable, decoded


def clean_text(body: bytes, content_type: str | None) -> Draft:
    """Take the file's text as it is; its first line is the title.

    Raises:
        Unusable: it is empty, or no text.
    """
    text = decoded(body, content_type).strip()
    return Draft(text=text, title=text.splitlines()[0].lstrip("# ").strip()[:300] or None)


def clean_beir(body: bytes) -> Draft:
    """Join title and text of a BEIR passage, as BEIR's own evaluation embeds them.

    Raises:
        Unusable: the line is no JSON object with a text, or holds nothing.
    """
    try:
        passage = json.loads(body)
        title, text = str(passage.get("title") or "").strip(), str(passage["text"]).strip()
    except (ValueError, KeyError, AttributeError) as error:
        raise Unusable(f"not a BEIR passage ({error})") from error
    if not (title or text):
        raise Unusable("the passage is empty")
    return Draft(text=f"{title}\n{text}".strip(), title=title or None)
