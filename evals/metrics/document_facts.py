"""What metrics may know of the documents of a corpus: when they were published, and which say the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

MOST = 10  # documents with one title; of more (`News ticker`), the title tells none apart, and groups nothing


class DocumentFacts(NamedTuple):
    """What a metric may know of a document beside its id.

    published_on: ISO day; of a partial date its first day; None: not known
    group: one id for all documents with the same title or the same text
    """

    published_on: str | None
    group: str


class DocumentRow(NamedTuple):
    """A document: id, ISO day, title, text."""

    doc_id: str
    published_on: str | None
    title: str | None
    text: str


def document_facts(rows: Iterable[DocumentRow]) -> dict[str, DocumentFacts]:
    """Return the facts of documents, by id.

    Titles and texts are the same where their words are, whatever their case. A title that more than MOST
    documents have groups nothing; nor does an empty one. Groups are closed: of three documents, the second
    of which has the title of the first and the text of the third, all are one, named by their smallest id.

    >>> one, other = DocumentRow("a", "2019-05-01", "Derby", "x"), DocumentRow("b", None, "DERBY ", "y")
    >>> document_facts([one, other])["b"]
    DocumentFacts(published_on=None, group='a')
    """
    found: list[tuple[str, str | None]] = []
    alike: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        found.append((row.doc_id, row.published_on))
        for kind, text in (("title", row.title), ("text", row.text)):
            words = " ".join((text or "").casefold().split())
            if words:
                alike.setdefault((kind, words), []).append(row.doc_id)
    group = {doc: doc for doc, _ in found}
    for (kind, _), docs in alike.items():
        if kind == "text" or len(docs) <= MOST:
            for doc in docs[1:]:
                _join(group, docs[0], doc)
    return {doc: DocumentFacts(day, _first(group, doc)) for doc, day in found}


def _join(group: dict[str, str], one: str, other: str) -> None:
    least, most = sorted((_first(group, one), _first(group, other)))
    group[most] = least


def _first(group: Mapping[str, str], doc: str) -> str:
    while group[doc] != doc:
        doc = group[doc]
    return doc
