"""Finds written evidence in the documents of a corpus: on the page that it names, or in any document."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from rag_assay.assets.chunking.sentence_splitter import sentence_places
from rag_assay.evals.question_sets.alignment import (
    LONGEST,
    NOT_EXACT,
    SIMILAR,
    Alignment,
    Ids,
    Stretch,
    Weights,
    WordedText,
    find_quote,
    most_similar,
    places_of,
    plain_words,
    readable,
    stretches,
    tighten_stretch,
)
from rag_assay.evals.word_lists import LANGUAGES, function_words

COVERED, COVERED_WITH_QUESTION = 0.75, 0.85
"""Share of a ground truth's words from which on a place counts as its evidence (docs/documents.md); of one
that is looked for together with its question it is more: a text may hold those words without the answer."""
WITH_FACTS, SHORT_WITH_FACTS = 0.6, 0.5
"""The same for a place that holds all facts of the ground truth: numbers, dates and names that the question
does not say; of a short one, all its words."""

NEAR = 0.4  # share of a ground truth's words from which on a place is proposed to a reviewer
_CAPITALISED = re.compile(r"(?<=[^.!?:] )[A-ZÄÖÜ][\w’'-]*")
_STEM, _SHORT = 6, 3  # letters of a crude stem that serves many languages; of words left as they are
_PASSAGE = 100  # words: in how many passages a word stands says how rare it is
_VERDICTS = frozenset({"yes", "no", "ja", "nein"})
_NARROWEST = 30  # words of the stretch that is to hold a ground truth
_FEW_WORDS = 3  # below so many that tell something, a ground truth is looked for together with its question
# Documents that are read for a quote word for word, aligned, taken if equal
_EXACT, _ALIGNED, _EQUAL = 50, 5, 3
# Share by which whole sentences may hold more; documents that are widened to them
_LITTLE, _WIDENED = 0.05, 10
_AROUND = 400  # characters by which a place is widened at most on each side, to whole sentences


class DocumentMatch(NamedTuple):
    """A document of the corpus, by its number, and the place in it."""

    document: int
    place: Alignment


class Lookup:
    """The words of texts in all documents; only those of ``wanted`` are kept (four bytes a word)."""

    def __init__(self, texts: Sequence[str], wanted: Iterable[str]) -> None:
        self.texts = texts
        forms = dict.fromkeys(form for text in wanted for form in _telling(plain_words(text)))
        self._numbers = {form: number for number, form in enumerate(forms)}
        known = _Known(self._numbers)
        self._ids: list[Ids] = [
            np.fromiter((known[word] for word in words), np.int32, len(words))
            for words in map(plain_words, texts)
        ]
        self._weights = self._rarity()
        pairs = [np.unique(ids[ids >= 0]) for ids in self._ids]
        words = np.concatenate([*pairs, np.zeros(0, np.int32)])
        order = np.argsort(words, kind="stable")
        self._documents = np.repeat(np.arange(len(pairs)), [len(pair) for pair in pairs])[order]
        self._begins = np.searchsorted(words[order], np.arange(len(forms) + 1))
        self._worded = lru_cache(maxsize=8)(lambda number: WordedText(texts[number]))

    def quote(self, quote: str) -> DocumentMatch | None:
        """Return where a quote stands: word for word in the first such document, or most similar."""
        wanted = self._wanted(plain_words(quote))
        ranked = [number for number, _ in self._likely(wanted)]
        for number in sorted(ranked[:_EXACT]):
            if span := find_quote(self.texts[number], quote):
                return DocumentMatch(number, Alignment(*span, 1.0))
        best: DocumentMatch | None = None
        for number in ranked[:_ALIGNED]:
            place = most_similar(self._worded(number), quote)
            if place is not None and (best is None or place.similarity > best.place.similarity):
                best = DocumentMatch(number, place)
        return best

    def ground_truth(self, truth: str, question: str, least: float | None = None) -> list[DocumentMatch]:
        """Return the places that hold most of a ground truth's words, in whole sentences; the best are equal.

        The similarity is the share of the words that are no function words, each counted by its rarity in the
        corpus, ``log(1 + (N - df + 0.5) / (df + 0.5))`` with N passages, df of them holding it. A truth that
        says hardly more than a name, a number, yes or no is looked for together with its question.

        least: the similarity of a place that counts; None: `COVERED` or `COVERED_WITH_QUESTION`, and
            `WITH_FACTS` or `SHORT_WITH_FACTS` of a place that holds all facts of the truth
        """
        words = plain_words(truth)
        is_short = len(set(_telling(words))) < _FEW_WORDS
        asked = _telling(plain_words(question)).keys()
        facts = (_telling(words).keys() if is_short else _facts(truth)) - asked
        if is_short:
            words += plain_words(question)
        lower = least if least is not None else SHORT_WITH_FACTS if is_short else WITH_FACTS
        if least is None:
            least = COVERED_WITH_QUESTION if is_short else COVERED
        lower = lower if facts else least
        wanted = self._wanted(words)
        width = max(_NARROWEST, len(words) + len(words) // 2)
        weights = self._weights[wanted]
        found: list[DocumentMatch] = []
        for number, local, stretch in self._fullest(wanted, width, lower):
            match = DocumentMatch(
                number, self._place(number, local, weights, tighten_stretch(local, weights, stretch))
            )
            if match.place.similarity >= (lower if self._holds(facts, match) else least):
                found = _with(found, match)
        return sorted(found)[:_EQUAL]

    def _holds(self, facts: set[str], match: DocumentMatch) -> bool:
        start, end = match.place.start, match.place.end
        return facts <= set(_telling(plain_words(self.texts[match.document][start:end])))

    def _fullest(self, wanted: Ids, width: int, least: float) -> list[tuple[int, Ids, Stretch]]:
        weights = self._weights[wanted]
        found: list[tuple[int, Ids, Stretch]] = []
        most = least
        for number, bound in self._likely(wanted):
            if bound < most - _LITTLE:
                break
            places = np.full(len(self._numbers) + 1, -1, np.int32)
            places[wanted] = np.arange(len(wanted))
            local = places[self._ids[number]]
            for stretch in stretches(local, weights, width, 1):
                found.append((number, local, stretch))
                most = max(most, stretch.share)
        near = [one for one in found if one[2].share >= most - _LITTLE]
        return sorted(near, key=lambda one: -one[2].share)[:_WIDENED]

    def _rarity(self) -> Weights:
        n_forms, n_passages = len(self._numbers), 0
        counts = np.zeros(n_forms)
        for ids in self._ids if n_forms else ():
            at = np.flatnonzero(ids >= 0)
            in_passage = np.unique(at // _PASSAGE * n_forms + ids[at])
            counts += np.bincount(in_passage % n_forms, minlength=n_forms)
            n_passages += -(-len(ids) // _PASSAGE)
        return np.log1p((n_passages - counts + 0.5) / (counts + 0.5))

    def _wanted(self, words: Sequence[str]) -> Ids:
        return np.array([self._numbers[form] for form in _telling(words)], np.int32)

    def _likely(self, wanted: Ids) -> Iterator[tuple[int, float]]:
        held = np.zeros(len(self._ids))
        for word in wanted:
            held[self._documents[self._begins[word] : self._begins[word + 1]]] += self._weights[word]
        total = float(self._weights[wanted].sum())
        for number in np.argsort(-held, kind="stable"):
            if held[number] <= 0:
                return
            yield int(number), float(held[number]) / total

    def _place(self, number: int, local: Ids, weights: Weights, stretch: Stretch) -> Alignment:
        worded = self._worded(number)
        start, end = in_sentences(worded.text, worded.starts[stretch.first], worded.ends[stretch.last])
        inside = local[bisect_left(worded.starts, start) : bisect_left(worded.starts, end)]
        share = float(weights[np.unique(inside[inside >= 0])].sum() / weights.sum())
        return Alignment(start, end, round(min(share, NOT_EXACT), 3))


class _Known(dict[str, int]):
    """Word -> number of its form, -1 for what is not looked for; each is worked out once."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        super().__init__()
        self._of = numbers

    def __missing__(self, word: str) -> int:
        self[word] = number = self._of.get(_form(word), -1)
        return number


def _with(best: list[DocumentMatch], found: DocumentMatch) -> list[DocumentMatch]:
    if not best or found.place.similarity > best[0].place.similarity:
        return [found]
    return [*best, found] if found.place.similarity == best[0].place.similarity else best


def _telling(words: Iterable[str]) -> dict[str, None]:
    return {_form(word): None for word in words if word not in _functional()}


def _facts(truth: str) -> set[str]:
    """Return the words of a sentence's numbers, dates and names.

    >>> sorted(_facts("The target of 27% was set by the European Council in 2014."))
    ['2014', '27', 'counci', 'europe']
    """
    named = (match[0] for match in _CAPITALISED.finditer(truth))
    numbers = (word for word in plain_words(truth) if any(sign.isdigit() for sign in word))
    return set(_telling([*numbers, *(word for name in named for word in plain_words(name))]))


@lru_cache(maxsize=1)
def _functional() -> frozenset[str]:
    return _VERDICTS.union(*(function_words(language) for language in LANGUAGES))


def _form(word: str) -> str:
    if not word.isalpha() or len(word) <= _SHORT:
        return word
    return word[:_STEM].rstrip("s")


def in_sentences(text: str, start: int, end: int) -> tuple[int, int]:
    """Widen a place to whole sentences; an end that would move too far stays where it is.

    >>> text = "It rains. The ferry leaves at noon, always. It calls at the island."
    >>> "{}|{}".format(*in_sentences(text, 14, 27))
    '10|43'
    """
    left, right = max(0, start - _AROUND), min(len(text), end + _AROUND)
    places = [(left + a, left + b) for a, b in sentence_places(text[left:right])]
    begins = [a for a, b in places if a <= start < b and (a > left or left == 0)]
    stops = [b for a, b in places if a < end <= b and (b < right or right == len(text))]
    return min([start, *begins]), max([end, *stops])


Row = dict[str, Any]


class Resolver:
    """The documents of a corpus, in which written evidence becomes rows of `schemas.EVIDENCE`."""

    def __init__(
        self, documents: Sequence[Mapping[str, Any]], questions: Sequence[Mapping[str, Any]]
    ) -> None:
        self._documents = documents
        self._questions = questions
        self._by_url: dict[str, list[Mapping[str, Any]]] = {}
        for document in documents:
            self._by_url.setdefault(document["url"], []).append(document)
        self._worded = lru_cache(maxsize=8)(WordedText)
        self._found = lru_cache(maxsize=1_000)(self._lookup.quote)  # many questions are on one context

    def resolve(self, question: Mapping[str, Any]) -> Row:
        """Return a question with its evidence found; of a ground truth several equal places may be."""
        found: list[Row] = []
        needs = "any"
        for item in question["evidence"]:
            if item.get("by_truth"):
                rows = self._by_truth(item["quote"], item, question)
                if not rows and (rows := self._by_claims(item, question)):
                    needs = "all"
                found += rows
            elif item["url"] is None:
                found.append(self._anywhere(item))
            else:
                row = self._on_page(item)
                is_gone = row["reason"] is not None and item.get("anywhere")
                found.append(self._anywhere(item) if is_gone else row)
        if not any(item.get("by_truth") for item in question["evidence"]):
            return {**question, "evidence": found}
        return {**question, "evidence": found, "gold": "spans" if found else "none", "needs": needs}

    def nearest(self, question: Mapping[str, Any]) -> list[Row]:
        items = [item for item in question["evidence"] if item.get("by_truth")]
        return [row for item in items for row in self._by_truth(item["quote"], item, question, NEAR)]

    def _on_page(self, item: Mapping[str, Any]) -> Row:
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
            reason = "the answer is not in its context as the document has it"
            return {**_lost(item, reason), "doc_id": document["doc_id"]}
        start, end = place.start + within.start, place.start + within.end
        return _placed(item, document, Alignment(start, end, place.similarity))

    def _by_truth(
        self, truth: str, item: Mapping[str, Any], question: Mapping[str, Any], least: float | None = None
    ) -> list[Row]:
        rows = []
        for found in self._lookup.ground_truth(truth, question["question"], least):
            document, place = self._documents[found.document], found.place
            text = document["text"][place.start : place.end]
            rows.append(_placed({**item, "quote": text}, document, place))
        return rows

    def _by_claims(self, item: Mapping[str, Any], question: Mapping[str, Any]) -> list[Row]:
        claims = [item["quote"][a:b] for a, b in sentence_places(item["quote"])]
        places = [self._by_truth(claim, item, question)[:1] for claim in claims]
        is_enough = len(claims) > 1 and 2 * sum(map(bool, places)) > len(claims)
        return [row for rows in places for row in rows] if is_enough else []

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
    unknown = dict.fromkeys(("doc_id", "start", "end", "reason", "similarity"))
    return {**unknown, "url": item["url"], "quote": item.get("quote"), "grade": int(item.get("grade", 1))}


def _lost(item: Mapping[str, Any], reason: str) -> Row:
    return {**_row(item), "reason": reason}


def _placed(item: Mapping[str, Any], document: Mapping[str, Any], place: Alignment) -> Row:
    return {
        **_row(item),
        **{"doc_id": document["doc_id"], "url": item["url"] if item["url"] is not None else document["url"]},
        **{"start": place.start, "end": place.end, "similarity": place.similarity},
    }


def _nearest(text: str, quote: str, start: int) -> Alignment | None:
    places = min(places_of(text, quote), key=lambda span: abs(span[0] - start), default=None)
    return Alignment(*places, 1.0) if places else None
