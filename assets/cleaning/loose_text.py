"""Puts text outside of any paragraph into one: `<ol>…</ol> and this, <b>loose</b>, below it`."""

from __future__ import annotations

from rag_assay.assets.cleaning.tree import Element

_LEAST = 8  # words; fewer are labels and what stands between links
_HOLDERS = ("article", "body", "div", "main", "section", "td")
_BLOCKS = frozenset(
    "address article aside blockquote center details div dl figure form h1 h2 h3 h4 h5 h6 hr main nav ol "  # noqa: SIM905 -- readable
    "p pre section table ul".split()
)


def wrap_loose(root: Element) -> bool:
    """Make paragraphs of loose text behind blocks, which extractors pass over; tell whether there was any."""
    found = [
        block
        for holder in root.iter(*_HOLDERS)
        for block in holder
        if block.tag in _BLOCKS and len((block.tail or "").split()) >= _LEAST
    ]
    for block in found:
        _wrap(block)
    return bool(found)


def _wrap(block: Element) -> None:
    """Put the text behind a block, and what stands in its line, into a paragraph."""
    holder = block.getparent()
    paragraph = holder.makeelement("p")
    paragraph.text, block.tail = block.tail, None
    inline = []
    for sibling in block.itersiblings():
        if not isinstance(sibling.tag, str) or sibling.tag in _BLOCKS:
            break
        inline.append(sibling)
    holder.insert(holder.index(block) + 1, paragraph)
    paragraph.extend(inline)
