"""What cleaning loses of a text and adds to it: word by word, by the kind of block that they stand in."""

from __future__ import annotations

import gzip
import html
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import Any

from rag_assay.assets.cleaning.article import clean_article
from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.text_files import clean_markdown
from rag_assay.assets.cleaning.tree import Element, parse_page

Block = tuple[str, str]  # its kind and its text

_KINDS = {
    "pre": "code", "table": "table", "figcaption": "caption", "blockquote": "quote", "li": "list item",
    "dd": "list item", "dt": "list item",
    **{f"h{level}": "heading" for level in range(1, 7)},
}  # fmt: skip
_UNSEEN = frozenset({"script", "style", "iframe", "object"})
_BREAKS = frozenset(
    "address article aside blockquote body br caption dd details div dl dt figcaption figure footer h1 h2 h3 "  # noqa: SIM905 -- readable
    "h4 h5 h6 header hr html li main nav ol p pre section summary table tbody td tfoot th thead tr ul".split()
)
_TEMPLATE = re.compile(r"\{%.*?%\}|\{\{.*?\}\}", re.S)  # what the site's own generator would fill in
_CHROME = (
    ("navigation", "Home Work Team Contact Join our newsletter"),
    ("other posts", "A harbour that measures its own tides, week by week"),
    ("footer", "An official website of the town, built in the open by its harbour office"),
)


@dataclass
class Losses:
    """Words of the sources by kind, how many of them were lost, and how many came from elsewhere."""

    texts: int = 0
    dropped: list[str] = field(default_factory=list)
    words: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    added: Counter[str] = field(default_factory=Counter)
    code_lines: int = 0
    code_lines_lost: int = 0

    def compare(self, blocks: Sequence[Block], text: str, others: Sequence[Block] = ()) -> None:
        """Count what of ``blocks`` is not in ``text``, and what there is of ``others``, in order."""
        self.texts += 1
        source = [(word, kind) for kind, block in blocks for word in words_of(block)]
        found = words_of(text)
        self.words.update(kind for _, kind in source)
        matcher = SequenceMatcher(None, [word for word, _ in source], found, autojunk=False)
        left: list[str] = []
        for what, start, end, first, last in matcher.get_opcodes():
            if what != "equal":
                self.lost.update(kind for _, kind in source[start:end])
                left += found[first:last]
        self._count_added(Counter(left), others)
        lines = text.split("\n")
        code = [line.rstrip() for kind, block in blocks if kind == "code" for line in block.split("\n")]
        self.code_lines += len(code)
        self.code_lines_lost += (Counter(code) - Counter(line.rstrip() for line in lines)).total()

    def take(
        self, name: str, blocks: list[Block], others: list[Block], clean: Callable[[], DocumentDraft]
    ) -> None:
        """Compare what cleaning gives with ``blocks``; a text that it refuses is named with the reason."""
        try:
            draft = clean()
        except (UnusablePage, ValueError) as error:
            words = sum(len(words_of(text)) for _, text in blocks)
            self.dropped.append(f"{name} ({words} words): {error}")
        else:
            self.compare(blocks, draft.text, others)

    def _count_added(self, left: Counter[str], others: Sequence[Block]) -> None:
        for kind, block in others:
            here = left & Counter(words_of(block))
            self.added[kind] += here.total()
            left -= here
        self.added["other words"] += left.total()

    def table(self) -> str:
        """Return the counts as lines."""
        rows = [
            f"    lost of {kind}: {self.lost[kind]} of {self.words[kind]} words ({share:.2%})"
            for kind in sorted(self.words)
            for share in [self.lost[kind] / self.words[kind]]
        ]
        rows += [f"    added from {kind}: {count} words" for kind, count in self.added.items() if count]
        if self.code_lines:
            rows.append(
                f"    lines of code lost or changed: {self.code_lines_lost} of {self.code_lines}, "
                "blank ones and indentation counted"
            )
        rows.append(f"    texts dropped: {len(self.dropped)} of {self.texts + len(self.dropped)}")
        return "\n".join([*rows, *(f"      {one}" for one in self.dropped)])


def words_of(text: str) -> list[str]:
    """Return the words of a text, in small letters.

    >>> words_of("An x_1, and so on.")
    ['an', 'x_1', 'and', 'so', 'on']
    """
    return re.findall(r"\w+", text.lower())


# ------------------------------------------------------------------------------------------- blog


def blog_losses(folder: Path) -> dict[str, Losses]:
    """Compare posts, served as pages and as Markdown files, with the words of what their authors wrote."""
    pages, files = Losses(), Losses()
    for post, body in posts_in(folder):
        shown = rendered(body)
        blocks = list(blocks_of(parse_page(f"<body>{shown}</body>")))
        byline = f"{', '.join(post['authors'] or [])} {(post['date'] or '')[:10]}"
        others = [("title", post["title"]), ("byline", byline), *_CHROME]
        page = as_page(post["title"], byline, shown)
        name, title = post["id"], ("title", post["title"])
        pages.take(name, blocks, others, partial(clean_article, page, "text/html", ""))
        files.take(name, blocks, [title], partial(clean_markdown, body.encode(), "text/markdown"))
    return {"blog posts as pages": pages, "blog posts as Markdown": files}


def posts_in(folder: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each post and its Markdown, without what the site's own generator would fill in."""
    for line in gzip.decompress((folder / "posts.jsonl.gz").read_bytes()).decode().splitlines():
        post = json.loads(line)
        yield post, _TEMPLATE.sub("", post["body_markdown"])


def rendered(markdown: str) -> str:
    """Return a post as HTML, by CommonMark and tables."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)


def as_page(title: str, byline: str, body: str) -> bytes:
    """Return a post as a site serves it: menu, byline, links to other posts and a footer around it."""
    head, other, foot = (text for _, text in _CHROME)
    menu = "".join(f'<li><a href="/{word}">{word}</a></li>' for word in head.split()[:4])
    return (
        f'<!doctype html><html lang="en"><head><title>{html.escape(title)} | The Harbour</title></head><body>'
        f"<header><nav><ul>{menu}</ul></nav><p>{' '.join(head.split()[4:])}</p></header><main><article>"
        f'<h1>{html.escape(title)}</h1><p class="byline">{html.escape(byline)}</p>'
        f'<div class="post-content">{body}</div></article>'
        f'<aside class="related"><h2><a href="/other">{other}</a></h2></aside></main>'
        f"<footer><p>{foot}</p></footer></body></html>"
    ).encode()


def blocks_of(root: Element) -> Iterator[Block]:
    """Yield the blocks of a page with their kinds: paragraph, heading, list item, quote, code, table …"""
    gathered: list[str] = []
    last = root
    for text, node in _texts(root):
        if node is None:
            gathered.append(text)
            continue
        if "".join(gathered).strip():
            yield _kind(last), "".join(gathered).strip("\n").rstrip()
        gathered = []
        last = node


def _texts(node: Element) -> Iterator[tuple[str, Element | None]]:
    """Yield the pieces of text, and the element that a block begins in where one begins."""
    if not isinstance(node.tag, str) or node.tag in _UNSEEN:
        return
    breaks = node.tag in _BREAKS and not (node.tag == "br" and _kind(node) == "code")
    if breaks:
        yield "", node
    yield node.text or "", None
    for child in node:
        yield from _texts(child)
        if child.tag in _BREAKS:
            yield "", node
        yield child.tail or "", None
    if breaks:
        yield "", node


def _kind(node: Element) -> str:
    for one in (node, *node.iterancestors()):
        if one.tag in _KINDS:
            return _KINDS[one.tag]
    return "paragraph"
