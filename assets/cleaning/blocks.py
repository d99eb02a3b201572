"""Reads HTML as typed blocks: headings, paragraphs, list items, definitions, table rows and code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple

from lxml import etree

from rag_assay.assets.cleaning.tree import Element
from rag_assay.assets.cleaning.unicode import collapse_whitespace, repair_encoding, tidy

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
    lines = "".join(_text(block)).replace("\r\n", "\n").replace("\u00a0", " ").split("\n")
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def _apart(block: Element, code: str) -> str:
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


BlockKind = Literal["heading", "text", "item", "term", "definition", "quote", "caption", "row", "code"]

INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr output q rp rt "  # noqa: SIM905 -- readable
    "ruby s samp small span strike strong sub sup time tt u var wbr".split()
)
_HIDDEN = frozenset(
    "audio button canvas dialog head iframe input noscript object script select style svg template textarea "  # noqa: SIM905 -- readable
    "video".split()
)
_KINDS: dict[str, tuple[BlockKind, str]] = {
    "dt": ("term", ""),
    "dd": ("definition", "  "),
    "blockquote": ("quote", "> "),
    "figcaption": ("caption", ""),
    "caption": ("caption", ""),
    "legend": ("caption", ""),
}
_BREAK = "\x1f"  # a line break that the page asks for; its own white space is none
_DEEPEST = 150  # elements within elements: below that, a page is a trap and its text is taken as one block
_COLUMNS, _ROWS = 50, 500  # that a cell may span
_LONG_CELL = 120  # words: a cell that holds more is a part of the page and no datum
_TIGHT = frozenset({"item", "row"})  # kinds that stand line below line
_ANCHOR = re.compile(  # text of a link beside a heading or a listing that leads to the heading itself
    r"\W*(?:¶|#|§|🔗|\[src\]|\[edit\]|edit|source|copy(?: item path)?|permalink|(?:back to )?top"
    r"|skip to (?:main )?content)?\W*",
    re.I,
)
_LEVELS = {f"h{level}": level for level in range(1, 7)}
_WORD_SIGN = re.compile(r"\w")
_WORDS = re.compile(r"\w+")
_FORMULA = re.compile(r"\b(?:math|formula|tex|equation)\w*\b")
_TEX = {
    "mfrac": r"\frac{%s}{%s}",
    "msup": "%s^{%s}",
    "msub": "%s_{%s}",
    "msubsup": "%s_{%s}^{%s}",
    "munder": "%s_{%s}",
    "mover": "%s^{%s}",
    "munderover": "%s_{%s}^{%s}",
}


class Link(NamedTuple):
    """A link with the text between it and the link before it in the same block."""

    text: str
    target: str
    before: str


@dataclass
class PageBlock:
    """A block of a page.

    level: of a heading, 1 to 6; 0 for others
    mark: prefix of its first line, as `- `
    linked: words that are links; links: their texts, where they lead, and what stands before each
    path: its element and all above it, from the inside out
    """

    kind: BlockKind
    text: str
    path: tuple[Element, ...]
    level: int = 0
    mark: str = ""
    linked: int = 0
    links: list[Link] = field(default_factory=list)

    @cached_property
    def words(self) -> list[str]:
        return words_of(self.text)


def words_of(text: str) -> list[str]:
    return _WORDS.findall(text.casefold())


def within(test: Callable[[Element], bool]) -> Callable[[tuple[Element, ...]], bool]:
    """Return whether ``test`` holds for any element of a path. Tries each element once."""
    known: dict[Element, bool] = {}

    def holds(path: tuple[Element, ...]) -> bool:
        new: list[Element] = []
        found = False
        for node in path:
            if node in known:
                found = known[node]
                break
            new.append(node)
            if test(node):
                found = True
                break
        known.update(dict.fromkeys(new, found))
        return found

    return holds


def read_blocks(node: Element) -> list[PageBlock]:
    """Return the blocks of an element in page order, repaired and in NFC. Table rows are one block each (` |
    ` between cells); formulas are TeX between dollar signs; a picture is its description in brackets, unless
    that is one word or a file name.
    """
    reader = _Reader()
    reader.walk(node, 0)
    reader.flush()
    return _with_bold_headings(reader.blocks)


def paragraphs(blocks: Iterable[PageBlock]) -> Iterator[tuple[int | None, str]]:
    """Yield (level, text) of headings and (None, text) of all else; items of a list and rows are one text."""
    gathered: list[str] = []
    before: BlockKind | None = None
    for block in blocks:
        if gathered and not (block.kind == before and block.kind in _TIGHT):
            yield None, "\n".join(gathered)
            gathered = []
        before = block.kind
        if block.kind == "heading":
            yield block.level, block.text
        else:
            gathered.append(block.mark + block.text)
    if gathered:
        yield None, "\n".join(gathered)


class _Reader:
    """Walks an element once; text gathers until a block begins or ends."""

    def __init__(self) -> None:
        self.blocks: list[PageBlock] = []
        self._gathered: list[str] = []
        self._links: list[Link] = []
        self._since = 0  # where in the gathered text the last link ends
        self._linked = 0
        self._lists: list[int | None] = []  # the next number of each open list, None for bullets
        self._kind: BlockKind = "text"
        self._mark = ""
        self._holder: Element = None

    def walk(self, node: Element, depth: int) -> None:  # noqa: C901, PLR0912 -- a line for each kind of element
        tag = _tag(node)
        if tag == "script" and str(node.get("type") or "").startswith("math/tex"):
            self._gathered.append(f"${(node.text or '').strip()}$")
        has_attributes = bool(node.keys())
        if tag in _HIDDEN or (has_attributes and _is_hidden(node)):
            return
        level = _LEVELS.get(tag, 0)
        if depth > _DEEPEST:
            self._gathered.append(" ".join(node.itertext()))
        elif level or (has_attributes and node.get("role") == "heading"):
            said = re.fullmatch("[1-6]", str(node.get("aria-level")))
            self._whole(node, "heading", depth, level or (int(said[0]) if said else 2))
        elif tag == "pre" or _is_listing(node):
            lines = map(code_of, node.iterfind("div[@class='line']"))
            self._take("code", code_of(node) if tag == "pre" else "\n".join(lines), node)
        elif tag == "table" and not _is_layout(node):
            self._table(node, depth)
        elif tag in {"ul", "ol", "menu", "dir"}:
            start = re.fullmatch(r"\d{1,8}", str(node.get("start")))
            self._lists.append((int(start[0]) if start else 1) if tag == "ol" else None)
            self._around(node, self._kind, self._mark, depth)
            self._lists.pop()
        elif tag == "li":
            self._around(node, "item", self._bullet(), depth)
        elif tag in _KINDS:
            self._around(node, *_KINDS[tag], depth)
        elif tag == "math":
            self._formula(node)
        elif tag == "img":
            self._picture(node)
        elif tag == "br":
            self._gathered.append(_BREAK)
        elif tag == "a":
            self._link(node, depth)
        elif tag in INLINE:
            self._inside(node, depth)
        else:
            self.flush()
            self._inside(node, depth)
            self.flush()

    def flush(self) -> None:
        if not self._gathered:  # as between most elements
            return
        gathered = "".join(self._gathered)
        self._gathered.clear()
        is_empty = not gathered or gathered.isspace()
        text = "" if is_empty else "\n".join(filter(None, map(collapse_whitespace, gathered.split(_BREAK))))
        if text and _WORD_SIGN.search(text):
            self._append(PageBlock(self._kind, text, _path(self._holder), mark=self._mark))
            if self._kind != "quote":  # what follows in the same item stands below its text
                self._mark = " " * len(self._mark)
        self._linked, self._links, self._since = 0, [], 0

    def _append(self, block: PageBlock) -> None:
        blanks = "" if block.kind != "code" else block.text[: len(block.text) - len(block.text.lstrip(" \t"))]
        block.text = blanks + tidy(repair_encoding(block.text))
        block.linked, block.links = self._linked, self._links
        self._linked, self._links, self._since = 0, [], 0
        if block.text.strip():
            self.blocks.append(block)

    def _take(self, kind: BlockKind, text: str, node: Element, level: int = 0) -> None:
        self.flush()
        self._append(PageBlock(kind, text, _path(node), level))

    def _inside(self, node: Element, depth: int) -> None:
        holder = self._holder
        is_block = _tag(node) not in INLINE
        self._holder = node if is_block else holder
        if text := node.text:
            self._gathered.append(text)
        for child in node:
            self.walk(child, depth + 1)
            self._holder = node if is_block else holder
            if text := child.tail:
                self._gathered.append(text)
        if is_block:
            self.flush()
        self._holder = holder

    def _around(self, node: Element, kind: BlockKind, mark: str, depth: int) -> None:
        self.flush()
        before = self._kind, self._mark
        self._kind, self._mark = kind, mark
        self._inside(node, depth)
        self.flush()
        self._kind, self._mark = before

    def _bullet(self) -> str:
        mark = "- "
        if self._lists and self._lists[-1] is not None:
            mark = f"{self._lists[-1]}. "
            self._lists[-1] += 1
        return "  " * (len(self._lists) - 1) + mark

    def _whole(self, node: Element, kind: BlockKind, depth: int, level: int = 0) -> None:
        self.flush()
        inner = _Reader()
        inner._holder = node
        inner._inside(node, depth)
        self._linked = sum(block.linked for block in inner.blocks)
        text = " ".join(block.text.replace("\n", " ") for block in inner.blocks)
        self._append(PageBlock(kind, text.removesuffix("¶").strip(), _path(node), level))

    def _link(self, node: Element, depth: int) -> None:
        begin = len(self._gathered)
        self._inside(node, depth)
        text = collapse_whitespace("".join(self._gathered[begin:]))
        target = str(node.get("href") or "")
        if "#" in target and _ANCHOR.fullmatch(text):
            del self._gathered[begin:]
        elif text and target:
            self._links.append(Link(text, target, "".join(self._gathered[self._since : begin])))
            self._since = len(self._gathered)
            self._linked += len(words_of(text))

    def _picture(self, node: Element) -> None:
        text = collapse_whitespace(str(node.get("alt") or ""))
        if _FORMULA.search(str(node.get("class") or "")):
            self._gathered.append(f" ${text.strip('$ ')}$ ")
        elif len(text.split()) > 1 and not re.search(r"\.\w{3,4}$", text) and not _is_within_link(node):
            self._gathered.append(f" [{text}] ")

    def _formula(self, node: Element) -> None:
        tex = _tex_of(node)
        if tex and node.get("display") == "block":
            self._take("text", f"$${tex}$$", node)
        elif tex:
            self._gathered.append(f" ${tex}$ ")

    def _table(self, table: Element, depth: int) -> None:
        self.flush()
        for caption in table.findall("caption"):
            self._whole(caption, "caption", depth)
        for row, cells in _grid(table):
            texts: list[str] = []
            linked, links = 0, list[Link]()
            for cell in cells:
                inner = _Reader()
                if cell is not None:
                    inner._inside(cell, depth + 1)
                texts.append(collapse_whitespace(" ".join(b.mark.strip() + b.text for b in inner.blocks)))
                linked += sum(block.linked for block in inner.blocks)
                links += [link for block in inner.blocks for link in block.links]
            if any(texts):
                self._linked, self._links = linked, links
                self._append(PageBlock("row", " | ".join(texts), _path(row)))


def _tag(node: Element) -> str:
    name = node.tag
    if not isinstance(name, str):
        return "script"  # a comment
    if "}" in name:
        name = name.rpartition("}")[2]
    return name.removeprefix("m:")


def _path(node: Element) -> tuple[Element, ...]:
    return () if node is None else (node, *node.iterancestors())


def _is_hidden(node: Element) -> bool:
    style = node.get("style")
    style = style.replace(" ", "") if style else ""
    return (
        node.get("hidden") is not None
        or "display:none" in style
        or "visibility:hidden" in style
        or (node.get("aria-hidden") == "true" and "katex" in str(node.get("class")))  # beside its MathML
    )


def _is_within_link(node: Element) -> bool:
    return next(node.iterancestors("a"), None) is not None  # a picture in a link is a button


def _is_listing(node: Element) -> bool:
    """Return whether an element is code without `<pre>`, as Doxygen writes it: a `div.line` for each line.
    Qt's pages are one `div.line` with all of their blocks.
    """
    if node.tag != "div" or len(node) == 0 or node[0].get("class") != "line":
        return False
    return all(
        child.get("class") == "ttc"
        or (child.get("class") == "line" and all(_tag(one) in INLINE for one in child.iterdescendants()))
        for child in node
    )


def _is_layout(table: Element) -> bool:
    parts = next(table.iterdescendants("table", "pre", "h1", "h2", "h3", "h4", "dl"), None)
    if table.get("role") in {"presentation", "none"} or parts is not None:
        return True
    rows = table.xpath("./tr | ./*/tr")
    if max((len(row) for row in rows), default=0) < 2:
        return True
    long = any(len("".join(cell.itertext()).split()) > _LONG_CELL for row in rows for cell in row)
    return long and len(rows) <= 3 and not table.xpath("boolean(.//th)")


def _grid(table: Element) -> Iterator[tuple[Element, list[Element | None]]]:
    # Column -> rows below that a cell reaches, and the cell
    spans: dict[int, tuple[int, Element | None]] = {}
    for row in table.xpath("./tr | ./thead/tr | ./tbody/tr | ./tfoot/tr"):
        cells: list[Element | None] = []

        def fill(cells: list[Element | None] = cells) -> None:
            while (reach := spans.get(len(cells), (0, None)))[0]:
                spans[len(cells)] = reach[0] - 1, reach[1]
                cells.append(reach[1])

        for cell in row.iterchildren("td", "th"):
            fill()
            wide, high = _span(cell, "colspan", _COLUMNS), _span(cell, "rowspan", _ROWS)
            for at in range(wide):
                own = cell if at == 0 else None
                spans[len(cells)] = high - 1, own
                cells.append(own)
        fill()
        yield row, cells


def _span(cell: Element, name: str, most: int) -> int:
    said = re.fullmatch(r"\s*(\d{1,5})\s*", str(cell.get(name)))
    return min(max(int(said[1]), 1), most) if said else 1


def _with_bold_headings(blocks: list[PageBlock]) -> list[PageBlock]:
    """Turn short lines that are all bold or large, above a text that is not, into headings."""
    for block, below in pairwise(blocks):
        if (
            block.kind != "text"
            or block.linked
            or len(block.words) > 12
            or re.search(r"[.,:;!?]$", block.text)
        ):
            continue
        level = _bold_level(block.path[0]) if block.path else 0
        if level and below.kind != "heading" and below.path and not _bold_level(below.path[0]):
            block.kind, block.level = "heading", level
    return blocks


def _bold_level(node: Element) -> int:
    """Return 6 for a block that is all bold, 4 to 1 for a font that is larger by 1 to 4, else 0."""
    level = 0
    while len(node) == 1 and not (node.text or "").strip() and not (node[0].tail or "").strip():
        node = node[0]
        if node.tag not in INLINE:
            return 0
        size = re.fullmatch(r"\+([1-4])|([4-7])", str(node.get("size"))) if node.tag == "font" else None
        if size:
            level = min(level or 6, 5 - int(size[1] or int(size[2]) - 3))
        elif node.tag in {"b", "strong"}:
            level = level or 6
    return level


def _tex_of(math: Element) -> str:
    """Return the TeX that a formula gives itself (annotation, `alttext`), or else that of its MathML."""
    for note in math.iter():
        if _tag(note) == "annotation" and "tex" in str(note.get("encoding")).lower():
            return collapse_whitespace(note.text or "")
    return collapse_whitespace(math.get("alttext") or _tex(math))


def _tex(node: Element) -> str:
    name = _tag(node)
    if name.startswith("annotation") or name == "script":
        return ""
    parts = [_tex(child) for child in node]
    if name in _TEX and len(parts) == _TEX[name].count("%s"):
        return _TEX[name] % tuple(parts)
    if name == "mroot" and len(parts) == 2:
        return rf"\sqrt[{parts[1]}]{{{parts[0]}}}"
    if name == "msqrt":
        return rf"\sqrt{{{''.join(parts)}}}"
    if name == "mtr":
        return " & ".join(parts) + r" \\ "
    return "".join(parts) or f"{(node.text or '').strip()}{' ' if name == 'mtext' else ''}"
