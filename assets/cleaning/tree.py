"""HTML as a tree of elements."""

from __future__ import annotations

from typing import Any

from lxml import etree

Element = Any  # lxml's elements come untyped


def parsed(html: str) -> Element:
    """Parse a page as browsers do, whatever its errors; comments are left out.

    Raises:
        ValueError: there is nothing to parse.
    """
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    try:
        root = etree.fromstring(html.encode("utf-8", "ignore"), parser) if html.strip() else None
    except etree.LxmlError as error:
        raise ValueError(f"no HTML ({error})") from error
    if root is None:
        raise ValueError("the page is empty")
    return root


def by_id(root: Element) -> dict[str, Element]:
    """Return the elements that have an id, by it; of several with the same id the first."""
    return {node.get("id"): node for node in reversed(root.xpath("//*[@id]"))}
