"""The result of a cleaner: a draft of a document, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rag_assay.warehouse.files import is_text
from rag_assay.warehouse.pages import decode

if TYPE_CHECKING:
    from rag_assay.assets.cleaning.fidelity import PageComparison

CODE_VERSION = "20"
"""Raised with every change of what a page gives; pages cleaned by another version are cleaned again."""

DAMAGED = "the stored page is damaged"
"""Reason of a drop whose page is to be fetched again."""

MIN_WORDS = 5  # fewer words are a test page or an error page, not a document


@dataclass(frozen=True)
class DocumentDraft:
    """A document before it gets its id and version.

    repaired: its Unicode is normalised, so section offsets hold
    comparison: with its page, of HTML
    """

    text: str
    title: str | None = None
    published_at: str | None = None
    language: str | None = None
    authors: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    sections: tuple[dict[str, Any], ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    repaired: bool = False
    comparison: PageComparison | None = field(default=None, compare=False, repr=False)


class CellLimit:
    """What is left of the most that a file may give: one of a few bytes can repeat its cells without end."""

    def __init__(self, most: int, what: str) -> None:
        self.most, self.what, self._left = most, what, most

    def take(self, count: int) -> None:
        """Raise `UnusablePage` if nothing is left."""
        self._left -= count
        if self._left < 0:
            raise UnusablePage(f"more than {self.most} {self.what}")


def decode_text(body: bytes, content_type: str | None) -> str:
    text, _encoding = decode(body, content_type)
    if not text.strip():
        raise UnusablePage("the file is empty")
    if not is_text(text):
        raise UnusablePage("not text, but other bytes")
    return text.replace("\r\n", "\n").replace("\r", "\n")


class UnusablePage(Exception):  # noqa: N818 -- not an error of ours: a page that gives no document, with the reason
    """A page gives no document; the message is the recorded reason."""
