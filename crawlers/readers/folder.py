"""A folder of documents, with its subfolders: web pages, text, Office files, mails, code, passages."""

from __future__ import annotations

from collections.abc import Iterator
from email.utils import formatdate
from itertools import chain
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from rag_assay.crawlers.items import Page
from rag_assay.crawlers.readers import jsonl, table
from rag_assay.crawlers.readers.contract import Reader
from rag_assay.crawlers.readers.files import (
    check_file,
    display_name,
    failed_page,
    files_of,
    root_of,
    why_unreadable,
)
from rag_assay.crawlers.readers.passages import Passages
from rag_assay.warehouse import pdf
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.files import is_folder, walk
from rag_assay.warehouse.office_packages import KINDS, VARIANTS, why_not
from rag_assay.warehouse.pages import PASSING, decode
from rag_assay.warehouse.source import Source

_SOURCE_CODE = (
    ".bash", ".c", ".cc", ".cpp", ".cs", ".css", ".cxx", ".ex", ".exs", ".go", ".h", ".hpp", ".java", ".jl",
    ".js", ".jsx", ".kt", ".lua", ".mjs", ".php", ".pl", ".pm", ".proto", ".ps1", ".r", ".rb", ".rs",
    ".scala", ".sh", ".sql", ".swift", ".tf", ".ts", ".tsx", ".vue", ".zig",
)  # fmt: skip
TYPES = {
    ".html": "text/html",
    ".htm": "text/html",
    ".txt": "text/plain",
    ".md": "text/markdown",
    ".rst": "text/x-rst",
    ".pdf": "application/pdf",
    **{suffix: kind.media_type for suffix, kind in KINDS.items()},
    **{variant: KINDS[suffix].media_type for variant, suffix in VARIANTS.items()},
    ".eml": "message/rfc822",
    ".ipynb": "application/x-ipynb+json",
    ".msg": "application/vnd.ms-outlook",
    ".xls": "application/vnd.ms-excel",
    ".srt": "application/x-subrip",
    ".vtt": "text/vtt",
    **dict.fromkeys((".atom", ".rss", ".xml"), "application/xml"),
    ".toml": "text/x-toml",
    **dict.fromkeys((".yaml", ".yml"), "text/x-yaml"),
    **dict.fromkeys((".py", ".pyi"), "text/x-python"),
    **dict.fromkeys(_SOURCE_CODE, "text/x-source"),
}
# Files without passages are one document of this type. Packed files and Parquet hold passages only.
DATA = {
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "application/json"),
}
_ROWS = table.SUFFIXES
_ITEMS = jsonl.LINES + jsonl.WHOLE
_LOOKED_AT = 20  # a file without a passage in so many first rows is a document
_PACKAGES = {kind.media_type: kind for kind in KINDS.values()}


class Folder(Reader):
    """A folder with its subfolders: documents, mails, notebooks, source code, CSV, JSON and Parquet.

    HTML, XML, text, Markdown, RST, PDF, Office and OpenDocument files, EPUB, mails, subtitles, notebooks,
    YAML, TOML and source code are one page per file; CSV, JSON and Parquet one page per passage.

    suffixes: endings of the files that are read, such as `.md`; default: all kinds
    """

    kind: ClassVar[str] = "folder"
    suffixes: tuple[Annotated[str, Field(pattern=r"^\.\w+(\.\w+)*$")], ...] = ()

    def read(self, source: Source) -> Iterator[Page]:
        root = root_of(source)
        if not root.exists():
            raise InputError(f"path: the folder {root} does not exist.")
        passages = Passages(source)
        endings = tuple(one.lower() for one in self.suffixes)
        empty = True
        for path in walk(root) if root.is_dir() else [root]:
            if not endings or path.name.lower().endswith(endings) or is_folder(path):
                empty = False
                name = path.name if path == root else path.relative_to(root).as_posix()
                yield from pages_of_file(name, path, source, passages)
        if empty:
            of_these = f" that ends in {' or '.join(endings)}" if endings else ""
            raise InputError(f"path: the folder {root} holds no file{of_these}.")


def pages_of_file(name: str, path: Path, source: Source, passages: Passages) -> Iterator[Page]:
    """A table or JSON is passages if one of its first rows is one, else a document."""
    if name != display_name(name) or not name.lower().endswith(_ROWS + _ITEMS):
        yield _page(name, path, source)
        return
    open_passages = table.rows_of if name.lower().endswith(_ROWS) else jsonl.items_of
    pages = open_passages(name, path, source, passages)
    first: list[Page] = []
    for page in pages:
        first.append(page)
        if page.body is not None or len(first) == _LOOKED_AT:
            break
    is_document = first and first[-1].body is None and path.suffix.lower() in DATA
    if not first or (is_document and not _is_unreadable(first)):
        yield _page(name, path, source)
    else:
        yield from chain(first, pages)


def _is_unreadable(pages: list[Page]) -> bool:
    return len(pages) == 1 and (pages[0].reason or "").startswith(("cannot be read", "truncated", PASSING))


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
            reason = pdf.why_not(page.body, scans=bool(source.ocr)) if page.body is not None else None
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
    suffix = path.suffix.lower()
    kind = TYPES.get(suffix) or DATA.get(suffix) or ("inode/directory" if is_folder(path) else None)
    if url != name:
        return Page(url, url, content_type=kind, reason="the file's name is not UTF-8")
    if kind is None:
        return Page(url, url, reason=f"unsupported file type: {suffix or 'none'}")
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
