"""What came of a crawl, of its documents, and of what people have scored, in sentences."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rag_assay.assets.engine.stage import KeyOutcome
from rag_assay.evals.reporting.display import several

MOST = 10  # dropped pages that are told by name, and reasons


def outcome_sentences(stage: str, outcome: KeyOutcome) -> list[str]:
    """Return what is to be said of a key that was computed; nothing for stages that speak for themselves."""
    if outcome.artifact is None or not outcome.computed:
        return []
    meta = outcome.artifact.meta
    if stage == "pages":
        return [crawl_sentence(outcome.key, meta.get("crawl") or {})]
    sentences = {"documents": document_sentences, "annotations": annotation_sentences}.get(stage)
    return sentences(outcome.key, meta) if sentences else []


def crawl_sentence(source: str, crawl: Mapping[str, Any]) -> str:
    """Say how a crawl ended and what it found, by its row (`schemas.CRAWLS`, `followed`, `unmet`).

    >>> row = {"outcome": "limit: 9 pages", "new": 8, "followed": 2, "failed": '{"timeout": 1}'}
    >>> crawl_sentence("news", row)
    'crawl of news: cut off by its limit of 9 pages; 8 new, 2 read but not stored, 1 failed (1 timeout)'
    >>> row = {"outcome": "finished", "followed": 3, "failed": '{"read, not stored: why": 2}'}
    >>> crawl_sentence("blog", row)
    'crawl of blog: finished; 1 read but not stored, 2 failed (2 read, not stored: why)'
    """
    failed: dict[str, int] = json.loads(crawl.get("failed") or "{}")
    counts = [(crawl.get(name) or 0, name) for name in ("new", "changed", "unchanged", "gone")]
    # Those that are not stored for a reason of their own are told with it.
    told = sum(count for reason, count in failed.items() if reason.startswith("read, not stored"))
    counts.append((max(0, (crawl.get("followed") or 0) - told), "read but not stored"))
    counts.append((crawl.get("unmet") or 0, "not met again (they stay stored)"))
    parts = [f"{count:,} {name}" for count, name in counts if count]
    if failed:
        parts.append(f"{sum(failed.values()):,} failed ({_by_reason(failed)})")
    return (
        f"crawl of {source}: {_ending(str(crawl.get('outcome')))}; {', '.join(parts) or 'nothing was found'}"
    )


def _ending(outcome: str) -> str:
    kind, _, bound = outcome.partition("limit: ")
    return f"cut off by its limit of {bound}" if bound and not kind else outcome


def document_sentences(source: str, meta: Mapping[str, Any]) -> list[str]:
    """Say how many documents there are of a source, and which pages gave none and why."""
    dropped = int(meta.get("dropped") or 0)
    first = f"documents of {source}: {meta.get('documents') or 0:,}"
    if not dropped:
        return [first]
    reasons = _by_reason(meta.get("dropped_by_reason") or {})
    named = [f"  dropped {url}: {reason}" for url, reason in (meta.get("dropped_first") or ())[:MOST]]
    rest = dropped - len(named)
    more = [f"  … and {rest:,} more, in dropped.parquet"] if named and rest > 0 else []
    return [f"{first}; {several(dropped, 'page')} gave none ({reasons})", *named, *more]


def annotation_sentences(study: str, meta: Mapping[str, Any]) -> list[str]:
    """Say how many human ratings count, and why others do not; nothing where there are none.

    >>> annotation_sentences("demo", {"scores": 3, "annotators": {"Anna": 3}, "rejects": 0, "reasons": {}})
    ['human ratings on demo: 3 by 1 annotator']
    """
    scores, rejects = int(meta.get("scores") or 0), int(meta.get("rejects") or 0)
    if not scores and not rejects:
        return []
    people = len(meta.get("annotators") or {})
    first = f"human ratings on {study}: {scores:,} by {several(people, 'annotator')}"
    if not rejects:
        return [first]
    return [f"{first}; {rejects:,} count for nothing now ({_by_reason(meta.get('reasons') or {})})"]


def _by_reason(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    shown = [f"{count:,} {reason}" for reason, count in ordered[:MOST]]
    others = sum(count for _, count in ordered[MOST:])
    return ", ".join([*shown, *([f"{others:,} others"] if others else [])])
