"""Reader of plain text and Markdown: a document a file, or a passage a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from rag_assay.crawlers.items import Page
from rag_assay.crawlers.readers.contract import Reader
from rag_assay.crawlers.readers.files import UNREADABLE, as_text, files_of, open_file, unreadable
from rag_assay.crawlers.readers.folder import read_kinds
from rag_assay.crawlers.readers.passages import Passages
from rag_assay.warehouse.files import bounded_lines
from rag_assay.warehouse.source import Source

SUFFIXES = (".txt", ".md")


class TextFiles(Reader):
    """Plain text and Markdown: a page a file, or with `lines` one a line."""

    kind: ClassVar[str] = "text"

    def read(self, source: Source) -> Iterator[Page]:
        if not source.lines:
            yield from read_kinds(source, SUFFIXES)
            return
        passages = Passages(source)
        for name, path in files_of(source, SUFFIXES):
            try:
                with open_file(path, source) as file, as_text(file) as lines:
                    for number, line in bounded_lines(lines, source.limits.page_bytes, "\n"):
                        if line is None:
                            yield passages.too_long(name, number)
                        elif text := line.strip():
                            yield passages.page(name, number, text)
            except UNREADABLE as error:
                yield unreadable(name, error)
