"""Cleans one page: the result is a document, or a drop with its reason."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote

from rag_assay.assets.cleaning.draft import MIN_WORDS, DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.epub import clean_epub
from rag_assay.assets.cleaning.html import clean_html
from rag_assay.assets.cleaning.language import detector, language_of
from rag_assay.assets.cleaning.markdown import clean_markdown
from rag_assay.assets.cleaning.office.docx import clean_docx
from rag_assay.assets.cleaning.office.pptx import clean_pptx
from rag_assay.assets.cleaning.office.xlsx import clean_xlsx
from rag_assay.assets.cleaning.pdf import clean_pdf
from rag_assay.assets.cleaning.plain import clean_beir, clean_text
from rag_assay.assets.cleaning.rst import clean_rst
from rag_assay.assets.cleaning.unicode import repair_encoding, tidy
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.extras import MissingPackageError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.iso_dates import iso
from rag_assay.warehouse.office_packages import KINDS
from rag_assay.warehouse.pages import PASSING, media_type, read_body
from rag_assay.warehouse.paths import Home

CODE_VERSION = "13"
"""Raised with every change of what a page gives; pages cleaned by another version are cleaned again."""

_SHOWN = (
    *("url", "title", "text", "language", "published_at"),
    *("authors", "keywords", "sections", "metadata"),
)

DAMAGED = "the stored page is damaged"
"""Reason of a drop whose page is to be fetched again."""

log = logging.getLogger(__name__)
logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # its complaints are our recorded reasons


_PASSAGE = "application/x-beir+json"
_VERSION = re.compile(
    r"(?<!\w)0\d{4}[A-Z]{1,2}\d{4}-(\d{4})(\d{2})(\d{2})(?!\d)"
)  # CELEX of a consolidated text
_FILES: dict[str, tuple[str, Callable[[bytes, str | None], DocumentDraft]]] = {
    "application/pdf": ("PDF", lambda body, _: clean_pdf(body)),
    "text/markdown": ("Markdown", clean_markdown),
    "text/x-rst": ("reStructuredText", clean_rst),
    KINDS[".docx"].media_type: ("DOCX", lambda body, _: clean_docx(body)),
    KINDS[".epub"].media_type: ("EPUB", lambda body, _: clean_epub(body)),
    KINDS[".pptx"].media_type: ("PPTX", lambda body, _: clean_pptx(body)),
    KINDS[".xlsx"].media_type: ("XLSX", lambda body, _: clean_xlsx(body)),
}
_OF_AN_ACT = frozenset({"version", "meta", "journal"})


class Cleaned(NamedTuple):
    """What one page gave: a row of `schemas.DOCUMENTS`, or else one of `schemas.DROPPED`."""

    document: dict[str, Any] | None
    dropped: dict[str, Any] | None


def page_key(source: str, page: dict[str, Any], language: str | None, date_by: str | None = None) -> str:
    """Digest everything that a page's document follows from: what was fetched, and how it is cleaned.

    page: a row of `schemas.PAGES`; when it was fetched does not count
    language: what the source says of all its pages
    date_by: identity of the model that is asked for missing dates
    """
    fetched = [page[name] for name in ("url", "content_type", "sha256", "fields")]
    return digest([CODE_VERSION, detector(), source, language, fetched, *([date_by] if date_by else [])])


def doc_id(source: str, page: dict[str, Any]) -> str:
    """Return the id of a page's document: a digest of source and URL, or the id that a passage has itself.

    Such ids count within their source and file: `SOURCE:FILE#ID`, `SOURCE:ID` of the one corpus of a BEIR
    folder.
    """
    fields = page["fields"]
    # Most pages have no id of their own, and parsing the fields of every page costs seconds.
    passage = json.loads(fields) if fields and '"id"' in fields else {}
    passage_id, file = passage.get("id"), passage.get("file")
    if passage_id is None:
        return digest([source, page["url"]])
    return f"{source}:{file}#{passage_id}" if file else f"{source}:{passage_id}"


def clean_page(
    source: str, page: dict[str, Any], home: Home, language: str | None, date_by: str | None = None
) -> Cleaned:
    """Clean one stored page; what gives no document is a drop with its reason.

    A drop that another look may mend has no page key: the stored bytes are damaged, or the system was short
    of something.
    """
    key = page_key(source, page, language, date_by)
    row = {"source": source, "url": page["url"]}
    try:
        return Cleaned({**_document(source, page, home, language), "page_key": key}, None)
    except UnusablePage as reason:
        return Cleaned(None, {**row, "reason": str(reason), "page_key": key})
    except CorruptFileError as damage:
        log.warning("%s", damage)
        return Cleaned(None, {**row, "reason": DAMAGED, "page_key": None})
    except Exception as error:
        if not may_pass(error):
            raise
        return Cleaned(None, {**row, "reason": f"{PASSING}{_words(error)}", "page_key": None})


def may_pass(error: BaseException) -> bool:
    """Return whether an error is one of the system, not of the page: too many open files, a disk, no memory.

    Parsers raise `OSError` for bytes that they cannot read, too, but only the system gives it a number.
    """
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno is not None)


def _words(error: BaseException) -> str:
    return getattr(error, "strerror", None) or type(error).__name__


def _document(source: str, page: dict[str, Any], home: Home, language: str | None) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(page["fields"] or "{}")
    draft = _clean(page, read_body(home, page["sha256"]), fields.get("content"))
    as_it_is = draft.repaired or "id" in fields  # passages are data sets
    text = tidy(draft.text if as_it_is else repair_encoding(draft.text))
    if "id" not in fields and len(text.split()) < MIN_WORDS:
        raise UnusablePage(f"too short: {len(text.split())} words")
    detected, language_source = language_of(language, draft.language, text)
    published, date_source = _published_at(page, fields, draft)
    metadata = {
        **draft.metadata,
        **({"language_source": language_source} if language_source else {}),
        **fields,
        "date_source": date_source,
    }
    shown = {
        "url": page["url"],
        "title": _title(fields, draft),
        "text": text,
        "language": detected,
        "published_at": published,
        "authors": _authors(fields, draft),
        "keywords": list(dict.fromkeys(_keywords(fields) or draft.keywords)),
        "sections": list(draft.sections) if text == draft.text else [],
        "metadata": json.dumps(metadata, sort_keys=True, ensure_ascii=False),
    }
    return {
        "doc_id": doc_id(source, page),
        "version": version_of(shown),
        "source": source,
        "page_sha256": page["sha256"],
        **shown,
    }


def version_of(document: dict[str, Any]) -> str:
    """Digest all that a reader of a document can see: columns of `schemas.DOCUMENTS`."""
    return digest({name: document[name] for name in _SHOWN})


def _title(fields: dict[str, Any], draft: DocumentDraft) -> str | None:
    """Return the title; that of a web page as its cleaner chose it, without the name of the site."""
    source_title = fields.get("title") or fields.get("headline")
    return source_title or draft.title if _source_knows_more(fields) else draft.title or source_title


def _authors(fields: dict[str, Any], draft: DocumentDraft) -> list[str]:
    source_authors = _strings(fields.get("authors") or fields.get("author"))
    return (
        source_authors or list(draft.authors)
        if _source_knows_more(fields)
        else list(draft.authors) or source_authors
    )


def _source_knows_more(fields: dict[str, Any]) -> bool:
    """Return whether a source knows more of a document than its own page says: a table, a list of acts."""
    return not fields.keys().isdisjoint({"id", "celex"})


def _published_at(
    page: dict[str, Any], fields: dict[str, Any], draft: DocumentDraft
) -> tuple[str | None, str]:
    """Return the date of publication and its source; neither is ever silently missing.

    The page of an act wins over its spider, which gives the date of the document where it found no other. The
    source is what the cleaner says of the date (version, journal, json_ld, meta, celex, url, text), file for
    the date of a passage or a table's row, meta for what only the spider found on the page, or none.
    """
    page_date, page_source = draft.published_at, str(draft.metadata.get("date_source") or "none")
    source_date = fields.get("published_at") or fields.get("date")
    if page_date and ("structure" in draft.metadata and page_source in _OF_AN_ACT):
        return page_date, page_source
    if source_date:
        is_same = page_date is not None and str(source_date)[:10] == page_date[:10] and page_source != "none"
        return source_date, page_source if is_same else _source_of_field(page)
    if page_date:
        return page_date, page_source
    version = _VERSION.search(f"{fields.get('celex') or ''} {unquote(page['url'])}")
    day = iso("-".join(version.groups())) if version else None
    return (day, "celex") if day else (None, "none")


def _source_of_field(page: dict[str, Any]) -> str:
    """Return where a spider or reader has a date from: passages from a column of their file."""
    return "file" if media_type(page["content_type"]) == _PASSAGE else "meta"


def _clean(page: dict[str, Any], body: bytes, content: str | None) -> DocumentDraft:
    kind = media_type(page["content_type"])
    if kind == _PASSAGE:
        return clean_beir(body)
    if kind in {"text/html", "application/xhtml+xml"}:
        fetched = page.get("fetched_at")
        day = fetched.date() if fetched else None
        return _caught(
            "HTML", page, lambda: clean_html(body, page["content_type"], page["url"], content, day)
        )
    if kind in _FILES:
        name, clean = _FILES[kind]
        return _caught(name, page, lambda: clean(body, page["content_type"]))
    if kind.startswith("text/"):
        return clean_text(body, page["content_type"])
    raise UnusablePage(f"no reader for {kind or 'an unknown type'}")


def _caught(kind: str, page: dict[str, Any], clean: Callable[[], DocumentDraft]) -> DocumentDraft:
    """Clean a page; one that breaks its parser, however that ends, is a drop and not the end of the run."""
    try:
        return clean()
    except (UnusablePage, MissingPackageError):
        raise
    except Exception as error:
        if may_pass(error):
            raise
        log.debug("%s breaks the %s parser", page["url"], kind, exc_info=True)
        raise UnusablePage(f"the {kind} cannot be parsed ({type(error).__name__}: {error})") from error


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
