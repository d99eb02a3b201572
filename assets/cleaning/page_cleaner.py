"""Cleans one page: the result is a document, or a drop with its reason."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from typing import Any, NamedTuple
from urllib.parse import unquote

from rag_assay.assets.cleaning.article import clean_article, date_guess_options, find_date, page_metadata
from rag_assay.assets.cleaning.blocks import paragraphs, read_blocks, without_numbers
from rag_assay.assets.cleaning.data_files import clean_json, clean_table
from rag_assay.assets.cleaning.draft import CODE_VERSION, DAMAGED, MIN_WORDS, DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.epub import clean_epub
from rag_assay.assets.cleaning.eurlex.cleaner import clean_eurlex, is_eurlex, notice_of
from rag_assay.assets.cleaning.fidelity import PageComparison
from rag_assay.assets.cleaning.language import detector, language_of
from rag_assay.assets.cleaning.links import with_links
from rag_assay.assets.cleaning.mail import clean_eml, clean_msg
from rag_assay.assets.cleaning.notebooks import clean_notebook
from rag_assay.assets.cleaning.office import clean_docx, clean_pptx, clean_xlsx
from rag_assay.assets.cleaning.old_workbooks import clean_xls
from rag_assay.assets.cleaning.opendocument import clean_odp, clean_ods, clean_odt
from rag_assay.assets.cleaning.outline import OutlineBuilder
from rag_assay.assets.cleaning.page_facts import page_facts
from rag_assay.assets.cleaning.pdf import clean_pdf
from rag_assay.assets.cleaning.source_code import clean_source
from rag_assay.assets.cleaning.subtitles import clean_subtitles
from rag_assay.assets.cleaning.text_files import clean_beir, clean_markdown, clean_rst, clean_text
from rag_assay.assets.cleaning.tree import Element, parse_page
from rag_assay.assets.cleaning.unicode import collapse_whitespace, count_words, repair_encoding, tidy
from rag_assay.assets.cleaning.xml_files import clean_xml
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.extras import MissingPackageError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.iso_dates import iso, texts_in
from rag_assay.warehouse.office_packages import KINDS
from rag_assay.warehouse.pages import PASSING, decode, media_type, read_body
from rag_assay.warehouse.paths import Home


def clean_content(
    body: bytes, content_type: str | None, url: str, selector: str, fetched: date | None = None
) -> DocumentDraft:
    html, _encoding = decode(body, content_type)
    root = parse_page(html)
    named = _named(root, selector)
    if not named:
        raise UnusablePage(f"`content` names nothing in this page: {selector!r}")
    elements = [element for element in named if not isinstance(element, str)]
    for element in elements:
        without_numbers(element)
    blocks = [block for element in named for block in _blocks(element)]
    if not blocks:
        raise UnusablePage(f"what `content` names in this page has no text: {selector!r}")
    blocks[0] = (blocks[0][0], blocks[0][1].lstrip())  # a document's text begins with a word
    outline = OutlineBuilder.of(blocks)
    facts = page_facts(root, url)
    guessed = None if facts.published_at and facts.title else _guessed(html, url, fetched)
    guessed_date = guessed.date if guessed else None
    published, source = find_date(facts, read_blocks(root), guessed_date, url, html, fetched)
    named_blocks = [block for element in elements for block in read_blocks(element)]
    comparison = PageComparison(root, named_blocks, outline.text, outline.sections)
    metadata = page_metadata(facts) | {
        "teaser": facts.description,
        "date_source": source,
        "fidelity": comparison.counts(),
    }
    return DocumentDraft(
        text=outline.text,
        title=facts.title or (guessed.title if guessed else None),
        published_at=published,
        language=facts.language,
        authors=facts.authors,
        keywords=facts.keywords,
        sections=tuple(outline.sections),
        metadata={name: value for name, value in metadata.items() if value},
        repaired=True,
        comparison=comparison,
    )


def _blocks(node: Element | str) -> Iterator[tuple[int | None, str]]:
    if not isinstance(node, str):
        yield from paragraphs(read_blocks(node))
    elif text := tidy(repair_encoding(collapse_whitespace(node))):
        yield None, text


def _guessed(html: str, url: str, fetched: date | None) -> Any:
    from trafilatura import extract_metadata

    return extract_metadata(html, default_url=url or None, date_config=date_guess_options(fetched))


def _named(root: Element, selector: str) -> list[Element | str]:
    from parsel.csstranslator import HTMLTranslator

    found = root.xpath(HTMLTranslator().css_to_xpath(selector))
    elements = {node for node in found if not isinstance(node, str)}
    return [
        node if not isinstance(node, str) else str(node)
        for node in found
        if isinstance(node, str) or not any(above in elements for above in node.iterancestors())
    ]


def clean_html(
    body: bytes, content_type: str | None, url: str, content: str | None = None, fetched: date | None = None
) -> DocumentDraft:
    if content:
        return clean_content(body, content_type, url, content, fetched)
    html, _encoding = decode(body, content_type)
    if notice := notice_of(html, url):
        raise UnusablePage(f"not the text of the act, but a notice: {notice[:200]!r}")
    if is_eurlex(html, url):
        return clean_eurlex(body, content_type, url)
    return clean_article(body, content_type, url, fetched)


_SHOWN = (
    *("url", "title", "text", "language", "published_at"),
    *("authors", "keywords", "sections", "metadata"),
)

log = logging.getLogger(__name__)


HTML = frozenset({"text/html", "application/xhtml+xml"})
_PDF = "application/pdf"
_PASSAGE = "application/x-beir+json"
# CELEX of a consolidated text
_VERSION = re.compile(r"(?<!\w)0\d{4}[A-Z]{1,2}\d{4}-(\d{4})(\d{2})(\d{2})(?!\d)")
_FILES: dict[str, tuple[str, Callable[[bytes, str | None], DocumentDraft]]] = {
    "text/markdown": ("Markdown", clean_markdown),
    "text/x-rst": ("reStructuredText", clean_rst),
    KINDS[".docx"].media_type: ("DOCX", lambda body, _: clean_docx(body)),
    KINDS[".epub"].media_type: ("EPUB", lambda body, _: clean_epub(body)),
    KINDS[".pptx"].media_type: ("PPTX", lambda body, _: clean_pptx(body)),
    KINDS[".xlsx"].media_type: ("XLSX", lambda body, _: clean_xlsx(body)),
    KINDS[".odp"].media_type: ("ODP", lambda body, _: clean_odp(body)),
    KINDS[".ods"].media_type: ("ODS", lambda body, _: clean_ods(body)),
    KINDS[".odt"].media_type: ("ODT", lambda body, _: clean_odt(body)),
    "application/json": ("JSON", clean_json),
    "application/vnd.ms-excel": ("XLS", lambda body, _: clean_xls(body)),
    "application/vnd.ms-outlook": ("MSG", lambda body, _: clean_msg(body)),
    "application/x-ipynb+json": ("notebook", clean_notebook),
    "message/rfc822": ("EML", lambda body, _: clean_eml(body)),
    "text/csv": ("table", clean_table),
    "text/tab-separated-values": ("table", clean_table),
    **{f"text/x-{kind}": ("source code", clean_source) for kind in ("python", "source", "toml", "yaml")},
    **dict.fromkeys(("application/x-subrip", "text/vtt"), ("subtitles", clean_subtitles)),
    **dict.fromkeys(
        ("application/xml", "text/xml", "application/rss+xml", "application/atom+xml"), ("XML", clean_xml)
    ),
}
_OF_AN_ACT = frozenset({"version", "meta", "journal"})


class Cleaned(NamedTuple):
    """What one page gave: a row of `schemas.DOCUMENTS`, or else one of `schemas.DROPPED`."""

    document: dict[str, Any] | None
    dropped: dict[str, Any] | None


def page_key(
    source: str,
    page: dict[str, Any],
    language: str | None,
    date_by: str | None = None,
    *,
    links: bool = False,
    ocr: str | None = None,
) -> str:
    """Digest what a page's document depends on: what was fetched (not when), and how it is cleaned."""
    fetched = [page[name] for name in ("url", "content_type", "sha256", "fields")]
    further = [*([date_by] if date_by else []), *(["links"] if links else [])]
    further += [f"ocr {ocr}"] if ocr and media_type(page["content_type"]) == _PDF else []
    return digest([CODE_VERSION, detector(), source, language, fetched, *further])


def doc_id(source: str, page: dict[str, Any]) -> str:
    """Return a document's id: a digest of source and URL, or a passage's own id. The latter is unique within
    its source and file: `SOURCE:FILE#ID`, or `SOURCE:ID` for a BEIR folder.
    """
    fields = page["fields"]
    # Most pages have no id of their own, and parsing the fields of every page costs seconds.
    passage = json.loads(fields) if fields and '"id"' in fields else {}
    passage_id, file = passage.get("id"), passage.get("file")
    if passage_id is None:
        return digest([source, page["url"]])
    return f"{source}:{file}#{passage_id}" if file else f"{source}:{passage_id}"


def clean_page(
    source: str,
    page: dict[str, Any],
    home: Home,
    language: str | None,
    date_by: str | None = None,
    *,
    links: bool = False,
    ocr: str | None = None,
) -> Cleaned:
    """Clean one stored page; a page without a document is a drop with its reason. A drop that may succeed
    later (damaged bytes, a lack of system resources) has no page key.
    """
    key = page_key(source, page, language, date_by, links=links, ocr=ocr)
    row = {"source": source, "url": page["url"]}
    try:
        document = _document(source, page, home, language, links=links, ocr=ocr)
        return Cleaned({**document, "page_key": key}, None)
    except UnusablePage as reason:
        return Cleaned(None, {**row, "reason": str(reason), "page_key": key})
    except CorruptFileError as damage:
        log.warning("%s", damage)
        return Cleaned(None, {**row, "reason": DAMAGED, "page_key": None})
    except Exception as error:
        if not may_pass(error):
            raise
        what = getattr(error, "strerror", None) or type(error).__name__
        return Cleaned(None, {**row, "reason": f"{PASSING}{what}", "page_key": None})


def may_pass(error: BaseException) -> bool:
    """Return whether an error is the system's, not the page's: too many open files, a disk, no memory.
    Parsers raise `OSError` for unreadable bytes, too, but only the system's have a number.
    """
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno is not None)


def _document(
    source: str, page: dict[str, Any], home: Home, language: str | None, *, links: bool, ocr: str | None
) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(page["fields"] or "{}")
    draft = draft_of(page, read_body(home, page["sha256"]), ocr)
    as_it_is = draft.repaired or "id" in fields  # passages are data sets
    text = tidy(draft.text if as_it_is else repair_encoding(draft.text))
    if "id" not in fields and (words := count_words(text)) < MIN_WORDS:
        raise UnusablePage(f"too short: {words} {'word' if words == 1 else 'words'}")
    detected, language_source = language_of(language, draft.language, text)
    has_places = text == draft.text  # sections count its characters
    if links:
        draft = with_links(replace(draft, text=text), page["url"])
        text = draft.text
    published, date_source = _published_at(page, fields, draft)
    metadata = {
        **draft.metadata,
        **({"language_source": language_source} if language_source else {}),
        **fields,
        "date_source": date_source,
    }
    source_title = fields.get("title") or fields.get("headline")
    source_authors = texts_in(fields.get("authors") or fields.get("author"))
    page_authors = list(draft.authors)
    knows_more = not fields.keys().isdisjoint({"id", "celex"})
    shown = {
        "url": page["url"],
        "title": source_title or draft.title if knows_more else draft.title or source_title,
        "text": text,
        "language": detected,
        "published_at": published,
        "authors": source_authors or page_authors if knows_more else page_authors or source_authors,
        "keywords": list(dict.fromkeys(_keywords(fields) or draft.keywords)),
        "sections": list(draft.sections) if has_places else [],
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
    """Return the digest of a document's text and metadata, without `metadata.fidelity`."""
    shown = {name: document[name] for name in _SHOWN}
    metadata = json.loads(shown["metadata"])
    if metadata.pop("fidelity", None):
        shown["metadata"] = json.dumps(metadata, sort_keys=True, ensure_ascii=False)
    return digest(shown)


def _published_at(
    page: dict[str, Any], fields: dict[str, Any], draft: DocumentDraft
) -> tuple[str | None, str]:
    """Return the date of publication and its source: of the cleaner (version, journal, json_ld, meta, celex,
    url, text), file for a passage or table row, meta for the spider's, or none. An act's page wins over its
    spider.
    """
    page_date, page_source = draft.published_at, str(draft.metadata.get("date_source") or "none")
    source_date = fields.get("published_at") or fields.get("date")
    if page_date and ("structure" in draft.metadata and page_source in _OF_AN_ACT):
        return page_date, page_source
    if source_date:
        is_same = page_date is not None and str(source_date)[:10] == page_date[:10] and page_source != "none"
        of_field = "file" if media_type(page["content_type"]) == _PASSAGE else "meta"
        return source_date, page_source if is_same else of_field
    if page_date:
        return page_date, page_source
    version = _VERSION.search(f"{fields.get('celex') or ''} {unquote(page['url'])}")
    day = iso("-".join(version.groups())) if version else None
    return (day, "celex") if day else (None, "none")


def draft_of(page: Mapping[str, Any], body: bytes, ocr: str | None = None) -> DocumentDraft:
    """Clean a page's body (`schemas.PAGES`); ``ocr``: languages of scans. Raises UnusablePage."""
    kind = media_type(page["content_type"])
    if kind == _PASSAGE:
        return clean_beir(body)
    if kind in HTML:
        content = json.loads(page["fields"] or "{}").get("content")
        fetched = page.get("fetched_at")
        day = fetched.date() if fetched else None
        return _caught(
            "HTML", page, lambda: clean_html(body, page["content_type"], page["url"], content, day)
        )
    if kind == _PDF:
        return _caught("PDF", page, lambda: clean_pdf(body, ocr))
    if kind in _FILES:
        name, clean = _FILES[kind]
        return _caught(name, page, lambda: clean(body, page["content_type"]))
    if kind.startswith("text/"):
        return clean_text(body, page["content_type"])
    raise UnusablePage(f"no reader for {kind or 'an unknown type'}")


def _caught(kind: str, page: Mapping[str, Any], clean: Callable[[], DocumentDraft]) -> DocumentDraft:
    try:
        return clean()
    except (UnusablePage, MissingPackageError):
        raise
    except Exception as error:
        if may_pass(error):
            raise
        log.debug("%s breaks the %s parser", page["url"], kind, exc_info=True)
        detail = error.args[0] if isinstance(error, KeyError) and error.args else error
        raise UnusablePage(f"{_why_broken(kind, error)} ({type(error).__name__}: {detail})") from error


def _why_broken(kind: str, error: Exception) -> str:
    if kind in _PACKAGES:
        for kinds, words in _BROKEN:
            if isinstance(error, kinds):
                return f"damaged {kind} file: {words}"
    return f"the {kind} cannot be parsed"


_PACKAGES = {kind.name for kind in KINDS.values()}
_BROKEN: tuple[tuple[type[Exception], str], ...] = (
    (LookupError, "a part of it is missing"),
    (SyntaxError, "a part of it is not XML"),
    (AttributeError, "a part of it has another type than the file declares"),
)


def _keywords(fields: dict[str, Any]) -> list[str]:
    return [word for name in ("news_keywords", "keywords", "tags") for word in texts_in(fields.get(name))]
