"""What a cleaner hands back for one page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MIN_WORDS = 5  # fewer words are a test page or an error page, not a document


@dataclass(frozen=True)
class Draft:
    """A document before it gets its id and version; None where the page does not say.

    repaired: its Unicode is in order already, so the offsets of its sections hold
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


class Unusable(Exception):  # noqa: N818 -- not an error of ours: a page that gives no document, with the reason
    """A page gives no document; the message is the recorded reason."""
