"""reStructuredText: the text as it is written, its headings as sections, its fields as facts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rag_assay.assets.cleaning.draft import DocumentDraft, decode_text
from rag_assay.assets.cleaning.outline import Heading, sections_in
from rag_assay.assets.cleaning.titles import names_in
from rag_assay.assets.cleaning.unicode import repair_encoding, tidy
from rag_assay.warehouse.iso_dates import iso

_ADORNMENT = re.compile(r"""([!-/:-@\[-`{-~])\1*[ \t]*""")
_FIELD = re.compile(r"(?:\.\. |:)([A-Za-z]+):[ \t]+(\S.*)")  # of docinfo; of Pelican and Nikola as comments
_ROLE = re.compile(
    r":[\w:.-]+:`([^`<]+?)(?:\s*<[^>]*>)?`|``([^`]+)``|`([^`<]+?)(?:\s*<[^>]*>)?`__?|\*\*?([^*]+)\*\*?"
)
_TITLE = 300  # characters


def clean_rst(body: bytes, content_type: str | None) -> DocumentDraft:
    """Take a file of reStructuredText as it is; underlined lines, and overlined ones, are its headings.

    Levels go by the order in which the adornments come (docutils, "Sections"). Fields above the text say
    author, date, tags and language.

    Raises:
        Unusable: the file is empty, or no text.
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
        keywords=tuple(
            word.strip()
            for word in re.split("[,;]", fields.get("tags", fields.get("keywords", "")))
            if word.strip()
        ),
        sections=sections_in(text, headings),
        metadata={"date_source": "file"} if published else {},
        repaired=True,
    )


def _fields(text: str) -> dict[str, str]:
    """Return the fields that stand above the first paragraph, by their names in small letters."""
    found: dict[str, str] = {}
    for line in text.split("\n")[:60]:
        if field := _FIELD.fullmatch(line):
            found.setdefault(field[1].lower(), field[2].strip())
        elif found and line.strip():
            break
    return found


def _headings(text: str) -> Iterator[Heading]:
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
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
        yield Heading(_plain(words), styles.index(style) + 1, starts[at - 1] if above else starts[at])


def _is_title(words: str, under: str) -> bool:
    """Return whether a line has words, and an adornment that is as long as docutils wants it."""
    length = len(words.rstrip())
    return bool(words.strip()) and not _ADORNMENT.fullmatch(words) and len(under.rstrip()) >= min(length, 4)


def _plain(heading: str) -> str:
    """Return a heading without the marks of roles, links, stress and code."""
    return " ".join(_ROLE.sub(lambda found: next(filter(None, found.groups())), heading).split())
