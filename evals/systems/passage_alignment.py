"""Finds the passages that a system gives in the documents of a corpus: by id, URL or text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.question_sets.alignment import Alignment, WordedText, find_quote, most_similar
from rag_assay.evals.question_sets.evidence_resolution import DocumentMatch, Lookup


class AlignedPassage(NamedTuple):
    """A passage; empty id: in no document; similarity to its place there; None: not found"""

    passage: Passage
    similarity: float | None


class PassageAligner:
    """The documents of a corpus, in which passages are found.

    A passage that names a document by its id or URL is looked for there; by the end of a URL that no other
    document has, there first; else its text is looked for in all documents. A document that is named without
    a text stands for its whole text.

    Args:
        documents: doc_id, url, title and text of each.
        passages: all that will be aligned.
    """

    def __init__(self, documents: Sequence[Mapping[str, Any]], passages: Iterable[Passage]) -> None:
        self._documents = documents
        self._wanted = list(dict.fromkeys(one.text for one in passages if one.text))
        self._by_id = {str(one["doc_id"]): one for one in documents}
        self._by_url: dict[str, list[Mapping[str, Any]]] = {}
        for one in documents:
            self._by_url.setdefault(_plain(one["url"]), []).append(one)
        self._found: dict[str, DocumentMatch | None] = {}
        self._worded = lru_cache(8)(WordedText)

    def align(self, passage: Passage) -> AlignedPassage:
        named = self._named(passage)
        by_end = self._named_by_end(passage) if named is None else None
        named = named or by_end
        if not passage.text.strip():
            if named is None:
                return AlignedPassage(_placed(passage, None), None)
            whole = Alignment(0, len(named["text"]), 1.0)
            return AlignedPassage(_placed(passage, named, whole, named["text"]), 1.0)
        if named is not None:
            place = self._within(named["text"], passage.text)
            if place is None and by_end is not None and (found := self._anywhere(passage.text)):
                return self._found_at(passage, found)
            return AlignedPassage(_placed(passage, named, place), place and place.similarity)
        found = self._anywhere(passage.text)
        if found is None:
            return AlignedPassage(_placed(passage, None), None)
        return self._found_at(passage, found)

    def _found_at(self, passage: Passage, found: DocumentMatch) -> AlignedPassage:
        document = self._documents[found.document]
        return AlignedPassage(_placed(passage, document, found.place), found.place.similarity)

    def _named(self, passage: Passage) -> Mapping[str, Any] | None:
        if passage.document in self._by_id:
            return self._by_id[passage.document]
        for name in filter(None, (passage.url, passage.document)):
            if found := self._by_url.get(_plain(name)):
                return found[0]
        return None

    def _named_by_end(self, passage: Passage) -> Mapping[str, Any] | None:
        is_end = "/" in passage.document or "." in passage.document  # else it is an id, such as 1
        for name in filter(None, (passage.url, passage.document if is_end else None)):
            plain = _plain(name)
            ends = self._by_end.get(plain.rpartition("/")[2], [])
            alike = [one for one in ends if f"/{_plain(one['url'])}".endswith(f"/{plain.lstrip('/')}")]
            if len(alike) == 1:
                return alike[0]
        return None

    @cached_property
    def _by_end(self) -> dict[str, list[Mapping[str, Any]]]:
        found: dict[str, list[Mapping[str, Any]]] = {}
        for one in self._documents:
            found.setdefault(_plain(one["url"]).rpartition("/")[2], []).append(one)
        return found

    def _anywhere(self, text: str) -> DocumentMatch | None:
        if text not in self._found:
            self._found[text] = self._lookup.quote(text)
        return self._found[text]

    def _within(self, text: str, quote: str) -> Alignment | None:
        if span := find_quote(text, quote):
            return Alignment(*span, 1.0)
        return most_similar(self._worded(text), quote)

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup([one["text"] for one in self._documents], self._wanted)


def _plain(url: str) -> str:
    """Return a URL as it is compared: without a fragment, a `/` at its end, `./` and backslashes."""
    return url.replace("\\", "/").partition("#")[0].removeprefix("./").rstrip("/")


def _placed(
    passage: Passage,
    document: Mapping[str, Any] | None,
    place: Alignment | None = None,
    text: str | None = None,
) -> Passage:
    return Passage(
        text=passage.text if text is None else text,
        document="" if document is None else document["doc_id"],
        title=passage.title or (document["title"] if document else None),
        url=document["url"] if document else passage.url,
        start=place.start if place else 0,
        end=place.end if place else 0,
        score=passage.score,
    )
