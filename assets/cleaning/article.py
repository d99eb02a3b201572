"""Web pages: main text led by trafilatura, title, date and authors by the page's metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from datetime import UTC, date, datetime
from itertools import accumulate
from typing import Any

from rag_assay.assets.cleaning.blocks import PageBlock, paragraphs, read_blocks
from rag_assay.assets.cleaning.code_blocks import Marks, mark_code, without_numbers
from rag_assay.assets.cleaning.draft import MIN_WORDS, DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.main_content import RELATED, MainContent, is_article
from rag_assay.assets.cleaning.outline import Heading, OutlineBuilder, sections_in
from rag_assay.assets.cleaning.page_facts import NAME, PageFacts, page_facts
from rag_assay.assets.cleaning.tree import Element, parse_page
from rag_assay.assets.cleaning.unicode import collapse_whitespace, count_words, repair_encoding, tidy
from rag_assay.assets.cleaning.written_dates import shown_date
from rag_assay.warehouse.iso_dates import iso
from rag_assay.warehouse.pages import decode

BYLINE = 20  # words: what a header says beyond its headline is a byline below this, and text from there on
_FURNITURE = frozenset(
    "address aside button footer h1 nav noscript script style template time".split()  # noqa: SIM905 -- readable
)
_FACTS = frozenset({"link", "meta"})


def refuse_chrome(html: str) -> None:
    """Refuse a page whose one `<main>` or `<article>` has fewer than `MIN_WORDS` words.

    Of such a page trafilatura takes the surroundings (site title, cookie notice, footer). Nothing is
    concluded where there are several such elements or none, or where the element holds `<meta>` alone.
    """
    from trafilatura import load_html

    tree: Any = load_html(html)
    if tree is None:
        return
    places = (tree.findall(f".//{tag}") for tag in ("main", "article"))
    counts = [_words(found[0]) for found in places if len(found) == 1 and not _holds_facts(found[0])]
    if counts and max(counts) < MIN_WORDS:
        raise UnusablePage(f"too short: {max(counts)} words in the page's own content")


def _holds_facts(element: Any) -> bool:
    inside = [child.tag for child in element.iter() if child is not element and isinstance(child.tag, str)]
    return bool(inside) and _FACTS.issuperset(inside) and not element.text_content().strip()


def _words(element: Any) -> int:
    """Count the words that a reader of the element sees, headline, date, byline and navigation aside."""
    count = count_words(element.text or "")
    for child in element:
        tag = child.tag if isinstance(child.tag, str) else "script"  # a comment
        inside = 0 if tag in _FURNITURE else _words(child)
        count += 0 if tag == "header" and inside < BYLINE else inside
        count += count_words(child.tail or "")
    return count


_BLOCKS = ("p", "div", "section", "header", "span", "h2", "h3", "h4", "strong", "em", "li")
# What of a page is beside its article, or leads to another one.
_BESIDE = frozenset({"a", "dialog", "figcaption", "figure", "footer", "form", "nav", "noscript", "template"})
_LEAST = 50  # word characters of a standfirst
_DATELINE = 30  # word characters that may stand before it, as in `Berlin.`
_SAME = 40  # word characters by which two texts are taken for the same


def shown_standfirst(root: Element, descriptions: Sequence[str], text: str) -> str | None:
    """Return the standfirst that the page shows above its text, or None.

    A description below the text's beginning, in a caption, link, menu or footer, or hidden, is not one.
    ``descriptions`` are those in the page's head; ``text`` is the extracted text of the article.
    """
    wanted = [key for key in map(key_of, descriptions) if len(key) >= _LEAST]
    opening = next((key for key in map(key_of, text.split("\n")) if len(key) >= _SAME), "")[:_SAME]
    if not wanted:
        return None
    longest = 4 * max(map(len, wanted))
    found = None
    for node in root.iter(*_BLOCKS):
        shown = collapse_whitespace(" ".join(_beginning(node, longest)))
        key = key_of(shown)
        if found is not None and found[0] not in node.iterancestors():
            break
        if opening and key.startswith(opening):
            break
        if len(key) < longest and any(_is(key, want) for want in wanted) and _is_of_the_article(node):
            found = (node, shown)
    return found[1] if found else None


def key_of(text: str) -> str:
    """Return the word characters of a text, in small letters."""
    return re.sub(r"\W+", "", text).casefold()


def _beginning(node: Element, length: int) -> Iterator[str]:
    read = 0
    for text in node.itertext():
        yield text
        read += len(text.strip())
        if read > 2 * length:
            return


def _is(key: str, wanted: str) -> bool:
    """Return whether a text is the one wanted: it may go on where that was cut, and have a dateline."""
    return 0 <= key.find(wanted[:_SAME]) <= _DATELINE and len(key) <= 3 * len(wanted)


def _is_of_the_article(node: Element) -> bool:
    for above in (node, *node.iterancestors()):
        hidden = above.get("hidden") is not None or above.get("aria-hidden") == "true"
        if above.tag in _BESIDE or hidden or "display:none" in (above.get("style") or "").replace(" ", ""):
            return False
    return True


_LEAST_WORDS = 8  # words; fewer are labels and what stands between links
_HOLDERS = ("article", "body", "div", "main", "section", "td")
_LOOSE_BLOCKS = frozenset(
    "address article aside blockquote center details div dl figure form h1 h2 h3 h4 h5 h6 hr main nav ol "  # noqa: SIM905 -- readable
    "p pre section table ul".split()
)


def wrap_loose(root: Element) -> bool:
    """Make paragraphs of loose text behind blocks, which extractors pass over; tell whether there was any."""
    found = [
        block
        for holder in root.iter(*_HOLDERS)
        for block in holder
        if block.tag in _LOOSE_BLOCKS and count_words(block.tail or "") >= _LEAST_WORDS
    ]
    for block in found:
        holder = block.getparent()
        paragraph = holder.makeelement("p")
        paragraph.text, block.tail = block.tail, None
        inline = []
        for sibling in block.itersiblings():
            if not isinstance(sibling.tag, str) or sibling.tag in _LOOSE_BLOCKS:
                break
            inline.append(sibling)
        holder.insert(holder.index(block) + 1, paragraph)
        paragraph.extend(inline)
    return bool(found)


_LEAST_UNLED = 20  # words of a page in which the extractor finds no text
SHORT_PAGE = 100  # words of main text below which a page is looked at twice
_STAMP = re.compile(
    r"(?:stand|veröffentlicht|aktualisiert|published|updated)\b[^.!?\d]{0,20}\d[^!?]{0,40}(?<!\.)"
    r"|(?:\w{2,12}, )?\d{1,2}\.\s?\d{1,2}\.\s?\d{2,4}[^.!?]{0,30}",
    re.I,
)
_BYLINE = re.compile(rf"(?:[Vv]on|VON|[Bb]y|BY):? {NAME}(?:(?:,| und| and| &) {NAME}){{0,5}}")
_STAMP_LENGTH = 90  # characters
_TOP = 6  # lines in which a repeated title, a byline or a time stamp may stand


def clean_article(
    body: bytes, content_type: str | None, url: str, fetched: date | None = None
) -> DocumentDraft:
    """Extract the main text of a web page with its sections, title, dates, authors and keywords.

    JSON-LD wins over OpenGraph, OpenGraph over meta tags, all of them over what trafilatura guesses.
    `metadata` holds those known of headline, modified_at, description, teaser, news_keywords, section and
    sitename, and `date_source`: json_ld, meta, url, text or none. No date is later than ``fetched`` (default:
    today).
    """
    html, _encoding = decode(body, content_type)
    root = parse_page(html)
    facts = page_facts(root, url)
    page, marks = _prepared(html)
    found = _extracted(page, url, fetched)
    text, teaser = _main_text(found.text or "", facts, root, marks) if found else ("", facts.description)
    text = tidy(text)
    text = repair_encoding(marks.restored(text) if marks else text).strip()
    if count_words(text) < SHORT_PAGE:
        refuse_chrome(html)
    without_numbers(root)
    body_element = root.find("body")
    blocks = read_blocks(root if body_element is None else body_element)
    content = MainContent(root, blocks, text)
    text, sections = _structured(
        text, found.body if found else None, content, has_article=is_article(html, facts, blocks)
    )
    published, source = find_date(facts, blocks, found.date if found else None, url, html, fetched)
    metadata = page_metadata(facts) | {
        "teaser": teaser,
        "sitename": facts.sitename or (found.sitename if found else None),
        "date_source": source,
    }
    names = (found.author or "").split(";") if found else []
    return DocumentDraft(
        text=text,
        title=facts.title or (found.title if found else None) or None,
        published_at=published,
        language=facts.language,
        authors=facts.authors or tuple(name.strip() for name in names if name.strip()),
        keywords=facts.keywords or tuple((found.tags if found else None) or ()),
        sections=sections,
        metadata={name: value for name, value in metadata.items() if value},
        repaired=True,
    )


def _structured(
    text: str, extracted: Element | None, content: MainContent, *, has_article: bool
) -> tuple[str, tuple[dict[str, Any], ...]]:
    """Return the text of a page and its sections, led by the text that was extracted.

    An article keeps that text, and the headings that stand between its lines are put in. Any other page is
    a document of its own, whose blocks are read from the page itself.
    """
    if not (text and has_article):
        blocks = content.document()
        words = sum(len(block.words) for block in blocks)
        if not text and (words < _LEAST_UNLED or sum(block.linked for block in blocks) > words / 4):
            raise UnusablePage("no main text found")
        if not text or content.adds_to_the_anchor(blocks):
            outline = OutlineBuilder.of(list(paragraphs(blocks)))
            return outline.text, tuple(outline.sections)
    headings = list(_headings(text, extracted))
    lines, shift = text.split("\n"), 0
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    for number, block in content.headings_between():
        start = starts[number]
        headings = [one if one.start < start + shift else one._replace(start=one.start + len(block.text) + 1)
                    for one in headings]  # fmt: skip
        headings.append(Heading(block.text, block.level, start + shift))
        lines[number] = f"{block.text}\n{lines[number]}"
        shift += len(block.text) + 1
    return "\n".join(lines), sections_in("\n".join(lines), sorted(headings, key=lambda one: one.start))


def page_metadata(facts: PageFacts) -> dict[str, Any]:
    return {
        "headline": facts.headline,
        "modified_at": facts.modified_at,
        "description": facts.description,
        "news_keywords": list(facts.news_keywords),
        "section": facts.section,
        "sitename": facts.sitename,
    }


def find_date(
    facts: PageFacts,
    blocks: Sequence[PageBlock],
    guess: str | None,
    url: str,
    html: str,
    fetched: date | None,
) -> tuple[str | None, str]:
    """Return the date of publication and its source: what the page says or shows, or else None and none.

    Trafilatura's guess counts only if the URL or a `<time>` has that day: it also reads days of the text, of
    copyright lines and of code. A day after the page was fetched is none.
    """
    if facts.published_at and facts.date_source:
        return facts.published_at, facts.date_source
    day = iso(guess) if guess else None
    if day and re.search("[-_/]?".join(day[:10].split("-")), url):
        return day, "url"
    shown = shown_date(blocks)
    if shown is None and day and re.search(rf"<time[^>]*\sdatetime=[\"']{day[:10]}", html, re.I):
        shown = day
    if shown is None or shown[:10] > (fetched or datetime.now(UTC).date()).isoformat():
        return None, "none"
    return shown, "text"


def date_guess_options(fetched: date | None) -> dict[str, Any]:
    """Return how a date is guessed: the first one that the page has, and none after it was fetched."""
    latest = {"max_date": fetched.isoformat()} if fetched else {}
    return {"original_date": True, "extensive_search": True, **latest}


def _prepared(html: str) -> tuple[Any, Marks | None]:
    from trafilatura import load_html

    root: Any = load_html(html)
    if root is None:
        return html, None
    is_loose, marks = wrap_loose(root), mark_code(root)
    return (root if is_loose or marks else html), marks


def _extracted(page: Any, url: str, fetched: date | None) -> Any:
    from trafilatura import bare_extraction

    options: dict[str, Any] = {
        "url": url or None,
        "include_tables": True,
        "include_comments": False,
        "with_metadata": True,
        "date_extraction_params": date_guess_options(fetched),
    }
    precise: Any = bare_extraction(deepcopy(page), favor_precision=True, **options)
    whole: Any = bare_extraction(page, favor_recall=True, **options) if (_length(precise) < 600) else None
    return whole if whole is not None and len(whole.text or "") > 2 * _length(precise) else precise


def _length(found: Any) -> int:
    return len(found.text or "") if found is not None else 0


# ------------------------------------------------------------------------------------------- text


def _main_text(text: str, facts: PageFacts, root: Element, marks: Marks | None) -> tuple[str, str | None]:
    lines = _without_related(_without_top(text.strip().splitlines(), facts))
    whole = "\n".join(lines).strip()
    teaser = shown_standfirst(root, facts.descriptions, whole)
    if teaser and lines and key_of(teaser)[:80] not in key_of(whole):
        whole = f"{teaser}\n{whole}"
    return whole, teaser or facts.description


def _headings(text: str, body: Element) -> Iterator[Heading]:
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
    if len(line) >= _STAMP_LENGTH or _STAMP.fullmatch(line):
        return len(line) < _STAMP_LENGTH
    if not _BYLINE.fullmatch(line):  # as "By the numbers" is none
        return False
    words = set(re.findall(r"\w+", line.casefold())[1:])
    known = {word for name in authors for word in re.findall(r"\w+", name.casefold())}
    return bool(words & known) if known else len(words) > 1


def _without_related(lines: list[str]) -> list[str]:
    kept: list[str] = []
    dropping = False
    for line in lines:
        if RELATED.fullmatch(line.strip(" -:–>»")):
            dropping = True
            continue
        dropping = dropping and line.startswith("- ")
        if not dropping:
            kept.append(line)
    return kept
