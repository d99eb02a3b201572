"""EPUB books: the chapters in reading order, their headings as sections."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from io import BytesIO
from typing import Any
from urllib.parse import unquote
from zipfile import ZipFile

from rag_assay.assets.cleaning.blocks import paragraphs, read_blocks
from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.outline import OutlineBuilder
from rag_assay.assets.cleaning.titles import is_title, names_in
from rag_assay.assets.cleaning.tree import parse_page, parse_xml
from rag_assay.assets.cleaning.unicode import tidy
from rag_assay.warehouse.iso_dates import iso
from rag_assay.warehouse.office_packages import KINDS, why_not
from rag_assay.warehouse.pages import decode

_PAGES = frozenset({"application/xhtml+xml", "text/html", "text/x-oeb1-document"})
_ENCRYPTION = "META-INF/encryption.xml"


def clean_epub(body: bytes) -> DocumentDraft:
    """Extract the text of a book in the order of its spine (EPUB 2 and 3), headings as sections. Title,
    creators, date, language and subjects come from its package file.
    """
    if reason := why_not(body, KINDS[".epub"]):
        raise UnusablePage(f"EPUB: {reason}")
    with ZipFile(BytesIO(body)) as archive:
        at = _package(archive)
        package = _xml(archive, at)
        chapters = list(_chapters(archive, package, posixpath.dirname(at)))
    outline = OutlineBuilder.of([block for chapter in chapters for block in chapter])
    if not outline.text:
        raise UnusablePage("EPUB: no text: images only")
    title = next((text for text in _said(package, "title") if is_title(text)), None)
    published = next((day for text in _said(package, "date") if (day := iso(text))), None)
    language = (_said(package, "language") or [""])[0][:2].lower()
    metadata = {
        "date_source": "file" if published else "none",
        "publisher": ", ".join(_said(package, "publisher")),
    }
    return DocumentDraft(
        text=outline.text,
        title=title or outline.first_heading or outline.text[:80],
        published_at=published,
        language=language if language.isalpha() else None,
        authors=tuple(dict.fromkeys(name for text in _said(package, "creator") for name in names_in(text))),
        keywords=tuple(dict.fromkeys(_said(package, "subject"))),
        sections=tuple(outline.sections),
        metadata={name: value for name, value in metadata.items() if value},
        repaired=True,
    )


def _package(archive: ZipFile) -> str:
    roots = _xml(archive, KINDS[".epub"].part).xpath("//*[local-name() = 'rootfile']/@full-path")
    if not roots or str(roots[0]) not in archive.namelist():
        raise UnusablePage("EPUB: its container names no package file that is there")
    return str(roots[0])


def _chapters(archive: ZipFile, package: Any, folder: str) -> Iterator[list[tuple[int | None, str]]]:
    items = {node.get("id"): node for node in package.xpath("//*[local-name() = 'manifest']/*")}
    locked = _encrypted(archive)
    names = set(archive.namelist())
    for reference in package.xpath("//*[local-name() = 'spine']/*/@idref"):
        item = items.get(str(reference))
        if item is None or item.get("media-type") not in _PAGES:
            continue
        name = posixpath.normpath(posixpath.join(folder, unquote((item.get("href") or "").partition("#")[0])))
        if name in locked:
            raise UnusablePage("EPUB: encrypted: its chapters are locked by a shop (DRM)")
        if name not in names:
            raise UnusablePage(f"EPUB: damaged: the chapter {name} is not there")
        html, _ = decode(archive.read(name), "application/xhtml+xml")
        if html.strip():
            root = parse_page(html)
            body = root.find("body")
            yield list(paragraphs(read_blocks(root if body is None else body)))


def _encrypted(archive: ZipFile) -> set[str]:
    if _ENCRYPTION not in archive.namelist():
        return set()
    found = _xml(archive, _ENCRYPTION).xpath("//*[local-name() = 'CipherReference']/@URI")
    return {unquote(str(name)) for name in found}


def _xml(archive: ZipFile, name: str) -> Any:
    return parse_xml(archive.read(name))


def _said(package: Any, name: str) -> list[str]:
    found = package.xpath("//*[local-name() = 'metadata']//*[local-name() = $name]", name=name)
    return [text for node in found if (text := tidy(" ".join("".join(node.itertext()).split())))]
