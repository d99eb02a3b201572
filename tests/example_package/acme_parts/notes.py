"""A reader of files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from rag_assay.crawlers.items import Page
from rag_assay.crawlers.readers.contract import Reader
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.source import Source


class Notes(Reader):
    """Notes of one line of title and then text, in files of one suffix.

    suffix: with its dot
    """

    kind: ClassVar[str] = "acme_notes"

    suffix: str = ".note"

    def read(self, source: Source) -> Iterator[Page]:
        """Yield one page a note."""
        files = sorted(Path(source.path or "").glob(f"*{self.suffix}"))
        if not files:
            raise InputError(f"path: {source.path} holds no {self.suffix}")
        for file in files:
            url = f"https://x.example/{file.stem}"
            try:
                title, _, body = file.read_text(encoding="utf-8").partition("\n")
            except UnicodeDecodeError as error:
                yield Page(url, url, reason=f"not UTF-8: {error.reason}")
                continue
            yield Page(
                url,
                url,
                content_type="text/plain",
                body=body.encode(),
                fields={"title": title, "encoding": "utf-8"},
            )
