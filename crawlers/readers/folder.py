"""A folder of documents, with its subfolders: HTML, text, Markdown, RST, PDF, Office and EPUB files."""

from __future__ import annotations

from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import ClassVar

from rag_assay.crawlers.items import Page
from rag_assay.crawlers.readers.contract import Reader
from rag_assay.crawlers.readers.files import (
    check_file,
    display_name,
    failed_page,
    files_of,
    root_of,
    why_unreadable,
)
from rag_assay.warehouse import pdf
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.files import is_folder, walk
from rag_assay.warehouse.office_packages import KINDS, why_not
from rag_assay.warehouse.pages import decode
from rag_assay.warehouse.source import Source

TYPES = {
    ".html": "text/html",
    ".htm": "text/html",
    ".txt": "text/plain",
    ".md": "text/markdown",
    ".rst": "text/x-rst",
    ".pdf": "application/pdf",
    **{suffix: kind.media_type for suffix, kind in KINDS.items()},
}
_PACKAGES = {kind.media_type: kind for kind in KINDS.values()}


class Folder(Reader):
    """A folder of HTML, text, Markdown, RST, PDF, Office and EPUB files, with its subfolders."""

    kind: ClassVar[str] = "folder"

    def read(self, source: Source) -> Iterator[Page]:
        root = root_of(source)
        if not root.is_dir():
            what = "is not a folder" if root.exists() else "does not exist"
            raise InputError(f"path: the folder {root} {what}.")
        empty = True
        for path in walk(root):
            empty = False
            yield _page(path.relative_to(root).as_posix(), path, source)
        if empty:
            raise InputError(f"path: the folder {root} holds no file.")


class FilesBySuffix(Reader):
    """A reader of the files of some suffixes; other files are passed over."""

    suffixes: ClassVar[tuple[str, ...]] = ()  # default: that of the kind

    def read(self, source: Source) -> Iterator[Page]:
        return read_kinds(source, self.suffixes or (f".{self.kind}",))


class HtmlFiles(FilesBySuffix):
    """HTML files: a page a file."""

    kind: ClassVar[str] = "html"
    suffixes: ClassVar[tuple[str, ...]] = (".html", ".htm")


class DocxFiles(FilesBySuffix):
    """Word documents: a page a file."""

    kind: ClassVar[str] = "docx"


class EpubFiles(FilesBySuffix):
    """EPUB books: a page a file."""

    kind: ClassVar[str] = "epub"


class PdfFiles(FilesBySuffix):
    """PDF files that hold text; any other one is a failed page with the reason."""

    kind: ClassVar[str] = "pdf"

    def read(self, source: Source) -> Iterator[Page]:
        for page in super().read(source):
            reason = pdf.why_not(page.body) if page.body is not None else None
            yield page if reason is None else failed_page(page.url, reason, page.content_type)


class PptxFiles(FilesBySuffix):
    """PowerPoint presentations: a page a file."""

    kind: ClassVar[str] = "pptx"


class RstFiles(FilesBySuffix):
    """reStructuredText files: a page a file."""

    kind: ClassVar[str] = "rst"


class XlsxFiles(FilesBySuffix):
    """Excel workbooks: a page a file, with all of its sheets."""

    kind: ClassVar[str] = "xlsx"


def read_kinds(source: Source, suffixes: tuple[str, ...]) -> Iterator[Page]:
    root = root_of(source)
    for _, path in files_of(source, suffixes):
        name = path.name if path == root else path.relative_to(root).as_posix()
        yield _page(name, path, source)


def _page(name: str, path: Path, source: Source) -> Page:
    url, limit = display_name(name), source.limits.page_bytes
    kind = TYPES.get(path.suffix.lower()) or ("inode/directory" if is_folder(path) else None)
    if url != name:
        return Page(url, url, content_type=kind, reason="the file's name is not UTF-8")
    if kind is None:
        return Page(url, url, reason=f"unsupported file type: {path.suffix.lower() or 'none'}")
    try:
        check_file(path, source)
        body, changed = _content(path, limit)
    except (OSError, ValueError) as error:
        return Page(url, url, content_type=kind, reason=why_unreadable(error))
    if reason := _why_not(body, kind, limit):
        return Page(url, url, content_type=kind, reason=reason)
    fields = {"encoding": decode(body, kind)[1]} if kind.startswith("text/") else {}
    return Page(url, url, content_type=kind, last_modified=changed, body=body, fields=fields)


def _content(path: Path, limit: int) -> tuple[bytes, str]:
    with path.open("rb") as file:
        return file.read(limit + 1), formatdate(path.stat().st_mtime, usegmt=True)


def _why_not(body: bytes, kind: str, limit: int) -> str | None:
    if not body:
        return "empty file"
    if len(body) > limit:
        return f"larger than {limit} bytes"
    if kind == TYPES[".pdf"] and b"%PDF-" not in body[:1024]:
        return "not a PDF file"
    package = _PACKAGES.get(kind)
    return why_not(body, package) if package else None
