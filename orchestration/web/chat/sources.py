"""The passages of an answer as numbered sources that open: text, evidence, where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from urllib.parse import quote, urldefrag, urlsplit

from rag_assay.evals.generation.citations import public_url
from rag_assay.evals.reporting.display import plain
from rag_assay.orchestration.web.chat.answer_html import text_html
from rag_assay.orchestration.web.languages import Words
from rag_assay.warehouse.conversations import ShownPassage, Turn

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


def anchor_of(turn: Turn) -> str:
    """Return the beginning of the ids of a turn's passages, which no other turn has."""
    return f"p-{turn.record_id}"


def sources_html(turn: Turn, words: Words) -> str:
    cited = [one for one in turn.passages if one.cited]
    others = [one for one in turn.passages if not one.cited]
    if not turn.passages:
        return ""
    parts = []
    if cited:
        parts.append(f'<p class="as-kicker">{escape(words("sources"))}</p>{_list(cited, turn, words)}')
    if others:
        name = "more_sources" if cited else "read_sources"
        summary = escape(words(name, n=len(others)))
        parts.append(
            f'<details class="as-others"><summary>{summary}</summary>{_list(others, turn, words)}</details>'
        )
    return f'<div class="as-sources">{"".join(parts)}</div>'


def _list(passages: Sequence[ShownPassage], turn: Turn, words: Words) -> str:
    return f"<ol>{''.join(_source(one, turn, words) for one in passages)}</ol>"


def _source(passage: ShownPassage, turn: Turn, words: Words) -> str:
    title = escape(plain(passage.title or words("untitled_source")))
    about = [" › ".join(passage.section)] if passage.section else []
    about += [words("page", page=passage.page)] if passage.page is not None else []
    about += [passage.date[:10]] if passage.date else []
    more = "".join(f"<span>{escape(plain(one))}</span>" for one in about)
    text = text_html(passage.text, passage.evidence)
    name = escape(f"{anchor_of(turn)}-{passage.number}")
    # A link to an id inside of a closed `details` opens it.
    target = f'<mark id="{name}">' if "<mark>" in text else None
    text = text.replace("<mark>", target, 1) if target else text
    box = "" if target else f' id="{name}"'
    return (
        f'<li><details><summary><span class="as-number">{passage.number}</span>'
        f'<span class="as-source"><b dir="auto">{title}</b>{more}</span></summary>'
        f'<div class="as-passage" dir="auto"{box}>{text}</div>{_link(passage, turn, words)}</details></li>'
    )


def _link(passage: ShownPassage, turn: Turn, words: Words) -> str:
    link = source_link(passage, turn.language)
    if link is None:
        return f'<p class="as-where">{escape(plain(passage.url or words("no_link")))}</p>'
    label = words("open_source") if passage.page is None else words("open_page", page=passage.page)
    return (
        f'<p class="as-where"><a href="{escape(link)}" target="_blank" rel="noopener noreferrer">'
        f"{escape(label)} ↗</a> <span>{escape(plain(passage.url or ''))}</span></p>"
    )
