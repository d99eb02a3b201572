"""Writes the links of a web page into its document, as Markdown: `[text](address)`."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple
from urllib.parse import quote, urljoin, urlsplit

from rag_assay.assets.cleaning.blocks import Link, PageBlock
from rag_assay.assets.cleaning.draft import DocumentDraft
from rag_assay.assets.cleaning.fidelity import is_navigation
from rag_assay.assets.cleaning.unicode import collapse_whitespace, repair_encoding, tidy

_SCHEMES = frozenset({"", "http", "https", "mailto"})  # "": relative to a page that has no address
_MOST = 2_000  # characters of an address
_SLACK = 2_000  # characters within which a link is sought; cells of a row stand between its links
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")  # browsers skip them: "java\tscript:" is a script
_OF_MARKDOWN = re.compile(r"[\s()<>\[\]\\]")


class _Place(NamedTuple):
    start: int
    end: int
    address: str


def with_links(draft: DocumentDraft, url: str) -> DocumentDraft:
    """Return a document of a page at ``url`` with its links. `metadata.fidelity.links` counts those of the
    text, outside headings and code, that lead to another page, and how many are kept; `metadata.unsafe_links`
    counts scripts, data and other addresses that are not written.
    """
    if draft.comparison is None:
        return draft
    said = str(draft.comparison.part.getroottree().xpath("string(//base/@href)"))
    blocks = [one for one in draft.comparison.content() if one.links and one.kind not in {"heading", "code"}]
    found = list(_found(draft.text, blocks, _base_of(url, said)))
    places = [place for place in found if place and place.address]
    unsafe = sum(place is not None and not place.address for place in found)
    metadata = dict(draft.metadata)
    if found:
        metadata["fidelity"] = {**metadata.get("fidelity", {}), "links": [len(found), len(places)]}
    if unsafe:
        metadata["unsafe_links"] = unsafe
    parts, end = [], 0
    for place in places:
        parts += [draft.text[end : place.start], f"[{draft.text[place.start : place.end]}]({place.address})"]
        end = place.end
    ends = [place.end for place in places]
    longer = list(accumulate((len("[]()") + len(place.address) for place in places), initial=0))
    sections = tuple(
        {**one, **{name: one[name] + longer[bisect_right(ends, one[name])] for name in ("start", "end")}}
        for one in draft.sections
    )
    text = "".join([*parts, draft.text[end:]])
    return replace(draft, text=text, sections=sections, metadata=metadata)


def address_of(target: str, base: str) -> str | None:
    """Return where a link leads, for Markdown; None for scripts, data and other addresses than those of pages
    and mailboxes.

    >>> address_of("../b (1).html", "https://a.example/x/y"), address_of("java\\tscript:alert(1)", "")
    ('https://a.example/b%20%281%29.html', None)
    """
    try:
        address = urljoin(base, _CONTROL.sub("", target).strip())
        parts = urlsplit(address)
    except ValueError:
        return None
    if parts.scheme not in _SCHEMES or "@" in parts.netloc or len(address) > _MOST:
        return None
    return _OF_MARKDOWN.sub(lambda sign: quote(sign[0]), tidy(address)) or None


def _base_of(url: str, said: str) -> str:
    """Return the address that relative links start from: the page's own one unless it names a site's."""
    for base in (said and address_of(said, url if _is_web(url) else ""), url):
        if base and _is_web(base):
            return base
    return ""


def _is_web(url: str) -> bool:
    return url.startswith(("http://", "https://"))


def _found(text: str, blocks: Sequence[PageBlock], base: str) -> list[_Place | None]:
    """Return where each link stands, without an address if it is unsafe, or None if the text lacks it."""
    lines: dict[str, deque[int]] = defaultdict(deque)
    for line in re.finditer(r"(?m)^(?:[ ]|[->|] |\d+\. )*(.+?)(?: \|)?$", text):
        lines[line[1]].append(line.start(1))
    found: list[_Place] = []
    lost = 0
    for block in blocks:
        starts = lines.get(block.text.partition("\n")[0])
        at = starts.popleft() if starts else None
        if at is not None and text.startswith(block.text, at):
            here = list(_places_in(text, at, at + len(block.text), block.links, base))
            lost += here.count(None)
            found += filter(None, here)
        elif not is_navigation(block):
            lost += sum(not _leads_here(link) for link in block.links)
    found.sort()
    apart = [
        one
        for one, before in zip(found, [None, *found], strict=False)
        if not before or before.end <= one.start
    ]
    return [*apart, *[None] * (lost + len(found) - len(apart))]


def _places_in(text: str, at: int, end: int, links: Sequence[Link], base: str) -> Iterator[_Place | None]:
    for link in links:
        words = _plain(link.text).split()
        begin = at + max(len(_plain(link.before)) - 1, 0)
        pattern = re.compile(r"(?<!\w)" + r"\s+".join(map(re.escape, words)) + r"(?!\w)")
        found = pattern.search(text, begin, min(end, begin + len(link.text) + _SLACK)) if words else None
        at = found.end() if found else at
        if not _leads_here(link):
            yield _Place(found.start(), found.end(), address_of(link.target, base) or "") if found else None


def _leads_here(link: Link) -> bool:
    return link.target.strip().startswith("#")


def _plain(text: str) -> str:
    return tidy(repair_encoding(collapse_whitespace(text)))
