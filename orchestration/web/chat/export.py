"""Writes a conversation for people and for programs; nothing in it loads, links or is HTML of its texts."""

from __future__ import annotations

import json
import re

from rag_assay.evals.generation.citations import public_url
from rag_assay.evals.reporting.display import plain
from rag_assay.orchestration.web.chat.facts import removed
from rag_assay.orchestration.web.languages import Words
from rag_assay.warehouse.conversations import Conversation, ShownPassage, Turn

_SIGNS = re.compile(r"([\\`*_\[\]<>#|~!&])")


def json_of(found: Conversation) -> str:
    record = {
        "study": found.study,
        "conversation": found.conversation_id,
        "title": found.title,
        "begun": found.begun.model_dump(mode="json"),
        "turns": [turn.model_dump(mode="json") for turn in found.turns],
        "feedback": [said.model_dump(mode="json") for said in found.feedback.values()],
        "votes": [said.model_dump(mode="json") for said in found.votes.values()],
    }
    return json.dumps(record, ensure_ascii=False, indent=2)


def markdown_of(found: Conversation, words: Words) -> str:
    parts = [f"# {_text(found.title or words('untitled'))}"]
    for turn in sorted(found.turns, key=lambda one: (one.number, one.side or "")):
        parts += _turn(turn, words)
        said = found.feedback.get(turn.record_id)
        if said is not None and (said.thumbs or said.comment):
            thumbs = {1: "👍", -1: "👎"}.get(said.thumbs, "")
            parts.append(f"> {thumbs} {_text(said.comment)}".rstrip())
    return "\n\n".join(parts) + "\n"


def _turn(turn: Turn, words: Words) -> list[str]:
    side = f" ({turn.side.upper()})" if turn.side else ""
    parts = [f"## {turn.number}{side}. {_text(turn.question)}"]
    parts += [
        f"*{words('asked_as')}: {_text(one.value)}*"
        for one in turn.understood
        if one.kind == "follow_up" and one.value and not one.removed
    ]
    if gone := removed(turn.understood, words):
        parts.append(f"*{words('without')} {_text(', '.join(gone))}*")
    if turn.answer is not None:
        parts.append(_inert(turn.answer))
    else:
        parts.append(f"**{words('no_answer')}.** {_text(turn.reason or str(turn.status))}")
    cited = [one for one in turn.passages if one.cited]
    if cited:
        parts.append("\n".join(_source(one, turn) for one in cited))
    facts = [turn.cell, turn.model or "", turn.at.isoformat(timespec="seconds")]
    parts.append(f"<sub>{' · '.join(_text(one) for one in facts if one)}</sub>")
    return parts


def _source(passage: ShownPassage, turn: Turn) -> str:
    url = public_url(passage.url, turn.language) or ""
    page = f", {passage.page}" if passage.page is not None else ""
    where = " › ".join(passage.section)
    about = ", ".join(one for one in (passage.title or "", where, url) if one)
    return f"- \\[{passage.number}\\] {_text(about)}{page}"


def _text(text: str) -> str:
    r"""Return a text that Markdown shows as it is, on one line.

    >>> print(_text("a <b> [x](y)"))
    a \<b\> \[x\](y)
    """
    return _SIGNS.sub(r"\\\1", " ".join(plain(text).split()))


def _inert(answer: str) -> str:
    """Return an answer's Markdown without what loads, links or is HTML.

    >>> print(_inert("**So** <img src=x> ![a](b) [c](d) [1]"))
    **So** &lt;img src=x> !\\[a\\](b) \\[c\\](d) [1]
    """
    text = plain(answer).replace("<", "&lt;")
    return re.sub(r"\[([^\]\n]*)\](?=[(:\[])", r"\\[\1\\]", text)
