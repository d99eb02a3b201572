"""Keeps lines, blank lines and indentation of code blocks through any text extractor."""

from __future__ import annotations

import re

from lxml import etree

from rag_assay.assets.cleaning.tree import Element

_LINES = frozenset({"div", "li", "p", "tr"})  # each a line of its own within code
_NO_TEXT = frozenset({"script", "style", "button"})
_NUMBERS = re.compile(r"[\d\s]*")
_NUMBERED = re.compile(r"\b(?:line-?)?(?:nos?|num(?:ber)?s?)\b|\bln\b|gutter|lineno", re.I)
_FIRST, _LAST = 0x1D300, 0x1D356  # signs that pages do not hold, and extractors take for text
_INDENT = re.compile(r"(?m)^ +| {2,}")


class Marks:
    """Signs that stand for the white space of code while others squeeze it; none that the page holds."""

    def __init__(self, page: str) -> None:
        signs = (sign for sign in map(chr, range(_FIRST, _LAST + 1)) if sign not in page)
        self._signs = "".join(next(signs, " ") for _ in "\n \t")

    def marked(self, code: str) -> str:
        line, blank, tab = tuple(self._signs)
        spaced = _INDENT.sub(lambda found: blank * len(found[0]), code)
        return spaced.replace("\t", tab).replace("\n", line)

    def is_code(self, line: str) -> bool:
        return self._signs[0] != " " and any(sign in line for sign in self._signs)

    def restored(self, text: str) -> str:
        if self._signs[0] == " ":
            return text
        spaced = text.translate(dict(zip(map(ord, self._signs), "\n \t", strict=True)))
        return re.sub(" +\n", "\n", spaced)


def mark_code(root: Element) -> Marks | None:
    """Turn each code block of a page into a one-line paragraph; return the marks used, or None without code.

    Listings beside line numbers count, and a figure that holds one becomes part of the text.
    """
    without_numbers(root)
    blocks = _blocks(root)
    if not blocks:
        return None
    marks = Marks("".join(root.itertext()))
    for block in blocks:
        tail = block.tail
        text = marks.marked(_apart(block, code_of(block)))
        block.clear()
        block.tag, block.text, block.tail = "p", text, tail
        for above in block.iterancestors("figure"):
            above.tag = "div"
    return marks


def code_of(block: Element) -> str:
    """Return the lines of a block of code, without blank lines around them and blanks at their ends."""
    lines = "".join(_text(block)).replace("\r\n", "\n").replace("\u00a0", " ").split("\n")
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def _apart(block: Element, code: str) -> str:
    """Begin code on a line of its own where an extractor makes one line of all that stands around it."""
    if next(block.iterancestors("li", "dd", "td", "th"), None) is None:
        return code
    return f"\n{code}\n" if (block.tail or "").strip() else f"\n{code}"


def without_numbers(root: Element) -> None:
    """Take line numbers out of the page: cells of numbers beside cells of code, and numbers within code."""
    for block in _blocks(root):
        for node in list(block.iter()):
            classes = str(node.get("class") or "")
            if node is not block and _NUMBERED.search(classes) and _NUMBERS.fullmatch(_whole(node)):
                tail = node.tail
                node.clear()
                node.tail = tail
    holders = (next(block.iterancestors("table"), None) for block in _blocks(root))
    for table in dict.fromkeys(holder for holder in holders if holder is not None):
        own = table.xpath("./tr/*[self::td or self::th] | ./*/tr/*[self::td or self::th]")
        cells = [cell for cell in own if not _NUMBERS.fullmatch(_whole(cell))]
        if all(cell.find(".//pre") is not None for cell in cells):
            _unfold(table, cells)


def _unfold(table: Element, cells: list[Element]) -> None:
    blocks = [block for cell in cells for block in _blocks(cell)]
    tail = table.tail
    table.clear()
    table.tag, table.tail = "div", tail
    for block in blocks:
        block.tail = None
        table.append(block)


def _blocks(root: Element) -> list[Element]:
    return [node for node in root.iter("pre") if next(node.iterancestors("pre"), None) is None]


def _whole(node: Element) -> str:
    return "".join(node.itertext())


def _text(block: Element) -> list[str]:
    found: list[str] = []
    walk = etree.iterwalk(block, events=("start", "end"))
    for event, node in walk:
        if event == "start":
            if node.tag in _NO_TEXT:
                walk.skip_subtree()
            else:
                found += ["\n" if node.tag == "br" else "", node.text or ""]
        elif node is not block:
            ends = node.tag in _LINES and not "".join(found[-2:]).endswith("\n")
            found += ["\n" if ends and not (node.tail or "").startswith("\n") else "", node.tail or ""]
    return found
