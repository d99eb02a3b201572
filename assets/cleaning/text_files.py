"""Text files: plain text, BEIR passages, Markdown and reStructuredText."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date
from typing import Any

from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage, decode_text
from rag_assay.assets.cleaning.outline import Heading, line_starts, sections_in
from rag_assay.assets.cleaning.titles import names_in
from rag_assay.assets.cleaning.unicode import repair_encoding, tidy
from rag_assay.warehouse.iso_dates import iso, texts_in


def clean_text(body: bytes, content_type: str | None) -> DocumentDraft:
    text = decode_text(body, content_type).strip()
    return DocumentDraft(text=text, title=text.splitlines()[0].lstrip("# ").strip()[:300] or None)


def clean_beir(body: bytes) -> DocumentDraft:
    """Join title and text of a BEIR passage, as BEIR's own evaluation embeds them."""
    try:
        passage = json.loads(body)
        title, text = str(passage.get("title") or "").strip(), str(passage["text"]).strip()
    except (ValueError, KeyError, AttributeError) as error:
        raise UnusablePage(f"not a BEIR passage ({error})") from error
    if not (title or text):
        raise UnusablePage("the passage is empty")
    return DocumentDraft(text=f"{title}\n{text}".strip(), title=title or None)


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
    """Take a Markdown file as it is; its headings (CommonMark 0.31, 4.2 and 4.3) begin sections. YAML front
    matter gives title, date, authors, tags and description. Default title: the first heading of the highest
    level, or the first line.
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
    import yaml

    found = _FRONT.match(whole)
    try:
        front = yaml.safe_load(found[1]) if found else None
    except (yaml.YAMLError, ValueError, RecursionError):
        front = None
    return (front, whole[found.end() :].strip()) if found and isinstance(front, dict) else ({}, whole)


def _strings(value: object) -> list[str]:
    items = value if isinstance(value, list) else [value]  # no deeper: aliases may stand in aliases
    named = [item.get("name") if isinstance(item, dict) else item for item in items]
    return [item.strip() for item in named if isinstance(item, str) and item.strip()]


def _first(front: dict[str, Any], *names: str) -> str | None:
    return next((text for name in names for text in _strings(front.get(name))), None)


def _all(front: dict[str, Any], *names: str) -> tuple[str, ...]:
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
    """Yield the headings that have words; ``underlined``: include those underlined by `===` or `---`."""
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
    if not open_:
        return "" if marks[0] == "`" and "`" in after else marks
    return "" if marks[0] == open_[0] and len(marks) >= len(open_) and not after.strip() else open_


def _plain(heading: str, marks: re.Pattern[str] = _MARKS) -> str:
    return " ".join(marks.sub(lambda found: next(filter(None, found.groups()), ""), heading).split())


_ADORNMENT = re.compile(r"""([!-/:-@\[-`{-~])\1*[ \t]*""")
_FIELD = re.compile(r"(?:\.\. |:)([A-Za-z]+):[ \t]+(\S.*)")  # of docinfo; of Pelican and Nikola as comments
_ROLE = re.compile(
    r":[\w:.-]+:`([^`<]+?)(?:\s*<[^>]*>)?`|``([^`]+)``|`([^`<]+?)(?:\s*<[^>]*>)?`__?|\*\*?([^*]+)\*\*?"
)


def clean_rst(body: bytes, content_type: str | None) -> DocumentDraft:
    """Take a file of reStructuredText as it is; underlined lines are its headings, levels in the order of the
    adornments (docutils, "Sections"). Fields above the text give author, date, tags and language.
    """
    text = tidy(repair_encoding(decode_text(body, content_type)))
    headings = list(_headings(text))
    fields = _fields(text)
    title = fields.get("title") or (headings[0].text if headings else text.splitlines()[0].strip())
    published = iso(fields.get("date", ""))
    return DocumentDraft(
        text=text,
        title=title[:_TITLE],
        published_at=published,
        language=fields.get("lang", fields.get("language", ""))[:2].lower() or None,
        authors=names_in(fields.get("authors", fields.get("author", ""))),
        keywords=tuple(texts_in(re.split("[,;]", fields.get("tags", fields.get("keywords", ""))))),
        sections=sections_in(text, headings),
        metadata={"date_source": "file"} if published else {},
        repaired=True,
    )


def _fields(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.split("\n")[:60]:
        if field := _FIELD.fullmatch(line):
            found.setdefault(field[1].lower(), field[2].strip())
        elif found and line.strip():
            break
    return found


def _headings(text: str) -> Iterator[Heading]:
    lines, starts = text.split("\n"), line_starts(text)
    styles: list[tuple[str, bool]] = []
    taken = -1  # the last line that belongs to a heading
    for at in range(len(lines) - 1):
        words, below = lines[at], _ADORNMENT.fullmatch(lines[at + 1])
        if below is None or at <= taken or not _is_title(words, lines[at + 1]):
            continue
        above = at > taken + 1 and lines[at - 1].rstrip() == lines[at + 1].rstrip()
        if not above and at and lines[at - 1].strip() and taken != at - 1:
            continue  # the last line of a paragraph, over a transition
        if not above and words != words.lstrip():
            continue
        style = (below[1], above)
        if style not in styles:
            styles.append(style)
        taken = at + 1
        yield Heading(_plain(words, _ROLE), styles.index(style) + 1, starts[at - 1] if above else starts[at])


def _is_title(words: str, under: str) -> bool:
    length = len(words.rstrip())
    return bool(words.strip()) and not _ADORNMENT.fullmatch(words) and len(under.rstrip()) >= min(length, 4)
