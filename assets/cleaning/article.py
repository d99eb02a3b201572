"""Web pages: main text led by trafilatura, title, date and authors by the page's metadata."""

from __future__ import annotations

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from functools import cache, cached_property, lru_cache
from itertools import accumulate, chain, groupby
from typing import Any

from lxml import etree

from rag_assay.assets.cleaning.blocks import (
    INLINE,
    Marks,
    PageBlock,
    mark_code,
    paragraphs,
    read_blocks,
    within,
    without_numbers,
    words_of,
)
from rag_assay.assets.cleaning.draft import MIN_WORDS, DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.fidelity import PageComparison
from rag_assay.assets.cleaning.outline import Heading, OutlineBuilder, sections_in
from rag_assay.assets.cleaning.page_facts import NAME, PageFacts, page_facts
from rag_assay.assets.cleaning.tree import Element, parse_page
from rag_assay.assets.cleaning.unicode import collapse_whitespace, count_words, repair_encoding, tidy
from rag_assay.assets.cleaning.written_dates import shown_date
from rag_assay.warehouse.iso_dates import iso
from rag_assay.warehouse.pages import decode

# Their complaints are our recorded reasons. Not by level: trafilatura sets that of htmldate once imported.
for _library in ("trafilatura", "htmldate"):
    logging.getLogger(_library).propagate = False

_HIT = 0.75  # of a block's word trigrams that the extractor's text must hold
_SHARE = 0.9  # of the words of all hits that the region must hold
_PART = 60  # words of a part beside the region that is taken in; half of them under a heading
_LINKED = 0.25  # of the words of a part that may be links
_LONGEST_RUN = 500  # inline elements in a row
_STRIP = 60  # words of the links to the next and the previous page
_CARD = 40  # words of a teaser
_BYLINE_WORDS = 20  # words of a line with author and date
_DATE = re.compile(r"\b\d{1,2}\D{1,12}(?:19|20)?\d\d\b")
_LEADS_NOWHERE = frozenset("ul ol dl li dd p pre blockquote center".split())  # noqa: SIM905 -- readable

_ARTICLE = re.compile(
    r'"@type"\s*:\s*\[?\s*"\w*(?:Article|BlogPosting|Report)"|article:published_time'
    r'|og:type["\'][^>]*article|article["\'][^>]*og:type'
    r'|itemtype=["\'][^"\']*(?:Article|BlogPosting)|itemprop=["\']articleBody'
    r'|<article[^>]+class=["\'][^"\']*\b(?:h-?entry|post|blog)\b',
    re.I,
)
# Above a list of other articles, or in front of the title of one; not a sentence that begins alike.
RELATED = re.compile(
    r"(?:auch interessant|mehr (?:dazu|zum thema)|lesen sie auch|das könnte sie auch interessieren"
    r"|weitere themen|passend dazu|zum thema|related (?:posts|articles|stories)|you may also like"
    r"|read also|more on this(?: story)?)(?:\W*|\b[^.!?]{0,60}:|: [^.!?]{0,80})",
    re.I,
)
_ARTICLE_SIGNS = ('"@type"', "article:published_time", "og:type", "itemtype", "itemprop", "<article")
_URL_DAY = re.compile(r"\d{4}[-_/]?\d\d[-_/]?\d\d")
_TIME_DAY = re.compile(r"<time[^>]*\sdatetime=[\"']?\d{4}-\d\d-\d\d", re.I)
_FURNITURE_TAGS = frozenset({"nav", "footer", "aside", "form"})
_FURNITURE_ROLES = frozenset(
    "banner complementary contentinfo dialog directory doc-toc menu menubar navigation search toolbar".split()  # noqa: SIM905 -- readable
)
_FURNITURE_NAME = re.compile(  # a part of a class, or a whole id: parts of an id are often a heading's words
    r"nav|navbar|navigation|navheader|navfooter|navrow|nav-panel|navpath|sidebar|sphinxsidebar|sidemenu|menu"
    r"|toc|localtoc|breadcrumbs?|crumbs?|footer|colophon|share|sharing|social|cookies?|consent|gdpr"
    r"|newsletter|subscribe|advert|advertisement|ads?|promo|sponsor|pagination|pager|skip|skiplink"
    r"|headerlink|permalink|qindex|masthead|comments?|disqus|related|copyright|chlinktop|chlinkprevnext\w*"
    r"|searchbox|toplang|bottomlang|languages?|dropdown|popup|modal|toolbar|meta|byline"
)
_MOVES = re.compile(
    r"\W*(?:(?:next|previous|prev|up|home|index|contents?|top|back|forward|modules|weiter|zurück)\W*)+"
    r"(?:[:›»→].*)?",
    re.I,
)
_CONSENT = re.compile(
    r"\bcookies\b.*\b(?:agree|accept|consent|settings|zustimm|akzeptier|einverstanden)"
    r"|\b(?:agree|accept|consent)\w*\b.*\bcookies\b",
    re.I | re.S,
)
_SEE_ALSO = re.compile(r"\W*(?:see also|siehe auch|further reading|references)\W*", re.I)
_RIGHTS = re.compile(r"\W*(?:©|\(c\)|copyright)\W*(?:\d{4}|by\b|©|\(c\))", re.I)


def is_article(html: str, facts: PageFacts, blocks: list[PageBlock]) -> bool:
    """Return whether a page is an article or a post: by its metadata, or by a line with author and date."""
    return (
        facts.published_at is not None
        or (any(sign in html.lower() for sign in _ARTICLE_SIGNS) and _ARTICLE.search(html) is not None)
        or any(
            len(block.words) <= _BYLINE_WORDS and _DATE.search(block.text) and name in block.text
            for block in blocks
            for name in facts.authors
        )
    )


class MainContent:
    """The blocks of a page, and which of them an extractor's text (``anchor``) holds."""

    def __init__(self, root: Element, blocks: list[PageBlock], anchor: str) -> None:
        self._root, self._blocks = root, blocks
        self._anchor_lines = anchor.split("\n")
        self._anchor_words = [words_of(line) for line in self._anchor_lines]
        self._hits = set(self._hit_places())
        self._held: Counter[Element] = Counter()  # words within an element
        self._hit_words: Counter[Element] = Counter()  # those of hits
        for place, block in enumerate(blocks):
            words = len(block.words)
            for node in block.path:
                self._held[node] += words
            if place in self._hits:
                for node in block.path:
                    self._hit_words[node] += words
        body = root.find("body")
        self._body = root if body is None else body

    def document(self) -> list[PageBlock]:
        region, is_named = self._region
        kept = self._kept
        taken = {place for place in kept if region in self._blocks[place].path}
        while not is_named and region.tag != "body" and region.getparent() is not None:
            region = region.getparent()
            taken |= self._beside(region, kept, taken)
        return _trimmed([self._blocks[place] for place in self._without_related(sorted(taken))])

    def inside(self) -> tuple[Element, list[PageBlock]]:
        """Return the region of the text, and its blocks from first to last hit, without boilerplate."""
        region, _ = self._region
        last = max(self._hits, default=-1)
        kept = (at for at in sorted(self._kept) if min(self._hits, default=0) <= at <= last)
        return region, [self._blocks[at] for at in kept if region in self._blocks[at].path]

    def adds_to_the_anchor(self, found: list[PageBlock]) -> bool:
        if any(block.kind in {"code", "row", "item", "definition"} for block in found):
            return True
        hits = {id(self._blocks[place]) for place in self._hits}
        return any(id(block) not in hits and block.level != 1 for block in found)

    def headings_between(self) -> Iterator[tuple[int, PageBlock]]:
        places: dict[str, list[int]] = defaultdict(list)
        for place, block in enumerate(self._blocks):
            places["".join(block.words)].append(place)
        region, _ = self._region
        kept = self._kept
        last = -1
        for number, line in enumerate(self._anchor_lines):
            if not line.strip():
                continue
            at = next(
                (one for one in places.get("".join(self._anchor_words[number]), ()) if one > last), None
            )
            if at is None:
                continue
            above = self._blocks[at - 1] if 0 <= last < at - 1 <= last + 3 else None
            is_title = above is not None and above.kind == "heading" and not above.linked
            is_ours = at - 1 in kept and above is not None and region in above.path
            if above and is_title and is_ours and self._blocks[at].kind != "heading":
                yield number, above
            last = at

    def _hit_places(self) -> Iterator[int]:
        words = list(chain.from_iterable(self._anchor_words))
        grams = set(zip(words, words[1:], words[2:], strict=False))
        lines = {" ".join(line) for line in self._anchor_words}
        cells = (cell for line in self._anchor_lines if "|" in line for cell in line.split("|"))
        lines.update(" ".join(words_of(cell)) for cell in cells)
        for place, block in enumerate(self._blocks):
            own = block.words
            if len(own) < 3:
                if " ".join(own) in lines:
                    yield place
            else:
                held = sum(map(grams.__contains__, zip(own, own[1:], own[2:], strict=False)))
                if held >= _HIT * (len(own) - 2):
                    yield place

    @cached_property
    def _region(self) -> tuple[Element, bool]:
        total = self._hit_words[self._body]
        mains = self._root.xpath("//main | //*[@role='main']")
        if len(mains) == 1 and self._hit_words[mains[0]] >= 0.5 * total:
            return mains[0], True
        node = self._body
        while total:
            best = max(node, key=lambda child: self._hit_words[child], default=None)
            if best is None or self._hit_words[best] < _SHARE * total or best.tag in INLINE | _LEADS_NOWHERE:
                break
            node = best
        return node, False

    @cached_property
    def _kept(self) -> set[int]:
        region, _ = self._region
        beside = {*self._strips(), *self._teasers(region), *self._contents()}
        hits, words = self._hit_words[self._body] or 1, self._held[self._body] or 1

        def is_beside(node: Element) -> bool:
            return node in beside or (
                node is not region
                and _is_furniture(node)
                and self._hit_words[node] < 0.3 * hits
                and self._held[node] < 0.4 * words
            )

        is_within = within(is_beside)
        return {
            place
            for place, block in enumerate(self._blocks)
            if not is_within(block.path)
            and not (
                block.kind not in {"heading", "code"}
                and block.linked >= 0.5 * len(block.words)
                and _MOVES.fullmatch(block.text)
            )
        }

    def _strips(self) -> set[Element]:
        moves = (
            link
            for link in self._root.iter("a")
            if link.get("rel") in {"next", "prev", "previous", "up"} or link.get("accesskey") in set("npuNP")
        )
        holders = (
            next(
                (above for above in link.iterancestors("table", "div", "p", "ul", "td") if self._held[above]),
                None,
            )
            for link in moves
        )
        return {holder for holder in holders if holder is not None and self._held[holder] < _STRIP}

    def _contents(self) -> set[Element]:
        links: dict[Element, Counter[str]] = defaultdict(Counter)
        for block in self._blocks:
            for node in block.path:
                if node.tag in {"ul", "ol", "dl", "table"}:
                    here = sum(link.target.startswith("#") for link in block.links)
                    links[node].update(all=len(block.links), here=here, linked=block.linked)
        return {
            node
            for node, found in links.items()
            if found["all"] > 2
            and found["here"] >= 0.8 * found["all"]
            and found["linked"] >= 0.7 * self._held[node]
        }

    def _teasers(self, region: Element) -> Iterator[Element]:
        for holder in region.iter("div", "section", "ul", "td", "main", "body"):
            alike: dict[tuple[str, str], list[Element]] = defaultdict(list)
            for child in holder.iterchildren("div", "article", "li", "a"):
                if not self._hit_words[child] and 0 < self._held[child] <= _CARD:
                    alike[child.tag, str(child.get("class") or "")].append(child)
            for (tag, name), cards in alike.items():
                if len(cards) < 3 or any(_holds(card, "pre", "code", "dl", "table") for card in cards):
                    continue
                pictured = [one for one in cards if _holds(one, "img") and (tag == "a" or _holds(one, "a"))]
                is_bare = (
                    name
                    and tag in {"div", "article"}
                    and not any(_holds(card, "h1", "h2", "h3", "h4") for card in cards)
                )
                if len(pictured) >= 3 or (len(cards) >= 5 and is_bare):
                    yield from cards

    def _beside(self, parent: Element, kept: set[int], taken: set[int]) -> set[int]:
        parts: dict[Element, list[int]] = defaultdict(list)
        for place in kept - taken:
            path = self._blocks[place].path
            if parent in path:
                parts[path[max(path.index(parent) - 1, 0)]].append(place)
        found: set[int] = set()
        for node, places in parts.items():
            blocks = [self._blocks[place] for place in places]
            words = sum(len(block.words) for block in blocks)
            headings = [block for block in blocks if block.kind == "heading"]
            is_titled = any(
                block.level == 1 or block.path[0] is node or self._names_page(block) for block in headings
            )
            is_text = is_titled or words >= (_PART / 2 if headings else _PART)
            if not self._hits.isdisjoint(places) or (
                is_text and sum(block.linked for block in blocks) <= _LINKED * words
            ):
                found.update(places)
        return found

    def _names_page(self, heading: PageBlock) -> bool:
        """Return whether the title of the window begins with a heading; a site's name comes last in it."""
        return bool(heading.words) and self._window[: len(heading.words)] == heading.words

    @cached_property
    def _window(self) -> list[str]:
        return words_of(self._root.findtext(".//title") or "")

    def _without_related(self, places: list[int]) -> Iterator[int]:
        is_related = False
        for place in places:
            block = self._blocks[place]
            if RELATED.fullmatch(block.text.strip(" -:–>»")) and place not in self._hits:
                is_related = True
                continue
            is_related = is_related and block.kind == "item" and _is_linked(block)
            if not is_related and not self._is_notice(place):
                yield place

    def _is_notice(self, place: int) -> bool:
        block = self._blocks[place]
        if place in self._hits:
            return False
        is_links = block.kind == "text" and len(block.words) <= 6 and _is_linked(block)
        if is_links and place > 0 and _SEE_ALSO.fullmatch(self._blocks[place - 1].text):
            return False
        return is_links or (len(block.words) < 80 and _CONSENT.search(block.text) is not None)


def _holds(node: Element, *tags: str) -> bool:
    return next(node.iterdescendants(*tags), None) is not None


def _is_furniture(node: Element) -> bool:
    if node.tag in _FURNITURE_TAGS or str(node.get("role")) in _FURNITURE_ROLES:
        return True
    if node.tag in {"pre", "code", "td", "th", "tr", "body", "html"}:
        return False
    # The id of a section or heading is made of the heading's text.
    is_made = node.tag == "section" or re.fullmatch("h[1-6]", node.tag)
    return _names_furniture(node.get("class") or "", "" if is_made else node.get("id") or "")


@lru_cache(4096)  # a site's pages share their classes
def _names_furniture(classes: str, identifier: str) -> bool:
    parts = re.sub(r"([a-z])([A-Z])", r"\1-\2", classes).lower()
    names = {*re.split(r"[\s_-]+", parts), *parts.split(), identifier.lower()}
    return any(map(_FURNITURE_NAME.fullmatch, names))


def _trimmed(found: list[PageBlock]) -> list[PageBlock]:
    start, end = 0, len(found)
    while start < end and found[start].kind in {"text", "item", "row"} and _is_linked(found[start]):
        start += 1
    if start == end or not (found[start].kind == "heading" or len(found[start].words) >= 10):
        start = 0
    while end > start + 1 and _ends_no_text(found[end - 1], found[end - 2]):
        end -= 1
    return found[start:end]


def _is_linked(block: PageBlock) -> bool:
    return block.linked >= 0.8 * len(block.words)


def _ends_no_text(block: PageBlock, before: PageBlock) -> bool:
    if block.kind == "heading" or (_RIGHTS.match(block.text) and len(block.words) <= 40):
        return True
    is_links = block.kind == "text" and len(block.links) >= 2 and _is_linked(block)
    return is_links and before.kind != "heading"


BYLINE = 20  # words: what a header says beyond its headline is a byline below this, and text from there on
_FURNITURE = frozenset(
    "address aside button footer h1 nav noscript script style template time".split()  # noqa: SIM905 -- readable
)
_FACTS = frozenset({"link", "meta"})


def refuse_chrome(html: str) -> None:
    """Refuse a page whose one `<main>` or `<article>` has fewer than `MIN_WORDS` words: trafilatura would
    take its surroundings. Several such elements, none, or one with `<meta>` alone say nothing.
    """
    from trafilatura import load_html

    tree: Any = load_html(html)
    if tree is None:
        return
    places = (tree.findall(f".//{tag}") for tag in ("main", "article"))
    counts = [_words(found[0]) for found in places if len(found) == 1 and not _holds_facts(found[0])]
    if counts and max(counts) < MIN_WORDS:
        found = max(counts)
        raise UnusablePage(
            f"too short: {found} {'word' if found == 1 else 'words'} in the page's own content"
        )


def _holds_facts(element: Any) -> bool:
    inside = [child.tag for child in element.iter() if child is not element and isinstance(child.tag, str)]
    return bool(inside) and _FACTS.issuperset(inside) and not element.text_content().strip()


def _words(element: Any) -> int:
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
    """Return the standfirst that the page shows above its text (``descriptions`` are those of its head), or
    None. One below the text's beginning, in a caption, link, menu or footer, or hidden, does not count.
    """
    wanted = [key for key in map(key_of, descriptions) if len(key) >= _LEAST]
    opening = next((key for key in map(key_of, text.split("\n")) if len(key) >= _SAME), "")[:_SAME]
    if not wanted:
        return None
    longest = 4 * max(map(len, wanted))
    found = None
    for node in root.iter(*_BLOCKS):
        if found is not None and found[0] not in node.iterancestors():
            break
        start = _key_start(node)
        if not (opening and start.startswith(opening)) and not any(want[:_SAME] in start for want in wanted):
            continue  # without reading all of it
        shown = collapse_whitespace(" ".join(_beginning(node, longest)))
        key = key_of(shown)
        if opening and key.startswith(opening):
            break
        if len(key) < longest and any(_is(key, want) for want in wanted) and _is_of_the_article(node):
            found = (node, shown)
    return found[1] if found else None


def key_of(text: str) -> str:
    return re.sub(r"\W+", "", text).casefold()


def _key_start(node: Element) -> str:
    key = ""
    for text in node.itertext():
        if not text.isspace():
            key += key_of(collapse_whitespace(text))
        if len(key) >= _DATELINE + _SAME:
            break
    return key


def _beginning(node: Element, length: int) -> Iterator[str]:
    read = 0
    for text in node.itertext():
        yield text
        read += len(text.strip())
        if read > 2 * length:
            return


def _is(key: str, wanted: str) -> bool:
    return 0 <= key.find(wanted[:_SAME]) <= _DATELINE and len(key) <= 3 * len(wanted)


def _is_of_the_article(node: Element) -> bool:
    return not any(
        above.tag in _BESIDE
        or above.get("hidden") is not None
        or above.get("aria-hidden") == "true"
        or "display:none" in (above.get("style") or "").replace(" ", "")
        for above in (node, *node.iterancestors())
    )


_LEAST_WORDS = 8  # words; fewer are labels and what stands between links
_HOLDERS = ("article", "body", "div", "main", "section", "td")
_LOOSE_BLOCKS = frozenset(
    "address article aside blockquote center details div dl figure form h1 h2 h3 h4 h5 h6 hr main nav ol "  # noqa: SIM905 -- readable
    "p pre section table ul".split()
)


def wrap_loose(root: Element) -> None:
    """Make paragraphs of loose text behind blocks, which extractors pass over."""
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


_SHORT = 600  # characters of text below which recall is preferred to precision
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

    JSON-LD wins over OpenGraph, that over meta tags, these over trafilatura's guesses. No date is later than
    ``fetched`` (default: today). `metadata` holds headline, modified_at, description, teaser, news_keywords,
    section and sitename where known, and `date_source`: json_ld, meta, url, text or none.
    """
    html, _encoding = decode(body, content_type)
    root = parse_page(html)
    facts = page_facts(root, url)
    page, marks = _prepared(html)
    found = _extracted(page) if page is not None else None
    guess = _guessed(page, facts, url, html, fetched) if found else None
    text, teaser = _main_text(found.text or "", facts, root, marks) if found else ("", facts.description)
    text = tidy(text)
    text = repair_encoding(marks.restored(text) if marks else text).strip()
    if count_words(text) < SHORT_PAGE:
        refuse_chrome(html)
    without_numbers(root)
    body_element = root.find("body")
    blocks = read_blocks(root if body_element is None else body_element)
    content = MainContent(root, blocks, text)
    has_article = is_article(html, facts, blocks)
    text, sections = _structured(text, found.body if found else None, content, has_article=has_article)
    part, held = content.inside() if has_article else (root, blocks)
    comparison = PageComparison(part, held, text, sections, blocks)
    published, source = find_date(facts, blocks, guess.date if guess else None, url, html, fetched)
    metadata = page_metadata(facts) | {
        "teaser": teaser,
        "sitename": facts.sitename or (guess.sitename if guess else None),
        "date_source": source,
        "fidelity": comparison.counts(),
    }
    names = (guess.author or "").split(";") if guess else []
    return DocumentDraft(
        text=text,
        title=facts.title or (guess.title if guess else None) or None,
        published_at=published,
        language=facts.language,
        authors=facts.authors or tuple(name.strip() for name in names if name.strip()),
        keywords=facts.keywords or tuple((guess.tags if guess else None) or ()),
        sections=sections,
        metadata={name: value for name, value in metadata.items() if value},
        repaired=True,
        comparison=comparison,
    )


def _structured(
    text: str, extracted: Element | None, content: MainContent, *, has_article: bool
) -> tuple[str, tuple[dict[str, Any], ...]]:
    """Return the text of a page and its sections: of an article the extracted text with its headings put in,
    of any other page the page's own blocks.
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
    names = ("headline", "modified_at", "description", "section", "sitename")
    return {name: getattr(facts, name) for name in names} | {"news_keywords": list(facts.news_keywords)}


def find_date(
    facts: PageFacts,
    blocks: Sequence[PageBlock],
    guess: str | None,
    url: str,
    html: str,
    fetched: date | None,
) -> tuple[str | None, str]:
    """Return the date of publication and its source, or None and none. Trafilatura's guess counts only if the
    URL or a `<time>` has that day; a day after the page was fetched does not count.
    """
    if facts.published_at and facts.date_source:
        return facts.published_at, facts.date_source
    day = iso(guess) if guess else None
    if day and re.search("[-_/]?".join(day[:10].split("-")), url):
        return day, "url"
    shown = shown_date(blocks)
    if shown is None and day and re.search(rf"<time[^>]*\sdatetime=[\"']?{day[:10]}", html, re.I):
        shown = day
    if shown is None or shown[:10] > (fetched or datetime.now(UTC).date()).isoformat():
        return None, "none"
    return shown, "text"


def _guessed(page: Any, facts: PageFacts, url: str, html: str, fetched: date | None) -> Any:
    """Return trafilatura's metadata, or None if the page states all of it. Its `date` is empty if `find_date`
    could not use one: the search reads all of the text.
    """
    from trafilatura import extract_metadata

    dated = facts.published_at is None and (_URL_DAY.search(url) or _TIME_DAY.search(html))
    if not dated and all((facts.title, facts.sitename, facts.authors, facts.keywords)):
        return None
    options = date_guess_options(fetched) if dated else {"outputformat": ""}  # which ends the search
    return extract_metadata(page, default_url=url or None, date_config=options)


def date_guess_options(fetched: date | None) -> dict[str, Any]:
    latest = {"max_date": fetched.isoformat()} if fetched else {}
    return {"original_date": True, "extensive_search": True, **latest}


def _prepared(html: str) -> tuple[Any, Marks | None]:
    from trafilatura import load_html

    root: Any = load_html(html)
    if root is None:
        return None, None
    root.getroottree().parser.set_element_class_lookup(_html_elements())
    _drop_nested(root)
    _join_long_runs(root)
    wrap_loose(root)
    return root, mark_code(root)


def _join_long_runs(root: Any) -> None:
    """Make one text of hundreds of inline elements in a row. Trafilatura strips their tags and reads the text
    that is left piece by piece, each with all behind it: 470 MB for 5,000 links.
    """
    inline = Counter(node.getparent() for node in root.iter(*INLINE))
    for holder in [node for node, count in inline.items() if count > _LONGEST_RUN and node is not None]:
        for is_inline, nodes in groupby(list(holder), lambda node: node.tag in INLINE):
            run = list(nodes)
            if not is_inline or len(run) <= _LONGEST_RUN:
                continue
            text = "".join(part for node in run for part in (*node.itertext(), node.tail or ""))
            for node in run[1:]:
                holder.remove(node)
            run[0].clear()
            run[0].tag, run[0].text = "span", text


@cache
def _html_elements() -> etree.ElementDefaultClassLookup:
    """The class of every element. The parser's own lookup finds it by tag, in Python, at each access: a tenth
    of the time for methods of forms that no extractor calls.
    """
    from lxml import html

    return etree.ElementDefaultClassLookup(element=html.HtmlElement)


def _drop_nested(root: Any) -> None:
    """Drop what trafilatura deletes where it stands within its like, as `svg` in `svg`: of a tag it deletes
    none after the first such pair, and loses the text behind an icon that stays.
    """
    from trafilatura.settings import MANUALLY_CLEANED

    deleted = {*MANUALLY_CLEANED} - {"form", "figure"}  # which it may keep
    for node in list(root.iter(*deleted)):
        if next(node.iterancestors(node.tag), None) is not None:
            node.drop_tree()


def _extracted(page: Any) -> Any:
    """Extract without trafilatura's comparison with readability and justext, a third of its time: of 50 news
    pages, 150 of documentation and 255 posts it changed five, and body F1 of the news is .0005 lower with it.
    """
    from trafilatura import bare_extraction

    precise: Any = bare_extraction(page, favor_precision=True, include_comments=False, fast=True)
    if _length(precise) >= _SHORT:
        return precise
    whole: Any = bare_extraction(page, favor_recall=True, include_comments=False, fast=True)
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
    top = [
        line
        for line in lines[:_TOP]
        if key_of(line) not in heads | names and not _is_stamp(line.strip(), facts.authors)
    ]
    return top + lines[_TOP:]


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
