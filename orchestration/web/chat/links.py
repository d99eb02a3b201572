"""Links to where a passage stands: the section of a web page, the page of a PDF."""

from __future__ import annotations

from urllib.parse import quote, urldefrag, urlsplit

from rag_assay.evals.generation.citations import public_url
from rag_assay.warehouse.conversations import ShownPassage

_WORDS = 6  # on each side of a passage that is looked for in a web page
_LONGEST = 2_000  # characters of an address


def source_link(passage: ShownPassage, language: str | None) -> str | None:
    """Return the address of a passage; None where its document is not on the web.

    A web page opens at the evidence (`#:~:text=`), a PDF at its page.

    >>> one = ShownPassage(number=1, chunk_id="c", doc_id="d", text="It costs two. Or more.",
    ...     url="https://x.example/a b", evidence=((0, 13),))
    >>> source_link(one, "en")
    'https://x.example/a%20b#:~:text=It%20costs%20two.'
    >>> source_link(one.model_copy(update={"page": 7, "url": "http://x.example/a.pdf"}), "en")
    'http://x.example/a.pdf#page=7'
    >>> source_link(one.model_copy(update={"url": "javascript:alert(1)"}), "en")
    """
    url = public_url(passage.url, language) or ""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not host or len(url) > _LONGEST:
        return None
    page, fragment = urldefrag(url)
    page = quote(page, safe=":/?#[]@!$&'()*+,;=%~-._")
    if passage.page is not None:
        return f"{page}#page={passage.page}"
    found = _text_fragment(passage)
    fragment = quote(fragment, safe="!$&'()*+,;=%~-._:@/?")
    return page + (f"#{fragment}{found}" if fragment or found else "")


def _text_fragment(passage: ShownPassage) -> str:
    """Return the directive that leads to the first evidence of a passage, else to its beginning."""
    start, end = passage.evidence[0] if passage.evidence else (0, len(passage.text))
    line = next((one for one in passage.text[start:end].splitlines() if one.strip()), "")
    words = line.split()
    if not words:
        return ""
    if len(words) <= 2 * _WORDS:
        return f":~:text={_quoted(words)}"
    return f":~:text={_quoted(words[:_WORDS])},{_quoted(words[-_WORDS:])}"


def _quoted(words: list[str]) -> str:
    # A dash and a comma have meanings of their own there.
    return quote(" ".join(words), safe="").replace("-", "%2D")
