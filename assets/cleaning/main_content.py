"""Finds which blocks of a page are its text, led by the text that an extractor found."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from rag_assay.assets.cleaning.blocks import INLINE, PageBlock, words_of
from rag_assay.assets.cleaning.page_facts import PageFacts
from rag_assay.assets.cleaning.tree import Element

_HIT = 0.75  # of a block's word trigrams that the extractor's text must hold
_SHARE = 0.9  # of the words of all hits that the region must hold
_PART = 60  # words of a part beside the region that is taken in; half of them under a heading
_LINKED = 0.25  # of the words of a part that may be links
_STRIP = 60  # words of the links to the next and the previous page
_CARD = 40  # words of a teaser
_BYLINE = 20  # words of a line with author and date
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
_FURNITURE_TAGS = frozenset({"nav", "footer", "aside", "form"})
_FURNITURE_ROLES = frozenset(
    "banner complementary contentinfo dialog directory doc-toc menu menubar navigation search toolbar".split()  # noqa: SIM905 -- readable
)
_FURNITURE = re.compile(  # a part of a class, or a whole id: parts of an id are often a heading's words
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
_RIGHTS = re.compile(r"\W*(?:©|\(c\)|copyright)\W*(?:\d{4}|by\b|©|\(c\))", re.I)


def is_article(html: str, facts: PageFacts, blocks: list[PageBlock]) -> bool:
    """Return whether a page is an article or a post: by its metadata, or by a line with author and date."""
    return (
        _ARTICLE.search(html) is not None
        or facts.published_at is not None
        or any(
            len(block.words) <= _BYLINE and _DATE.search(block.text) and name in block.text
            for block in blocks
            for name in facts.authors
        )
    )


class MainContent:
    """The blocks of a page, and which of them an extractor's text holds.

    root: the page; blocks: those of its body; anchor: the extractor's text
    """

    def __init__(self, root: Element, blocks: list[PageBlock], anchor: str) -> None:
        self._root, self._blocks, self._anchor = root, blocks, anchor
        self._hits = set(self._hit_places())
        self._held: Counter[Element] = Counter()  # words within an element
        self._hit_words: Counter[Element] = Counter()  # those of hits
        for place, block in enumerate(blocks):
            for node in block.path:
                self._held[node] += len(block.words)
                if place in self._hits:
                    self._hit_words[node] += len(block.words)
        body = root.find("body")
        self._body = root if body is None else body

    def document(self) -> list[PageBlock]:
        """Return the blocks of a page that is a document of its own: its region and what belongs to it."""
        region, is_named = self._region()
        kept = self._kept(region)
        taken = {place for place in kept if region in self._blocks[place].path}
        while not is_named and region.tag != "body" and region.getparent() is not None:
            region = region.getparent()
            taken |= self._beside(region, kept, taken)
        return _trimmed([self._blocks[place] for place in self._without_related(sorted(taken))])

    def adds_to_the_anchor(self, found: list[PageBlock]) -> bool:
        """Return whether blocks hold more than the extractor's text and the title do."""
        if any(block.kind in {"code", "row", "item", "definition"} for block in found):
            return True
        hits = {id(self._blocks[place]) for place in self._hits}
        return any(id(block) not in hits and block.level != 1 for block in found)

    def headings_between(self) -> Iterator[tuple[int, PageBlock]]:
        """Yield the headings that the anchor lacks, with the number of the line that each stands above."""
        places: dict[str, list[int]] = defaultdict(list)
        for place, block in enumerate(self._blocks):
            places["".join(block.words)].append(place)
        region, _ = self._region()
        kept = self._kept(region)
        last = -1
        for number, line in enumerate(self._anchor.split("\n")):
            if not line.strip():
                continue
            at = next((one for one in places.get("".join(words_of(line)), ()) if one > last), None)
            if at is None:
                continue
            above = self._blocks[at - 1] if 0 <= last < at - 1 <= last + 3 else None
            is_title = above is not None and above.kind == "heading" and not above.linked
            is_ours = at - 1 in kept and above is not None and region in above.path
            if above and is_title and is_ours and self._blocks[at].kind != "heading":
                yield number, above
            last = at

    def _hit_places(self) -> Iterator[int]:
        """Yield the places of blocks whose trigrams the anchor holds; a short one must be a line of it."""
        words = words_of(self._anchor)
        grams = set(zip(words, words[1:], words[2:], strict=False))
        lines = {
            " ".join(words_of(part)) for line in self._anchor.split("\n") for part in (line, *line.split("|"))
        }
        for place, block in enumerate(self._blocks):
            own = block.words
            if len(own) < 3:
                if " ".join(own) in lines:
                    yield place
            elif sum(gram in grams for gram in zip(own, own[1:], own[2:], strict=False)) >= _HIT * (
                len(own) - 2
            ):
                yield place

    def _region(self) -> tuple[Element, bool]:
        """Return the smallest element that holds the hits, and whether it is the page's only `<main>`."""
        total = self._hit_words[self._body]
        mains = self._root.xpath("//main | //*[@role='main']")
        if len(mains) == 1 and self._hit_words[mains[0]] >= 0.5 * total:
            return mains[0], True
        node = self._body
        while total:
            best = max(node, key=lambda child: self._hit_words[child], default=None)
            if best is None or self._hit_words[best] < _SHARE * total:
                break
            if best.tag in INLINE or best.tag in _LEADS_NOWHERE:
                break
            node = best
        return node, False

    def _kept(self, region: Element) -> set[int]:
        """Return the places of the blocks that are not furniture of the page."""
        is_furniture = self._furniture(region)
        beside = self._strips() | set(self._teasers(region))
        contents = self._contents()
        return {
            place
            for place, block in enumerate(self._blocks)
            if not any(is_furniture(node) or node in beside or node in contents for node in block.path)
            and not (
                block.kind not in {"heading", "code"}
                and block.linked >= 0.5 * len(block.words)
                and _MOVES.fullmatch(block.text)
            )
        }

    def _furniture(self, region: Element) -> Callable[[Element], bool]:
        hits, words = self._hit_words[self._body] or 1, self._held[self._body] or 1
        known: dict[Element, bool] = {}

        def is_furniture(node: Element) -> bool:
            if node not in known:
                known[node] = (
                    node is not region
                    and _is_furniture(node)
                    and self._hit_words[node] < 0.3 * hits
                    and self._held[node] < 0.4 * words
                )
            return known[node]

        return is_furniture

    def _strips(self) -> set[Element]:
        """Return the rows of links to the next and previous page."""
        moves = self._root.xpath(
            "//a[@rel='next' or @rel='prev' or @rel='previous' or @rel='up' or @accesskey='n' "
            "or @accesskey='p' or @accesskey='u' or @accesskey='N' or @accesskey='P']"
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
        """Return the lists and tables that are nearly all links to places of this page: its contents."""
        links: dict[Element, Counter[str]] = defaultdict(Counter)
        for block in self._blocks:
            for node in block.path:
                if node.tag in {"ul", "ol", "dl", "table"}:
                    here = sum(target.startswith("#") for target in block.targets)
                    links[node].update(all=len(block.targets), here=here, linked=block.linked)
        return {
            node
            for node, found in links.items()
            if found["all"] > 2
            and found["here"] >= 0.8 * found["all"]
            and found["linked"] >= 0.7 * self._held[node]
        }

    def _teasers(self, region: Element) -> Iterator[Element]:
        """Yield cards that lead elsewhere: three or more alike with picture and link, or five bare ones."""
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
        """Return what belongs to the text among the parts beside the region: text or headings, not links."""
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
            is_titled = any(block.level == 1 or block.path[0] is node for block in headings)
            is_text = is_titled or words >= (_PART / 2 if headings else _PART)
            if not self._hits.isdisjoint(places) or (
                is_text and sum(block.linked for block in blocks) <= _LINKED * words
            ):
                found.update(places)
        return found

    def _without_related(self, places: list[int]) -> Iterator[int]:
        """Leave out notices, and the lists of links to other articles with the line above them."""
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
        """Return whether a block that the extractor left out asks for consent, or is a line of links."""
        block = self._blocks[place]
        if place in self._hits:
            return False
        is_links = block.kind == "text" and len(block.words) <= 6 and block.linked >= 0.8 * len(block.words)
        return is_links or (len(block.words) < 80 and _CONSENT.search(block.text) is not None)


def _holds(node: Element, *tags: str) -> bool:
    return next(node.iterdescendants(*tags), None) is not None


def _is_furniture(node: Element) -> bool:
    if node.tag in _FURNITURE_TAGS or str(node.get("role")) in _FURNITURE_ROLES:
        return True
    if node.tag in {"pre", "code", "td", "th", "tr", "body", "html"}:
        return False
    classes = re.sub(r"([a-z])([A-Z])", r"\1-\2", str(node.get("class") or "")).lower()
    names = {*re.split(r"[\s_-]+", classes), *classes.split()}
    if node.tag != "section" and not re.fullmatch("h[1-6]", node.tag):  # whose id is made of the heading
        names.add(str(node.get("id") or "").lower())
    return any(_FURNITURE.fullmatch(name) for name in names)


def _trimmed(found: list[PageBlock]) -> list[PageBlock]:
    """Leave out rows of links at the top; links, rights and headings without a text at the end."""
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
    is_links = block.kind == "text" and len(block.targets) >= 2 and _is_linked(block)
    return is_links and before.kind != "heading"
