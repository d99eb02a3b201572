"""Plain text files and BEIR passages."""

from __future__ import annotations

import json

from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage, decode_text


def clean_text(body: bytes, content_type: str | None) -> DocumentDraft:
    """Take the file's text as it is; its first line is the title.

    Raises:
        Unusable: it is empty, or no text.
    """
    text = decode_text(body, content_type).strip()
    return DocumentDraft(text=text, title=text.splitlines()[0].lstrip("# ").strip()[:300] or None)


def clean_beir(body: bytes) -> DocumentDraft:
    """Join title and text of a BEIR passage, as BEIR's own evaluation embeds them.

    Raises:
        Unusable: the line is no JSON object with a text, or holds nothing.
    """
    try:
        passage = json.loads(body)
        title, text = str(passage.get("title") or "").strip(), str(passage["text"]).strip()
    except (ValueError, KeyError, AttributeError) as error:
        raise UnusablePage(f"not a BEIR passage ({error})") from error
    if not (title or text):
        raise UnusablePage("the passage is empty")
    return DocumentDraft(text=f"{title}\n{text}".strip(), title=title or None)
