"""The packs of a report: what its page holds, and what lies in a folder beside it.

A small study is one file. Of a large one the journeys of the questions lie in a folder, as pages of which
each holds a pack as text and hands it to the report, in a frame that may do nothing else: a browser lets a
page from disk read no file, but show one. The folder is called after what is in it, so that no report ever
reads another's.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rag_assay.evals.reporting.journey.blocks import QUESTIONS_A_BLOCK

INSIDE = 8_000_000  # characters of packed journeys that a page may hold
_HAND_OVER = 'parent.postMessage(document.getElementById("pack").textContent, "*");'


@dataclass(frozen=True)
class ReportPacks:
    """Packs as text.

    inside: name -> what the page itself holds
    files: name of a file -> its content; folder: what their folder's name ends in; "" where there are none
    """

    inside: Mapping[str, str]
    files: Mapping[str, str]
    folder: str = ""


def packs(
    catalogue: Mapping[str, Any], scores: Iterable[tuple[str, bytes]], blocks: Iterable[bytes]
) -> ReportPacks:
    """Return the packs of a study: its catalogue, its scores by metric, and the blocks of its questions."""
    inside: dict[str, str] = {}
    measured = {}
    for at, (metric, pack) in enumerate(scores):
        inside[f"scores-{at}"] = _text(pack)
        measured[metric] = f"scores-{at}"
    texts = [_text(pack) for pack in blocks]
    sums = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
    files: dict[str, str] = {}
    folder = ""
    if sum(map(len, texts)) <= INSIDE:
        inside |= {f"block-{at}": text for at, text in enumerate(texts)}
    else:
        folder = hashlib.sha256(" ".join(sums).encode()).hexdigest()[:12]
        files = {f"block-{at}.html": _page(text) for at, text in enumerate(texts)}
    whole = {
        **catalogue,
        "scores": measured,
        "blocks": sums,
        "perBlock": QUESTIONS_A_BLOCK,
        "inside": not files,
    }
    text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
    return ReportPacks({"catalogue": _text(gzip.compress(text.encode(), mtime=0)), **inside}, files, folder)


def _text(pack: bytes) -> str:
    return base64.b64encode(pack).decode()


def _page(text: str) -> str:
    """Return a page that holds a pack, and that can do nothing but hand it to the page that shows it."""
    digest = base64.b64encode(hashlib.sha256(_HAND_OVER.encode()).digest()).decode()
    return (
        '<!doctype html>\n<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="'
        f"default-src 'none'; script-src 'sha256-{digest}'\">\n<title>Data of a report</title>\n"
        '<p>This file is read by the report beside this folder.</p>\n<script type="application/octet-stream" '
        f'id="pack">{text}</script>\n<script>{_HAND_OVER}</script>\n'
    )
