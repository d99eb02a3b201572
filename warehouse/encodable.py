"""Text that can be written and sent: lone surrogates have no bytes in UTF-8."""

from __future__ import annotations

from collections.abc import Sequence


def encodable(text: str) -> str:
    r"""Return ``text`` with a question mark for each lone surrogate, which no file and no server takes.

    >>> encodable("a\ud800b")
    'a?b'
    """
    return text.encode("utf-8", "replace").decode()


def all_encodable(texts: Sequence[str]) -> list[str]:
    return [encodable(text) for text in texts]
