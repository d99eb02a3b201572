"""Finds the quotes of a question file in the current documents."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evals.measuring.contract import Gold
from warehouse.spans import Span

_SPACE = re.compile(r"\s+")
_UNSEEN = "\u00ad\u200b\u200c\u200d\u2060\ufeff"  # soft hyphens, joiners, marks of zero width
# Typographic variants that a reader takes for the same sign, and what no reader sees.
_SAME = str.maketrans(
    {
        **dict.fromkeys("’‘‚‹›", "'"),
        **dict.fromkeys("„“”«»", '"'),
        **dict.fromkeys("‐‑‒–—−", "-"),
        **dict.fromkeys(_UNSEEN),
    }
)
Folded = tuple[str, list[int] | None]
"""A text as it is compared, and the place that each of its characters comes from; None: each from its own."""


def find_quote(text: str, quote: str) -> tuple[int, int] | None:
    """Return the offsets of the first place of ``quote`` in ``text`` (in NFC, as documents are); or None.

    White space, the style of quotation marks and dashes, and signs that no reader sees (soft hyphens) do not
    count. A quote that is not there is looked for once more with ligatures, superscripts and their like as
    the plain letters and digits that they stand for (Unicode's form NFKC).

    >>> find_quote("A  b\\nc", "b c")
    (3, 6)
    """
    return next(places_of(text, quote), None)


def places_of(text: str, quote: str) -> Iterator[tuple[int, int]]:
    """Yield the offsets of each place of ``quote`` in ``text``, as `find_quote` sees them, none overlapping.

    >>> list(places_of("noon and noon", "noon"))
    [(0, 4), (9, 13)]
    """
    composed = unicodedata.normalize("NFC", quote)  # a quote that was typed elsewhere may not be
    for fold in (_canonical, _compatible):
        words = _SPACE.split(fold(composed)[0].strip())
        plain, origin = fold(text)
        found = re.finditer(r"\s+".join(map(re.escape, words)), plain) if words[0] else iter(())
        spans = [match.span() for match in found]
        yield from spans if origin is None else ((origin[a], origin[b - 1] + 1) for a, b in spans)
        if spans:
            return


def _canonical(text: str) -> Folded:
    plain = text.translate(_SAME)
    if len(plain) == len(text):
        return plain, None
    return plain, [at for at, sign in enumerate(text) if sign not in _UNSEEN]


def _compatible(text: str) -> Folded:
    if unicodedata.is_normalized("NFKC", text):
        return _canonical(text)
    parts = [unicodedata.normalize("NFKC", sign).translate(_SAME) for sign in text]
    return "".join(parts), [at for at, part in enumerate(parts) for _ in part]


def resolve(evidence: dict[str, Any], documents: Mapping[str, Sequence[dict[str, Any]]]) -> dict[str, Any]:
    """Find one piece of evidence (`url`, and `quote` or a whole document) among documents by URL.

    Several sources may have the same URL: `source` says which is meant; where nothing does, it is the first
    one whose document holds the quote.

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
    source = evidence.get("source")
    meant = [one for one in documents.get(evidence["url"], ()) if source in (None, one["source"])]
    if not meant:
        who = "no document" if source is None else f"no document of the source {source}"
        return {**row, "reason": f"{who} has this URL: the page was not fetched, or was dropped in cleaning"}
    row["doc_id"] = meant[0]["doc_id"]
    if not evidence.get("quote"):
        return row
    for document in meant:
        if span := find_quote(document["text"], evidence["quote"]):
            return {**row, "doc_id": document["doc_id"], "start": span[0], "end": span[1]}
    return {**row, "reason": "the quote is not in the document's text: the page changed, or cleaning lost it"}


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
