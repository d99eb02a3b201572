"""The journal of a crawl, one line a page, and the record of an unfinished crawl."""

from __future__ import annotations

import json
import logging
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

from rag_assay.warehouse.identity import canonical

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
            _check(entry)
        except (ValueError, KeyError, TypeError, RecursionError):
            logger.warning("%s: line %d is torn and left out; its page will be fetched again", path, number)
            continue
        if "crawl" in entry:
            header = entry["crawl"]
        else:
            entries.append(entry)
    return header, entries


def _check(entry: Any) -> None:
    """Raise where a line is none that a store has written."""
    if "crawl" in entry:
        _texts(entry["crawl"], "crawl_id", "source")
        datetime.fromisoformat(entry["crawl"]["started_at"])
    elif "gone" in entry:
        _texts(entry, "gone")
        datetime.fromisoformat(entry["at"])
    elif "settled" in entry:
        _texts(entry, "settled")
    else:
        _texts(entry, "outcome")
        _texts(entry["page"], "url")
        _ = entry["page"]["sha256"], entry["page"]["reason"]
        datetime.fromisoformat(entry["page"]["fetched_at"])


def _texts(entry: Row, *names: str) -> None:
    if not all(isinstance(entry[name], str) for name in names):
        raise TypeError(names)


def killed(header: Row, entries: list[Row]) -> Row:
    """Return the record of a crawl whose process died: what it stored is known, what it requested is not."""
    pages = {entry["page"]["url"]: entry for entry in entries if "page" in entry}.values()
    seen = Counter(entry["outcome"] for entry in pages)
    reasons = Counter(entry["page"]["reason"] for entry in pages if entry["page"]["reason"])
    times = [entry["page"]["fetched_at"] for entry in pages]
    return {
        "crawl_id": header["crawl_id"],
        "source": header["source"],
        "started_at": header["started_at"],
        "ended_at": max([header["started_at"], *times]),  # a page that is carried over is older
        "outcome": KILLED,
        "requests": None,
        "bytes": None,
        **{name: seen[name] for name in ("new", "changed", "unchanged")},
        "gone": sum("gone" in entry for entry in entries),
        "failed": canonical(dict(sorted(reasons.items()))),
    }
