"""Finds written evidence in the documents of a corpus: on the page that it names, or in any document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from rag_assay.evals.question_sets.alignment import LONGEST, SIMILAR, Alignment, most_similar
from rag_assay.evals.question_sets.exact_matches import find_quote, places_of
from rag_assay.evals.question_sets.lookup import DocumentMatch, Lookup
from rag_assay.evals.question_sets.text_normalization import readable
from rag_assay.evals.question_sets.word_spans import WordedText

Row = dict[str, Any]


class Resolver:
    """The documents of a corpus, in which written evidence becomes rows of `schemas.EVIDENCE`.

    Args:
        documents: doc_id, source, url and text of each.
        questions: all whose evidence will be resolved; `evidence` as written.
    """

    def __init__(
        self, documents: Sequence[Mapping[str, Any]], questions: Sequence[Mapping[str, Any]]
    ) -> None:
        self._documents = documents
        self._questions = questions
        self._by_url: dict[str, list[Mapping[str, Any]]] = {}
        for document in documents:
            self._by_url.setdefault(document["url"], []).append(document)
        self._worded = lru_cache(maxsize=8)(WordedText)
        self._found = lru_cache(maxsize=1_000)(self._first_place)  # many questions are on one context

    def resolve(self, question: Mapping[str, Any]) -> Row:
        """Return a question (a row of `schemas.QUESTIONS`) with its evidence found.

        Of evidence that is looked for by the ground truth, several equal places may be found, any of which
        suffices; where there is none, the question has no evidence.
        """
        found: list[Row] = []
        for item in question["evidence"]:
            if item.get("by_truth"):
                found += self._by_truth(item, question)
            elif item["url"] is None:
                found.append(self._anywhere(item))
            else:
                row = self._on_page(item)
                is_gone = row["reason"] is not None and item.get("anywhere")
                found.append(self._anywhere(item) if is_gone else row)
        if not any(item.get("by_truth") for item in question["evidence"]):
            return {**question, "evidence": found}
        return {**question, "evidence": found, "gold": "spans" if found else "none", "needs": "any"}

    def _on_page(self, item: Mapping[str, Any]) -> Row:
        """Find evidence on the page that it names.

        Several sources may have the same URL: `source` says which is meant; where nothing does, it is the
        first one whose document holds the quote.
        """
        source = item.get("source")
        meant = [one for one in self._by_url.get(item["url"], ()) if source in (None, one["source"])]
        if not meant:
            who = "no document" if source is None else f"no document of the source {source}"
            return _lost(item, f"{who} has this URL: the page was not fetched, or was dropped in cleaning")
        if item.get("start") is not None:
            return self._at_offsets(item, meant)
        if not item.get("quote"):
            return {**_row(item), "doc_id": meant[0]["doc_id"]}
        for document in meant:
            if span := find_quote(document["text"], item["quote"]):
                return _placed(item, document, Alignment(*span, 1.0))
        return self._similar(item, meant)

    def _similar(self, item: Mapping[str, Any], meant: Sequence[Mapping[str, Any]]) -> Row:
        """Find the stretch of the documents that is most similar to a quote that none of them holds."""
        found = [(most_similar(self._worded(one["text"]), item["quote"]), one) for one in meant]
        places = [(place, one) for place, one in found if place is not None]
        if places:
            place, document = max(places, key=lambda pair: pair[0].similarity)
            return _placed(item, document, place)
        long = f", and is too long (over {LONGEST:,} characters) to be looked for by likeness"
        reason = (
            "the quote is not in the document's text, nor anything that is similar "
            f"({SIMILAR} or more): the page changed, or cleaning lost it"
        )
        if len(item["quote"]) > LONGEST:
            reason = f"the quote is not in the document's text{long}"
        return {**_lost(item, reason), "doc_id": meant[0]["doc_id"]}

    def _at_offsets(self, item: Mapping[str, Any], meant: Sequence[Mapping[str, Any]]) -> Row:
        """Find evidence by its offsets; where another text stands there, its quote nearest to them."""
        start, end, quote = item["start"], item["end"], item.get("quote")
        for document in meant:
            there = document["text"][start:end]
            if end <= len(document["text"]) and (quote is None or readable(there) == readable(quote)):
                return _placed({**item, "quote": quote or there}, document, Alignment(start, end, 1.0))
        if quote is None:
            reason = f"the document ends at {len(meant[0]['text'])}, before the place {start} to {end}"
            return {**_lost(item, reason), "doc_id": meant[0]["doc_id"]}
        for document in meant:
            if place := _nearest(document["text"], quote, start):
                return _placed(item, document, place)
        return self._similar(item, meant)

    def _anywhere(self, item: Mapping[str, Any]) -> Row:
        """Find evidence that names no page: by its context where it has one, else by its quote."""
        context = item.get("context")
        found = self._found(context or item["quote"])
        what = "the context of the answer" if context else "the quote"
        if found is None:
            return _lost(item, f"{what} is in no document, nor anything that is similar ({SIMILAR} or more)")
        document, place = self._documents[found.document], found.place
        if not context:
            return _placed(item, document, place)
        inside = document["text"][place.start : place.end]
        near = item["start"] * len(inside) // max(1, len(context))
        within = _nearest(inside, item["quote"], near)
        if within is None:
            return {
                **_lost(item, "the answer is not in its context as the document has it"),
                "doc_id": document["doc_id"],
            }
        start, end = place.start + within.start, place.start + within.end
        return _placed(item, document, Alignment(start, end, place.similarity))

    def _first_place(self, text: str) -> DocumentMatch | None:
        return self._lookup.quote(text)

    def _by_truth(self, item: Mapping[str, Any], question: Mapping[str, Any]) -> list[Row]:
        """Find the places that hold most of the ground truth's words; none where no place holds enough."""
        return [
            _placed({**item, "quote": self._text(found)}, self._documents[found.document], found.place)
            for found in self._lookup.ground_truth(item["quote"], question["question"])
        ]

    def _text(self, found: DocumentMatch) -> str:
        text: str = self._documents[found.document]["text"][found.place.start : found.place.end]
        return text

    @cached_property
    def _lookup(self) -> Lookup:
        wanted = [
            text
            for question in self._questions
            for item in question["evidence"]
            for text in (
                item.get("context") or item.get("quote") or "",
                question["question"] if item.get("by_truth") else "",
            )
        ]
        return Lookup([document["text"] for document in self._documents], wanted)


def _row(item: Mapping[str, Any]) -> Row:
    return {
        "doc_id": None,
        "url": item["url"],
        "quote": item.get("quote"),
        "start": None,
        "end": None,
        "grade": int(item.get("grade", 1)),
        "reason": None,
        "similarity": None,
    }


def _lost(item: Mapping[str, Any], reason: str) -> Row:
    return {**_row(item), "reason": reason}


def _placed(item: Mapping[str, Any], document: Mapping[str, Any], place: Alignment) -> Row:
    return {
        **_row(item),
        **{"doc_id": document["doc_id"], "url": item["url"] if item["url"] is not None else document["url"]},
        **{"start": place.start, "end": place.end, "similarity": place.similarity},
    }


def _nearest(text: str, quote: str, start: int) -> Alignment | None:
    """Return the place of a quote that begins nearest to ``start``."""
    places = min(places_of(text, quote), key=lambda span: abs(span[0] - start), default=None)
    return Alignment(*places, 1.0) if places else None
