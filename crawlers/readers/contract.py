"""What a reader of files is; `tests/contracts/test_readers.py` holds each one to it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rag_assay.warehouse.components import Component
from rag_assay.warehouse.files import fingerprint

if TYPE_CHECKING:
    from rag_assay.crawlers.items import Page
    from rag_assay.warehouse.source import Source


class Reader(Component):
    """A way to read files as pages.

    A source says its kind as `reader`, and its parameters under `options`. The contract: a page has a URL of
    its own; what cannot be read is a page with its reason, and the others come all the same; the same files
    give the same pages, in the same order; a path that is missing, or that holds nothing of its kind, raises
    `InputError`.
    """

    @abstractmethod
    def read(self, source: Source) -> Iterator[Page]:
        """Yield the pages of ``source.path``, of at most ``source.limits.page_bytes`` each."""

    def state(self, source: Source) -> str | None:
        """Return a digest that changes when the source's files do; None where only reading can tell."""
        return fingerprint(Path(source.path or ""))
