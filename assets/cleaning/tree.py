"""HTML and XML as trees of elements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lxml import etree

Element = Any  # lxml's elements come untyped
MOST_ATTRIBUTES = 20_000  # of one element: the parser compares each with each, which takes seconds

_TAG = re.compile(r"""[a-zA-Z](?:[^"'>]++|"[^"]*+"|'[^']*+')*+""")
_ATTRIBUTE = re.compile(r"""[^\s"'=<>/]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s"'<>]++))?+""")


def parse_page(html: str) -> Element:
    """Parse a page as browsers do, without comments; `ValueError` if empty or with too many attributes."""
    if any(len(_ATTRIBUTE.findall(tag[0])) > MOST_ATTRIBUTES for tag in _long_tags(html)):
        raise ValueError(f"an element with more than {MOST_ATTRIBUTES} attributes")
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    try:
        root = etree.fromstring(html.encode("utf-8", "ignore"), parser) if html.strip() else None
    except etree.LxmlError as error:
        raise ValueError(f"no HTML ({error})") from error
    if root is None:
        raise ValueError("the page is empty")
    return root


def parse_xml(data: bytes) -> Element:
    """Parse XML without its entities, fetching nothing; `etree.XMLSyntaxError` if it is damaged."""
    return etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False))


def _long_tags(html: str) -> Iterator[re.Match[str]]:
    """Yield the tags that are long enough to hold too many attributes: one takes two characters at least."""
    start, longest = 0, 2 * MOST_ATTRIBUTES
    while len(html) - start > longest:
        near = html.rfind("<", start, start + longest + 1)
        end = near if near >= start else html.find("<", start + longest)
        if near < start and (tag := _TAG.match(html, start, end if end >= 0 else len(html))):
            yield tag
        if end < 0:
            return
        start = end + 1


def by_id(root: Element) -> dict[str, Element]:
    return {node.get("id"): node for node in reversed(root.xpath("//*[@id]"))}
