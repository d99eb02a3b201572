"""Markdown: the text as it is written, its headings as sections, its front matter as facts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Any

from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage, decode_text
from rag_assay.assets.cleaning.outline import Heading, sections_in
from rag_assay.assets.cleaning.unicode import repair_encoding, tidy
from rag_assay.warehouse.iso_dates import iso

_FRONT = re.compile(r"---[ \t]*\n(.{0,50000}?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S)
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_NO_PARAGRAPH = re.compile(
    r" {4}|\t| {0,3}(?:[#>|]|[-*+][ \t]|\d{1,9}[.)][ \t]|([-*_])(?:[ \t]*\1){2,}[ \t]*$)"
)
_MARKS = re.compile(r"!?\[([^\]\[]*)\]\([^()]*\)|[*_]{1,3}(?=\S)([^*_]+)(?<=\S)[*_]{1,3}|`([^`]+)`")
_TITLE = 300  # characters


def clean_markdown(body: bytes, content_type: str | None) -> DocumentDraft:
    """Take a Markdown file as it is; its headings begin sections, and are none within a block of code.

    Headings are written `# Heading` or underlined by `===` or `---` (CommonMark 0.31, 4.2 and 4.3). YAML in
    front of the text says title, date, authors, tags and description, and is no text. Without one, the title
    is the first heading of the highest level, or the first line.

    Raises:
        Unusable: the file holds no text.
    """
    whole = tidy(repair_encoding(decode_text(body, content_type)))
    front, text = _parted(whole)
    if not text:
        raise UnusablePage("the file is empty")
    headings = list(headings_in(text))
    top = min((heading.level for heading in headings), default=0)
    named = next((heading.text for heading in headings if heading.level == top), "")
    title = _first(front, "title") or named or text.splitlines()[0].strip()
    published = _date(front.get("date"))
    metadata = {
        "description": _first(front, "description", "excerpt"),
        "date_source": "file" if published else "",
    }
    return DocumentDraft(
        text=text,
        title=title[:_TITLE] or None,
        published_at=published,
        language=(_first(front, "lang", "language") or "")[:2].lower() or None,
        authors=_all(front, "authors", "author"),
        keywords=_all(front, "tags", "keywords"),
        sections=sections_in(text, headings),
        metadata={name: value for name, value in metadata.items() if value},
        repaired=True,
    )


# ------------------------------------------------------------------------------------------- front matter


def _parted(whole: str) -> tuple[dict[str, Any], str]:
    """Return what the front matter says, and the text below it; a rule above a text is no front matter."""
    import yaml

    found = _FRONT.match(whole)
    try:
        front = yaml.safe_load(found[1]) if found else None
    except (yaml.YAMLError, ValueError, RecursionError):
        front = None
    return (front, whole[found.end() :].strip()) if found and isinstance(front, dict) else ({}, whole)


def _strings(value: object) -> list[str]:
    """Return a string, or those of a list and the names in it.

    Lists in lists, which the aliases of YAML can nest without end, are left out.
    """
    items = value if isinstance(value, list) else [value]
    named = [item.get("name") if isinstance(item, dict) else item for item in items]
    return [item.strip() for item in named if isinstance(item, str) and item.strip()]


def _first(front: dict[str, Any], *names: str) -> str | None:
    return next((text for name in names for text in _strings(front.get(name))), None)


def _all(front: dict[str, Any], *names: str) -> tuple[str, ...]:
    """Return the strings of the first name that has any; one string may list them with commas."""
    for name in names:
        value = front.get(name)
        if found := _strings(value.split(",") if isinstance(value, str) else value):
            return tuple(dict.fromkeys(found))
    return ()


def _date(value: object) -> str | None:
    if isinstance(value, date):  # as YAML reads it; a time is one too
        return value.isoformat()
    return iso(value.strip()) if isinstance(value, str) else None


# ------------------------------------------------------------------------------------------- headings


def headings_in(text: str, *, underlined: bool = True) -> Iterator[Heading]:
    """Yield the headings in the order of the text; those without words are none.

    underlined: also those that a line of `===` or `---` makes one, which in plain text may be a table's
    """
    fence = ""
    paragraph: tuple[int, list[str]] | None = None  # where the lines above begin that `===` would underline
    start = 0
    for line in text.split("\n"):
        opening = _FENCE.fullmatch(line)
        is_code = bool(fence)
        if opening:
            fence = _fence(fence, opening[1], opening[2])
        is_code = is_code or bool(fence)
        atx, setext = (None, None) if is_code else (_ATX.fullmatch(line), _SETEXT.fullmatch(line))
        if atx and (words := _plain(atx[2] or "")):
            yield Heading(words, len(atx[1]), start)
        elif underlined and setext and paragraph and (words := _plain(" ".join(paragraph[1]))):
            yield Heading(words, 1 if setext[1][0] == "=" else 2, paragraph[0])
        if is_code or atx or setext or not line.strip() or (not paragraph and _NO_PARAGRAPH.match(line)):
            paragraph = None
        elif paragraph:
            paragraph[1].append(line.strip())
        else:
            paragraph = (start, [line.strip()])
        start += len(line) + 1


def _fence(open_: str, marks: str, after: str) -> str:
    """Return the fence that is open below a line that may be one."""
    if not open_:
        return "" if marks[0] == "`" and "`" in after else marks
    return "" if marks[0] == open_[0] and len(marks) >= len(open_) and not after.strip() else open_


def _plain(heading: str) -> str:
    """Return a heading without the marks of links, stress and code."""
    return " ".join(_MARKS.sub(lambda found: found[1] or found[2] or found[3] or "", heading).split())
