"""From quotes to gold: evidence found in the documents as they are now."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from evals.measuring.contract import Gold, Span

_SPACE = re.compile(r"\s+")
# Typographic variants that a reader takes for the same sign; each is one character, so offsets stay.
_SAME = str.maketrans("’‘“”„–—\u00a0\u00ad", '\'\'"""-- -')


def find_quote(text: str, quote: str) -> tuple[int, int] | None:
    """Return the offsets of ``quote`` in ``text``, white space and style of quotation marks aside; or None.

    >>> find_quote("A  b\\nc", "b c")
    (3, 6)
    """
    # Documents are in NFC; a quote typed elsewhere may not be.
    words = _SPACE.split(unicodedata.normalize("NFC", quote).translate(_SAME).strip())
    if not words or not words[0]:
        return None
    pattern = r"\s+".join(re.escape(word) for word in words)
    match = re.search(pattern, text.translate(_SAME))
    return (match.start(), match.end()) if match else None


def resolve(evidence: dict[str, Any], documents: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Find one piece of evidence (`url`, and `quote` or a whole document) among documents by URL.

    Returns a row of `schemas.EVIDENCE`; where it is not found, `reason` says at which stage it was lost.
    """
    row = {
        "doc_id": None,
        "url": evidence["url"],
        "quote": evidence.get("quote"),
        "start": None,
        "end": None,
        "grade": int(evidence.get("grade", 1)),
        "reason": None,
    }
    document = documents.get(evidence["url"])
    if document is None:
        return {
            **row,
            "reason": "no document has this URL: the page was not fetched, or was dropped in cleaning",
        }
    row["doc_id"] = document["doc_id"]
    if not evidence.get("quote"):
        return row
    span = find_quote(document["text"], evidence["quote"])
    if span is None:
        return {
            **row,
            "reason": "the quote is not in the document's text: the page changed, or cleaning lost it",
        }
    return {**row, "start": span[0], "end": span[1]}


def in_first_copies(
    evidence: Sequence[dict[str, Any]], copies: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Move evidence in documents that the corpus leaves out as copies to the copy that it keeps.

    Evidence that so becomes the same as another piece of the question is named once.

    Args:
        evidence: rows of `schemas.EVIDENCE`.
        copies: id of a document that is left out -> doc_id, url and text of its first copy.
    """
    kept: list[tuple[dict[str, Any], bool]] = []
    for item in evidence:
        first = copies.get(item["doc_id"])
        row = _moved(item, first) if first else item
        if not any((first or was_moved) and _is_same(row, other) for other, was_moved in kept):
            kept.append((row, first is not None))
    return [row for row, _ in kept]


def _moved(item: dict[str, Any], first: dict[str, Any]) -> dict[str, Any]:
    if item["reason"]:
        return {**item, "doc_id": first["doc_id"]}
    if not item["quote"]:
        return {**item, "doc_id": first["doc_id"]}
    span = find_quote(first["text"], item["quote"])
    if span is None:
        reason = f"the document is left out as a near copy of {first['url']}, which lacks the quote"
        return {**item, "doc_id": None, "start": None, "end": None, "reason": reason}
    return {**item, "doc_id": first["doc_id"], "start": span[0], "end": span[1]}


def _is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    names = ("doc_id", "start", "end", "reason")
    return one["reason"] is None and all(one[name] == other[name] for name in names)


def gold_of(question: dict[str, Any]) -> Gold:
    """Return what a question (a row of `schemas.QUESTIONS`) should find.

    Evidence that is not there counts as a document that no ranking holds, and its quote's characters as
    missing: the denominator stays the same in every cell.
    """
    evidence: Sequence[dict[str, Any]] = question["evidence"] or ()
    documents: dict[str, int] = {}
    spans: list[Span] = []
    missing = 0
    for number, item in enumerate(evidence):
        doc = item["doc_id"] or f"missing evidence {number}: {item['url']}"
        documents[doc] = max(documents.get(doc, 0), item["grade"])
        if item["start"] is not None:
            spans.append(Span(item["doc_id"], item["start"], item["end"]))
        else:
            missing += len(item["quote"] or "")
    return Gold(documents, tuple(spans), missing, question["needs"] != "any")
