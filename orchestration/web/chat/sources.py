"""The passages of an answer as numbered sources that open: text, evidence, where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rag_assay.evals.reporting.display import plain
from rag_assay.orchestration.web.chat.answer_html import text_html
from rag_assay.orchestration.web.chat.links import source_link
from rag_assay.orchestration.web.chat.translations import Words
from rag_assay.warehouse.conversations import ShownPassage, Turn


def anchor_of(turn: Turn) -> str:
    """Return the beginning of the ids of a turn's passages, which no other turn has."""
    return f"p-{turn.record_id}"


def sources_html(turn: Turn, words: Words) -> str:
    """Return the sources of a turn as HTML: those that are cited, then the others, folded together."""
    cited = [one for one in turn.passages if one.cited]
    others = [one for one in turn.passages if not one.cited]
    if not turn.passages:
        return ""
    parts = []
    if cited:
        parts.append(f'<p class="as-kicker">{escape(words("sources"))}</p>{_list(cited, turn, words)}')
    if others:
        name = "more_sources" if cited else "read_sources"
        summary = escape(words(name, n=len(others)))
        parts.append(
            f'<details class="as-others"><summary>{summary}</summary>{_list(others, turn, words)}</details>'
        )
    return f'<div class="as-sources">{"".join(parts)}</div>'


def _list(passages: Sequence[ShownPassage], turn: Turn, words: Words) -> str:
    return f"<ol>{''.join(_source(one, turn, words) for one in passages)}</ol>"


def _source(passage: ShownPassage, turn: Turn, words: Words) -> str:
    title = escape(plain(passage.title or words("untitled_source")))
    about = [" › ".join(passage.section)] if passage.section else []
    about += [words("page", page=passage.page)] if passage.page is not None else []
    about += [passage.date[:10]] if passage.date else []
    more = "".join(f"<span>{escape(plain(one))}</span>" for one in about)
    text = text_html(passage.text, passage.evidence)
    name = escape(f"{anchor_of(turn)}-{passage.number}")
    # A link to an id inside of a closed `details` opens it.
    target = f'<mark id="{name}">' if "<mark>" in text else None
    text = text.replace("<mark>", target, 1) if target else text
    box = "" if target else f' id="{name}"'
    return (
        f'<li><details><summary><span class="as-number">{passage.number}</span>'
        f'<span class="as-source"><b dir="auto">{title}</b>{more}</span></summary>'
        f'<div class="as-passage" dir="auto"{box}>{text}</div>{_link(passage, turn, words)}</details></li>'
    )


def _link(passage: ShownPassage, turn: Turn, words: Words) -> str:
    link = source_link(passage, turn.language)
    if link is None:
        return f'<p class="as-where">{escape(plain(passage.url or words("no_link")))}</p>'
    label = words("open_source") if passage.page is None else words("open_page", page=passage.page)
    return (
        f'<p class="as-where"><a href="{escape(link)}" target="_blank" rel="noopener noreferrer">'
        f"{escape(label)} ↗</a> <span>{escape(plain(passage.url or ''))}</span></p>"
    )
