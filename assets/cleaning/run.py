"""Pages in, documents and drops out."""

from __future__ import annotations

import json
import logging
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl

from assets.cleaning.draft import MIN_WORDS, Draft, Unusable
from assets.cleaning.html import clean_html
from assets.cleaning.pdf import clean_pdf
from assets.cleaning.plain import clean_beir, clean_text
from assets.stage import Progress
from warehouse.errors import CorruptFileError
from warehouse.identity import digest
from warehouse.pages import media_type, read_body
from warehouse.parquet import frame
from warehouse.paths import Home
from warehouse.schemas import DOCUMENTS, DROPPED

log = logging.getLogger(__name__)


def clean_pages(
    source: str, manifest: pl.DataFrame, home: Home, language: str | None, progress: Progress
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Clean the stored pages of a manifest; return schemas.DOCUMENTS, sorted by id, and schemas.DROPPED."""
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # its complaints are our recorded reasons
    documents: list[dict[str, Any]] = []
    dropped: list[dict[str, Any]] = []
    stored = manifest.filter(pl.col("sha256").is_not_null()).sort("url")
    for number, page in enumerate(stored.iter_rows(named=True), 1):
        try:
            documents.append(_document(source, page, home, language))
        except (Unusable, CorruptFileError) as reason:
            dropped.append({"source": source, "url": page["url"], "reason": str(reason)})
        if number % 50 == 0 or number == len(stored):
            progress(f"cleaning {source}", number, len(stored))
    return frame(documents, DOCUMENTS).sort("doc_id"), frame(dropped, DROPPED).sort("url")


def _document(source: str, page: dict[str, Any], home: Home, language: str | None) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(page["fields"] or "{}")
    draft = _clean(page, read_body(home, page["sha256"]))
    text = _tidy(draft.text)
    if "id" not in fields and len(text.split()) < MIN_WORDS:
        raise Unusable(f"too short: {len(text.split())} words")
    shown = {
        "url": page["url"],
        "title": _title(fields, draft),
        "text": text,
        "language": language or draft.language,
        "published_at": _published_at(fields, draft),
        "authors": _strings(fields.get("authors") or fields.get("author")) or list(draft.authors),
        "keywords": list(dict.fromkeys(_keywords(fields) or draft.keywords)),
        "sections": list(draft.sections) if text == draft.text else [],
        "metadata": json.dumps({**draft.metadata, **fields}, sort_keys=True, ensure_ascii=False),
    }
    return {
        "doc_id": str(fields["id"]) if "id" in fields else digest([source, page["url"]]),
        "version": digest(shown),
        "source": source,
        "page_sha256": page["sha256"],
        **shown,
    }


def _title(fields: dict[str, Any], draft: Draft) -> str | None:
    """Return the title; beside a headline, a spider's title is the window's, with the name of the site."""
    if "headline" in fields and draft.title:
        return draft.title
    return fields.get("title") or fields.get("headline") or draft.title


def _published_at(fields: dict[str, Any], draft: Draft) -> str | None:
    """Return the date of publication; a spider that found none gives the date of the document instead."""
    own = draft.metadata.get("published_source") in {"version", "meta", "journal"}
    return (
        (draft.published_at if own else None)
        or fields.get("published_at")
        or fields.get("date")
        or draft.published_at
    )


def _clean(page: dict[str, Any], body: bytes) -> Draft:
    kind = media_type(page["content_type"])
    if kind == "application/x-beir+json":
        return clean_beir(body)
    if kind == "application/pdf":
        return _caught("PDF", page, lambda: clean_pdf(body))
    if kind in {"text/html", "application/xhtml+xml"}:
        return _caught("HTML", page, lambda: clean_html(body, page["content_type"], page["url"]))
    if kind.startswith("text/"):
        return clean_text(body, page["content_type"])
    raise Unusable(f"no reader for {kind or 'an unknown type'}")


def _caught(kind: str, page: dict[str, Any], clean: Callable[[], Draft]) -> Draft:
    """Clean a page; one that breaks its parser, however that ends, is a drop and not the end of the run."""
    try:
        return clean()
    except Unusable:
        raise
    except Exception as error:
        log.debug("%s breaks the %s parser", page["url"], kind, exc_info=True)
        raise Unusable(f"the {kind} cannot be parsed ({type(error).__name__}: {error})") from error


def _tidy(text: str) -> str:
    """Bring Unicode to NFC and take out characters that no reader sees (NUL, lone surrogates)."""
    whole = text.encode("utf-8", "ignore").decode()
    return unicodedata.normalize("NFC", whole.replace("\0", "")).strip()


def _keywords(fields: dict[str, Any]) -> list[str]:
    return [word for name in ("news_keywords", "keywords", "tags") for word in _strings(fields.get(name))]


def _strings(value: object) -> list[str]:
    return list(_flat(value))


def _flat(value: object) -> Iterator[str]:
    if isinstance(value, str):
        if value.strip():
            yield value.strip()
    elif isinstance(value, list):
        for item in value:
            yield from _flat(item)
    elif isinstance(value, dict) and value.get("name"):
        yield str(value["name"])
