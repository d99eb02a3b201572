"""Reader of PDF files; each file without text is a failed page with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from rag_assay.crawlers.items import Page
from rag_assay.crawlers.readers.contract import Reader
from rag_assay.crawlers.readers.folder import read_kinds
from rag_assay.warehouse.pdf import why_not
from rag_assay.warehouse.source import Source


class PdfFiles(Reader):
    """PDF files that hold text; each other one fails with the reason why it cannot be used."""

    kind: ClassVar[str] = "pdf"

    def read(self, source: Source) -> Iterator[Page]:
        """Yield one page a PDF file, of a folder or the one file.

        Raises:
            InputError: the path is missing, or holds no PDF file.
        """
        for page in read_kinds(source, (".pdf",)):
            reason = why_not(page.body) if page.body is not None else None
            if reason is None:
                yield page
            else:
                yield Page(page.url, page.requested_url, content_type=page.content_type, reason=reason)
