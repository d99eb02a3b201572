"""The journal of a crawl: a line a page, and the record of a crawl that left one behind."""

from __future__ import annotations

import json
import logging
from collections import Counter
from pathlib import Path
from typing import Any

from warehouse.identity import canonical

logger = logging.getLogger(__name__)

Row = dict[str, Any]

KILLED = "killed"


def read_journal(path: Path) -> tuple[Row | None, list[Row]]:
    """Return the journal's header and entries; a line that was torn by the end of its process is left out."""
    header: Row | None = None
    entries = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            entry = json.loads(line)
        except ValueError:
            logger.warning("%s: line %d is torn and left out; its page will be fetched again", path, number)
            continue
        if "crawl" in entry:
            header = entry["crawl"]
        else:
            entries.append(entry)
    return header, entries


def killed(header: Row, entries: list[Row]) -> Row:
    """Return the record of a crawl whose process died: what it stored is known, what it requested is not."""
    pages = {entry["page"]["url"]: entry for entry in entries if "page" in entry}.values()
    seen = Counter(entry["outcome"] for entry in pages)
    reasons = Counter(entry["page"]["reason"] for entry in pages if entry["page"]["reason"])
    times = [entry["page"]["fetched_at"] for entry in pages]
    return {
        **header,
        "ended_at": max([header["started_at"], *times]),  # a page that is carried over is older
        "outcome": KILLED,
        "requests": None,
        "bytes": None,
        **{name: seen[name] for name in ("new", "changed", "unchanged")},
        "gone": sum("gone" in entry for entry in entries),
        "failed": canonical(dict(sorted(reasons.items()))),
    }
