"""News and blog articles: main text by trafilatura, title, date and authors by the page's metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from datetime import date
from typing import Any

from rag_assay.assets.cleaning.boilerplate import refuse_chrome
from rag_assay.assets.cleaning.code_blocks import Marks, mark_code
from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.loose_text import wrap_loose
from rag_assay.assets.cleaning.outline import Heading, sections_in
from rag_assay.assets.cleaning.page_authors import NAME
from rag_assay.assets.cleaning.page_facts import PageFacts, page_facts
from rag_assay.assets.cleaning.standfirst import key_of, shown_standfirst
from rag_assay.assets.cleaning.tree import Element, parse_page
from rag_assay.assets.cleaning.unicode import collapse_whitespace, repair_encoding, tidy
from rag_assay.warehouse.iso_dates import iso
from rag_assay.warehouse.pages import decode

SHORT_PAGE = 100  # words of main text below which a page is looked at twice
# Above a list of other articles, or in front of the title of one; not a sentence that begins alike.
_RELATED = re.compile(
    r"(?:auch interessant|mehr (?:dazu|zum thema)|lesen sie auch|das könnte sie auch interessieren"
    r"|weitere themen|passend dazu|zum thema|related (?:posts|articles|stories)|you may also like"
    r"|read also|more on this(?: story)?)(?:\W*|\b[^.!?]{0,60}:|: [^.!?]{0,80})",
    re.I,
)
_STAMP = re.compile(
    r"(?:stand|veröffentlicht|aktualisiert|published|updated)\b[^.!?\d]{0,20}\d[^!?]{0,40}(?<!\.)"
    r"|(?:\w{2,12}, )?\d{1,2}\.\s?\d{1,2}\.\s?\d{2,4}[^.!?]{0,30}",
    re.I,
)
_BYLINE = re.compile(rf"(?:[Vv]on|VON|[Bb]y|BY):? {NAME}(?:(?:,| und| and| &) {NAME}){{0,5}}")
_NEW_YEAR = (  # the first of January of a year, as pages write it
    r"{year}\D?0?1\D?0?1(?!\d)|(?<!\d)0?1\D{{1,3}}0?1\D{{1,3}}{year}"
    r"|(?<!\d)0?1\D{{0,4}}\bj[aä]n|\bj[aä]n\w*\W{{1,3}}0?1(?!\d)"
)
_STAMP_LENGTH = 90  # characters
_TOP = 6  # lines in which a repeated title, a byline or a time stamp may stand


def clean_article(
    body: bytes, content_type: str | None, url: str, fetched: date | None = None
) -> DocumentDraft:
    """Extract the main text of an article, its headings as sections, and its title, times, authors, keywords.

    JSON-LD wins over OpenGraph, that over meta tags, and all of them over what trafilatura guesses from the
    page. `metadata` holds headline, modified_at, description, teaser, news_keywords, section and sitename
    where they are known, and `date_source`: json_ld, meta, url (the date stands in the address), text
    (trafilatura found it on the page) or none.

    Args:
        body: the page as served.
        content_type: its header.
        url: its address.
        fetched: the day in UTC after which no guessed date lies; today where it is not known.

    Raises:
        Unusable: the page holds no main text, or hardly any.
    """
    html, _encoding = decode(body, content_type)
    root = parse_page(html)
    facts = page_facts(root, url)
    page, marks = _prepared(html)
    found = _extracted(page, url, fetched)
    text, teaser = _main_text(found.text or "", facts, root, marks)
    text = tidy(text)
    text = repair_encoding(marks.restored(text) if marks else text).strip()
    if not text:
        raise UnusablePage("no main text found")
    if len(text.split()) < SHORT_PAGE:
        refuse_chrome(html)
    published, source = find_date(facts, found.date, url, html)
    metadata = page_metadata(facts) | {
        "teaser": teaser,
        "sitename": facts.sitename or found.sitename,
        "date_source": source,
    }
    return DocumentDraft(
        text=text,
        title=facts.title or found.title or None,
        published_at=published,
        language=facts.language,
        authors=facts.authors
        or tuple(name.strip() for name in (found.author or "").split(";") if name.strip()),
        keywords=facts.keywords or tuple(found.tags or ()),
        sections=sections_in(text, _headings(text, found.body)),
        metadata={name: value for name, value in metadata.items() if value},
        repaired=True,
    )


def page_metadata(facts: PageFacts) -> dict[str, Any]:
    """Return what goes into a document's metadata of what its page says."""
    return {
        "headline": facts.headline,
        "modified_at": facts.modified_at,
        "description": facts.description,
        "news_keywords": list(facts.news_keywords),
        "section": facts.section,
        "sitename": facts.sitename,
    }


def find_date(facts: PageFacts, guess: str | None, url: str, html: str) -> tuple[str | None, str]:
    """Return the date of publication and its source: what the page says, or else a guess from its text.

    A guess of the first of January counts only if the page writes that day: of a year alone, in a copyright
    notice, say, trafilatura makes it too.
    """
    if facts.published_at and facts.date_source:
        return facts.published_at, facts.date_source
    day = iso(guess) if guess else None
    is_year = day is not None and day[4:10] == "-01-01"
    if day is None or (is_year and not re.search(_NEW_YEAR.format(year=day[:4]), f"{url} {html}", re.I)):
        return None, "none"
    in_url = re.search("[-_/]?".join(day[:10].split("-")), url)
    return day, "url" if in_url else "text"


def date_guess_options(fetched: date | None) -> dict[str, Any]:
    """Return how a date is guessed: the first one that the page has, and none after it was fetched."""
    latest = {"max_date": fetched.isoformat()} if fetched else {}
    return {"original_date": True, "extensive_search": True, **latest}


def _prepared(html: str) -> tuple[Any, Marks | None]:
    """Return what trafilatura is given for a page, and the marks for white space in it."""
    from trafilatura import load_html

    root: Any = load_html(html)
    if root is None:
        return html, None
    is_loose, marks = wrap_loose(root), mark_code(root)
    return (root if is_loose or marks else html), marks


def _extracted(page: Any, url: str, fetched: date | None) -> Any:
    """Return trafilatura's document: as precise as it can be, unless that leaves too little of the text.

    page: HTML, or what trafilatura parsed of it
    """
    from trafilatura import bare_extraction

    options: dict[str, Any] = {
        "url": url or None,
        "include_tables": True,
        "include_comments": False,
        "with_metadata": True,
        "date_extraction_params": date_guess_options(fetched),
    }
    precise: Any = bare_extraction(deepcopy(page), favor_precision=True, **options)
    whole: Any = bare_extraction(page, favor_recall=True, **options) if _is_thin(precise) else None
    found = whole if whole is not None and len(whole.text or "") > 2 * _length(precise) else precise
    if found is None:
        raise UnusablePage("no main text found")
    return found


def _is_thin(found: Any) -> bool:
    return _length(found) < 600


def _length(found: Any) -> int:
    return len(found.text or "") if found is not None else 0


# ------------------------------------------------------------------------------------------- text


def _main_text(text: str, facts: PageFacts, root: Element, marks: Marks | None) -> tuple[str, str | None]:
    """Take out what is not the article's own, put in its teaser; return the text and the teaser."""
    lines = _without_related(_without_top(text.strip().splitlines(), facts))
    whole = "\n".join(lines).strip()
    teaser = shown_standfirst(root, facts.descriptions, whole)
    if teaser and lines and key_of(teaser)[:80] not in key_of(whole):
        whole = f"{teaser}\n{whole}"
    return whole, teaser or facts.description


def _headings(text: str, body: Element) -> Iterator[Heading]:
    """Yield the headings of an extracted page where they stand, each a line, in what was kept of its text."""
    lines: dict[str, list[int]] = {}
    start = 0
    for line in text.split("\n"):
        lines.setdefault(collapse_whitespace(line), []).append(start)
        start += len(line) + 1
    last = -1
    for head in body.iter("head"):
        words = collapse_whitespace(repair_encoding(" ".join("".join(head.itertext()).split())))
        place = next((place for place in lines.get(words, ()) if place > last), None)
        level = re.fullmatch(r"h([1-6])", head.get("rend") or "")
        if place is not None and level:
            yield Heading(words, int(level[1]), place)
            last = place


def _without_top(lines: list[str], facts: PageFacts) -> list[str]:
    """Leave out the title, bylines and time stamps that stand above the text."""
    heads = {re.sub(r"\W+", "", heading) for heading in facts.headings}
    names = {key_of(name) for name in facts.authors}
    kept = []
    for number, line in enumerate(lines):
        key = key_of(line)
        if number < _TOP and (key in heads or key in names or _is_stamp(line.strip(), facts.authors)):
            continue
        kept.append(line)
    return kept


def _is_stamp(line: str, authors: tuple[str, ...]) -> bool:
    """Return whether a line is a time stamp, or a byline: that names an author, or else somebody in full."""
    if len(line) >= _STAMP_LENGTH or _STAMP.fullmatch(line):
        return len(line) < _STAMP_LENGTH
    if not _BYLINE.fullmatch(line):  # as "By the numbers" is none
        return False
    words = set(re.findall(r"\w+", line.casefold())[1:])
    known = {word for name in authors for word in re.findall(r"\w+", name.casefold())}
    return bool(words & known) if known else len(words) > 1


def _without_related(lines: list[str]) -> list[str]:
    """Leave out lists of other articles: a line such as "Read more" and the items below it."""
    kept: list[str] = []
    dropping = False
    for line in lines:
        if _RELATED.fullmatch(line.strip(" -:–>»")):
            dropping = True
            continue
        dropping = dropping and line.startswith("- ")
        if not dropping:
            kept.append(line)
    return kept
