"""The words of links as questions about the document that they lead to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from rag_assay.evals.question_generation.candidate import QuestionCandidate, Quote
from rag_assay.evals.question_generation.drop_reasons import Drop
from rag_assay.evals.question_generation.text_rules import content_words, flaw, is_generic, tidy_text
from rag_assay.evals.question_generation.texts import SourceText
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.pages import decode, read_body
from rag_assay.warehouse.paths import Home

PAGES = 2_000  # bodies of web pages that are looked at for links
MOST_LINKS = 500  # of one page
LARGEST = 3_000_000  # bytes of a page that is parsed for its links

_MARKDOWN = re.compile(r"(?<!!)\[([^\]\[]{3,200})\]\(((?:[^()\n]|\([^()\n]{0,200}\)){1,500})\)")
_INLINE = re.compile(
    r"<a\s[^>]{0,1000}?href\s*=\s*[\"']([^\"'<>]{1,1000})[\"'][^>]{0,1000}>(.{3,300}?)</a>", re.I | re.S
)
_TAG = re.compile(r"<[^>]{0,1000}>")
_LIQUID = re.compile(r"\{\{\s*(?:[\"']([^\"']*)[\"'])?[^}]*\}\}")

Link = tuple[str, str]
"""Its words, and what it leads to, as written."""


class Targets:
    """The documents that links may lead to, by their addresses."""

    def __init__(self) -> None:
        self._by_address: dict[str, tuple[str, str, str]] = {}

    def add(self, text: SourceText) -> None:
        """Make a document known."""
        self._by_address.setdefault(_address(text.url) or text.url, (text.doc_id, text.source, text.url))

    def of(self, text: SourceText, href: str) -> Quote | None:
        """Return the document that a link of another one leads to; None where it is none of the corpus."""
        try:
            address = _address(urljoin(text.url, _plain(href)))
        except ValueError:
            return None
        found = self._by_address.get(address or "")
        return Quote(*found) if found and found[0] != text.doc_id else None


def _plain(href: str) -> str:
    """Return what a link leads to without a title behind it, and without what a template would fill in.

    >>> _plain('ferry.md "The ferry"'), _plain('{{ "/2014/ferry/" | url }}'), _plain("{{ site.url }}/ferry")
    ('ferry.md', '/2014/ferry/', '/ferry')
    """
    if "{{" in href:
        return _LIQUID.sub(lambda found: found[1] or "", href).strip()
    return (href.split() or [""])[0].strip("<>")


def _address(url: str) -> str | None:
    """Return a URL or path as links are compared: without scheme, `www.`, fragment and the file of an index.

    None: it leads to no page (`mailto:`).

    >>> _address("https://www.a.example/x/index.html#top"), _address("http://a.example/x/")
    ('a.example/x', 'a.example/x')
    """
    parts = urlsplit(urldefrag(url).url)
    if parts.scheme not in {"", "http", "https"}:
        return None
    path = re.sub(r"(?:^|/)index\.(?:html?|php|md)$", "", unquote(parts.path)).rstrip("/")
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.netloc.casefold().removeprefix('www.')}{path}{query}"


def links_of(
    text: SourceText, targets: Targets, home: Home | None = None
) -> Iterator[QuestionCandidate | Drop]:
    """Yield the words of a document's links to other documents of the corpus, as questions.

    home: where the body of its page lies, for the links of a web page; None: only those of its text are read
    """
    if text.language is None:
        return
    for words, href in _links(text, home):
        target = targets.of(text, href)
        if target is None:
            continue
        question = tidy_text(words)
        if is_generic(question) or len(content_words(question)) < 2:
            yield Drop("link", "generic")
        elif reason := flaw(question):
            yield Drop("link", reason)
        else:
            yield QuestionCandidate("link", question, text.language, (target,))


def _links(text: SourceText, home: Home | None) -> Iterator[Link]:
    for found in _MARKDOWN.finditer(text.text):
        yield found[1], found[2]
    for found in _INLINE.finditer(text.text):
        yield _TAG.sub(" ", found[2]), found[1]
    if home is not None and text.page_sha256:
        said = " ".join(text.text.split())
        for words, href in _of_page(home, text.page_sha256):
            if words in said:  # not those of menus and footers, which cleaning has left out
                yield words, href


def _of_page(home: Home, sha256: str) -> Iterator[Link]:
    """Yield the links of a stored web page; nothing of another file, or of one that cannot be read."""
    try:
        body = read_body(home, sha256)
    except CorruptFileError:
        return
    if len(body) > LARGEST or b"<a " not in body or body.lstrip()[:1] != b"<":
        return
    import lxml.etree
    import lxml.html

    try:
        tree = lxml.html.fromstring(decode(body)[0].encode(), parser=lxml.html.HTMLParser(encoding="utf-8"))
    except (lxml.etree.LxmlError, ValueError):
        return
    for number, anchor in enumerate(tree.iter("a")):
        if number == MOST_LINKS:
            return
        words = " ".join(str(anchor.text_content()).split())
        href = anchor.get("href")
        if href and 3 <= len(words) <= 200:
            yield words, href
