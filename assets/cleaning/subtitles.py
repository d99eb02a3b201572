"""Subtitles (SRT, WebVTT): the spoken lines without time stamps; a long pause begins a paragraph."""

from __future__ import annotations

import html
import re

from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage, decode_text
from rag_assay.assets.cleaning.unicode import repair_encoding, tidy

_CLOCK = r"(?:(\d{1,4}):)?(\d{1,2}):(\d{2})[,.](\d{1,3})"
_TIMES = re.compile(rf"[ \t]*{_CLOCK}[ \t]*-->[ \t]*{_CLOCK}(?:[ \t].*)?")
_VOICE = re.compile(r"<v(?:\.[^ \t>]*)?[ \t]+([^<>]{1,100})>")
_TAG = re.compile(r"<[^<>]{0,200}>|\{\\[^{}]{0,200}\}")
_PAUSE = 3.0  # seconds


def clean_subtitles(body: bytes, content_type: str | None) -> DocumentDraft:
    """Join the lines of all cues. A speaker's name (`<v Ann>`) stands before the words, a line that repeats
    the one before it is left out; `metadata` has the number of cues and the seconds until the last one ends.
    """
    parts: list[str] = []
    cues, end, last = 0, 0.0, ""
    for block in re.split(r"\n[ \t]*\n", repair_encoding(decode_text(body, content_type))):
        lines = block.strip("\n").split("\n")
        at = next((at for at, line in enumerate(lines[:2]) if _TIMES.fullmatch(line)), None)
        if at is None:  # the head, a note or a style
            continue
        found = _TIMES.fullmatch(lines[at])
        begin, ends = (_seconds(found.groups()[i : i + 4]) for i in (0, 4)) if found else (0.0, 0.0)
        is_new = begin - end >= _PAUSE
        cues, end = cues + 1, max(end, ends)
        for line in lines[at + 1 :]:
            said = " ".join(html.unescape(_TAG.sub("", _VOICE.sub(r"\1: ", line))).split())
            if said and said != last:
                gap = "\n\n" if is_new else "\n" if said.startswith("-") or _VOICE.search(line) else " "
                parts += [gap if parts else "", said]
                last, is_new = said, False
    if not cues:
        raise UnusablePage("no subtitle in the file")
    return DocumentDraft(
        text=tidy("".join(parts)), repaired=True, metadata={"cues": cues, "duration_seconds": round(end)}
    )


def _seconds(clock: tuple[str | None, ...]) -> float:
    hours, minutes, seconds, thousandths = clock
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(f"{seconds}.{thousandths}")
