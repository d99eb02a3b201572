"""Answers and passages as HTML of our own: whatever a text holds, it is read as text.

Of an answer's Markdown emphasis, lists, tables and code count; links, images and HTML are words like others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from html import escape

from markdown_it import MarkdownIt

from rag_assay.evals.generation.citations import read_markers
from rag_assay.evals.reporting.display import plain

MOST = 50_000  # characters of a text that are shown
_HELD = re.compile("\ue000(\\d+)\ue001")
_JOINED = re.compile(r"(\\[:.])(?=\w)")
_OURS = re.compile("[\ue000\ue001]")


def answer_html(text: str, passages: Sequence[str], numbers: Collection[int], anchor: str) -> str:
    """Return an answer as HTML, its markers as links to the passages below it.

    passages: texts that the answer may have copied brackets from
    numbers: of the passages that there are; a marker of another one is shown as what leads nowhere
    anchor: the beginning of the passages' ids

    >>> answer_html("It **stays** [1].<img src=x>", ["Boats."], [1], "p").splitlines()[0]
    '<p>It <strong>stays</strong> <a class="as-cite" href="#p-1">1</a>.&lt;img src=x&gt;</p>'
    """
    kept = _OURS.sub("\ufffd", text[:MOST])
    held = _hold(kept, passages)
    html = _markdown().render(plain(held))

    def link(found: re.Match[str]) -> str:
        number = int(found[1])
        if number in numbers:
            return f'<a class="as-cite" href="#{anchor}-{number}">{number}</a>'
        return f'<span class="as-nowhere">[{number}]</span>'

    return _HELD.sub(link, html) + _rest(text)


def text_html(text: str, spans: Iterable[Sequence[int]] = ()) -> str:
    """Return a text as HTML, those at the spans marked.

    spans: (start, end) in characters, in order and apart

    >>> text_html("It costs <b>twelve</b> pounds.", [(9, 22)])
    'It costs <mark>&lt;b&gt;twelve&lt;/b&gt;</mark> pounds.'
    """
    parts: list[str] = []
    at = 0
    for start, end in spans:
        if at <= start < end <= MOST:
            parts += [_plain(text[at:start]), f"<mark>{_plain(text[start:end])}</mark>"]
            at = end
    return "".join([*parts, _plain(text[at:MOST]), _rest(text)])


def label(text: str, longest: int = 200) -> str:
    r"""Return a text as Streamlit may be given it where it reads Markdown: as text.

    >>> label("**2021** :red[x] <b>")
    '\\*\\*2021\\*\\* \\:\u2060red\\[x\\] \\<b\\>'
    """
    short = " ".join(plain(text[: longest + 1]).split())
    short = short if len(short) <= longest else f"{short[:longest]}…"
    # The joiner keeps `:word:` and `www.` from being read after the text is taken apart.
    return _JOINED.sub("\\1\u2060", re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", short))


def _hold(text: str, passages: Sequence[str]) -> str:
    parts: list[str] = []
    at = 0
    for one in read_markers(text, passages):
        if one.start >= at:
            parts.append(text[at : one.start])
        parts.append(f"\ue000{one.number}\ue001")
        at = one.end
    return "".join([*parts, text[at:]])


def _plain(text: str) -> str:
    return escape(plain(text))


def _rest(text: str) -> str:
    left = len(text) - MOST
    return f'<p class="as-rest">… +{left:,}</p>' if left > 0 else ""


@cache
def _markdown() -> MarkdownIt:
    found = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": 20})
    found.enable(["table", "strikethrough"])
    found.disable(["image", "link", "autolink", "reference", "html_block", "html_inline"])
    found.add_render_rule("heading_open", _heading)
    found.add_render_rule("heading_close", _heading)
    found.add_render_rule("fence", _code)
    return found


def _heading(_renderer: object, tokens: Sequence[object], at: int, *_rest: object) -> str:
    is_open = getattr(tokens[at], "nesting", 0) == 1
    return '<p class="as-heading">' if is_open else "</p>\n"


def _code(_renderer: object, tokens: Sequence[object], at: int, *_rest: object) -> str:
    return f"<pre><code>{escape(str(getattr(tokens[at], 'content', '')))}</code></pre>\n"
