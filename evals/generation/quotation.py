"""The sentences of passages that answer a question best, and how likely the best one answers it.

Each sentence has features: the cosine of the question with it, and with twice it and its neighbours, summed;
the share of the question's terms that it holds, each weighted by its rarity among the sentences,
``log((N + 1) / (df + 0.5))`` with N sentences, df of them holding the term; the share of its groups of four
letters, which related words and German compounds have in common, in the sentence and around it; the rank of
its passage; whether it has the date, number or name that is asked for; whether it is of the time that the
question names, by its words or by the day of publication. Their weighted sum orders the sentences; that of
the best one, as a probability, is how sure the answer is. Where the embedder does not know the language, only
words count. All were fitted on questions with and without an answer (`extractive.json` says on which;
`benchmarks/answer_weights.py` fits them).
"""

from __future__ import annotations

import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from rag_assay.evals.generation.answer_sentences import (
    PassageStretch,
    PlacedText,
    Unit,
    answer_units,
    holder,
    passage_stretches,
)
from rag_assay.evals.generation.direct_answers import (
    Expected,
    candidates,
    direct_answer,
    expected_answer,
    topic_of,
)
from rag_assay.evals.query_transforms.rules.named_dates import find_dates
from rag_assay.evals.word_lists import entries
from rag_assay.warehouse.identity import digest

if TYPE_CHECKING:
    import numpy.typing as npt

Embed: TypeAlias = "Callable[[list[str]], npt.NDArray[np.floating]]"
"""Texts -> their embeddings: (n, d), each row of length 1."""

CountTokens = Callable[[Sequence[str]], list[int]]
Floats: TypeAlias = "npt.NDArray[np.float64]"

CODE_VERSION = "14"
"""Raised when another sentence, or another probability, comes of the same passages and vectors."""

_WORD = r"\w+"
_STEM = 6  # letters: a crude stem that serves German and English alike ("directive", "directives")
_GRAM = 4  # letters of the groups that related words share
_REMEMBERED = 1024  # texts whose groups of letters are kept, about 6 kB each
_CLOSE, _CLOSE_BESIDE = 0.5, 2.0
"""By how much a further sentence may be worse than the best one, as log odds: of another text, of its own."""
_CUT = 1.0  # log odds that a sentence loses which a chunk's edge cut
_GIVES_REASONS = 1.5  # … a recital: questions about acts ask more often for what their articles say
_ASKED = 100.0  # log odds that a sentence loses which asks something: any other one comes first
_ASKS = r"[?？؟][\"'”“’‘»«›‹)\]]*$"
_ORDINAL = (
    r"(?i)\b(?:the|its|his|her|their|de[mnrs]|die|das|im|am|beim|vom|zu[mr])\s+"
    r"(second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|zweite|dritte|vierte|fünfte|sechste|siebte|achte"
    r"|neunte|zehnte)[nrsm]?\s+([^\W\d]{3,})"
)
_FEW_TERMS = 4  # a shorter sentence says little by itself
_MOST = 2  # sentences that are chosen; what completes them comes with them
_COMMON = 0.4  # mean cosine of unrelated texts: 0.2 of all-MiniLM-L6-v2, 0.8 of multilingual-e5-small
_NEAREST = 3  # probes that a text is compared with
_FOLLOWING = 2  # sentences after one that answers a question of yes or no
_LISTED = 5  # titles, where a question asks for documents
_SURE = 0.7  # below this probability no short answer is put first


class QuotablePassage(PlacedText, Protocol):
    """What is read of a passage."""

    @property
    def title(self) -> str | None: ...
    @property
    def date(self) -> str | None: ...


@cache
def fitted() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(__file__).with_name("extractive.json").read_text("utf-8"))
    return found


def weights_revision() -> str:
    return digest([fitted()[name] for name in ("sentence", "confidence", "foreign", "probes")])


@dataclass(frozen=True)
class Candidate:
    """A sentence that may answer.

    place: among the candidates, in reading order
    passage: the first one that holds it, from 0
    stretch: which stretch of text it stands in; those with the same number are read without a gap
    terms: of the sentence
    around: the heading, title and list that it stands in
    document, title, date: that it stands in, and the ISO 8601 day of its publication; empty: not known
    """

    unit: Unit
    place: int
    passage: int
    stretch: int
    terms: frozenset[str]
    around: str
    document: str = ""
    title: str = ""
    date: str = ""

    @property
    def text(self) -> str:
        return f"{self.unit.text} …" if self.unit.goes_on else self.unit.text


class QuotedPiece(NamedTuple):
    """Characters of a quoted text, and the passage that they stand in, from 0."""

    start: int
    end: int
    passage: int


class Quoted(NamedTuple):
    """An answer; confidence: the probability that it is one, None where there is no sentence."""

    text: str = ""
    pieces: tuple[QuotedPiece, ...] = ()
    confidence: float | None = None


@dataclass(frozen=True)
class Vectors:
    """Unit vectors, shape (texts, dimensions), the row of each text, and its nearness to the probes: the mean
    of the three highest cosines with them.
    """

    matrix: npt.NDArray[np.floating]
    rows: Mapping[str, int]
    nearness: npt.NDArray[np.floating]


SENTENCE_FEATURES = (
    *("cosine", "context", "overlap", "grams", "rank"),
    *("has_kind", "lacks_kind", "short", "colon", "in_time", "published"),
)


@dataclass(frozen=True)
class Draft:
    """A question and the sentences that may answer it, in reading order.

    standalone: of a follow-up, the question with words of the conversation, which `question` is without
    quoted: documents that the last answer of the conversation quotes
    """

    question: str
    wanted: Expected | None
    candidates: list[Candidate]
    seconds: float
    standalone: str | None = None
    quoted: frozenset[str] = frozenset()

    @staticmethod
    def of(
        question: str,
        passages: Sequence[QuotablePassage],
        own_words: str | None = None,
        conversation: Sequence[str] = (),
    ) -> Draft:
        begin = time.perf_counter()
        found = _candidates(passages)
        asked, standalone = (own_words, question) if own_words else (question, None)
        quoted = quoted_documents(passages, conversation)
        return Draft(asked, expected_answer(asked), found, time.perf_counter() - begin, standalone, quoted)

    def answer(
        self,
        vectors: Vectors,
        max_tokens: int,
        counts: Mapping[str, int],
        count_tokens: CountTokens,
        minimum: float | None,
    ) -> Quoted:
        """Return the quotation; ``counts`` has the tokens of each of its sentences."""
        if not self.candidates:
            return Quoted()
        scores = self.scores(vectors)
        order = sorted(range(len(scores)), key=lambda at: (-scores[at], at))
        confidence = self._probability(float(scores[order[0]]), vectors)
        if minimum is not None and confidence < minimum:
            return Quoted(confidence=confidence)
        listed = self._listed()
        while listed and sum(count_tokens([text for text, _ in listed])) > max_tokens:
            listed.pop()
        if listed:
            return _joined(listed, confidence)
        best = self.candidates[order[0]]
        if counts[best.text] > max_tokens:
            cut = _cut(best.text, max_tokens, count_tokens)
            return Quoted(cut, (QuotedPiece(0, len(cut), best.passage),), confidence)
        first = self._direct(best, confidence)
        room = max_tokens - (count_tokens([first])[0] if first else 0)
        if room < counts[best.text]:
            first, room = "", max_tokens
        chosen = self._chosen(order, scores, room, counts)
        return _composed(first, best, chosen, confidence)

    def confidence(self, vectors: Vectors) -> float:
        """Return the probability that the best sentence answers; 0 where there is no sentence."""
        return self._probability(float(self.scores(vectors).max()), vectors) if self.candidates else 0.0

    def is_foreign(self, vectors: Vectors) -> bool:
        """Whether the embedder does not know the language: its texts are near to any others of that language,
        whatever they say, so that cosines tell nothing.
        """
        rows = [vectors.rows[text] for text in (self.question, *(one.text for one in self.candidates))]
        return float(vectors.nearness[rows].mean()) > fitted()["foreign"]["nearness"]

    def scores(self, vectors: Vectors) -> Floats:
        """Return the log odds of each sentence.

        Words of the conversation find the passages of a follow-up, but they are also those of the sentence
        that was quoted before: what the question says itself weighs more.
        """
        is_foreign = self.is_foreign(vectors)
        scores = sentence_scores(self.features(vectors), is_foreign)
        if self.standalone is not None:
            own = fitted()["follow_up"]["own"]
            asked_fully = replace(self, question=self.standalone, standalone=None)
            scores = own * scores + (1 - own) * sentence_scores(asked_fully.features(vectors), is_foreign)
        known = fitted()["follow_up"]
        elsewhere = known["elsewhere" if self.standalone is not None else "elsewhere_alone"]
        lost = [
            _CUT * one.unit.goes_on
            + _GIVES_REASONS * one.unit.is_recital
            + _ASKED * bool(re.search(_ASKS, one.unit.text))
            + elsewhere * bool(self.quoted and one.document not in self.quoted)
            for one in self.candidates
        ]
        return scores - np.array(lost)

    def _probability(self, score: float, vectors: Vectors) -> float:
        known = fitted()["foreign" if self.is_foreign(vectors) else "confidence"]
        intercept = known["intercept"] - (fitted()["follow_up"]["shift"] if self.standalone else 0)
        intercept -= fitted()["confidence"]["ordinal"] * self._lacks_ordinal()
        return round(1 / (1 + math.exp(-(known["slope"] * score + intercept))), 4)

    def _lacks_ordinal(self) -> bool:
        """Whether the question asks for "the second drill", and no sentence or heading names a second one."""
        texts = [f"{one.text} {one.around}" for one in self.candidates]
        return any(
            not any(
                re.search(rf"\b{ordinal}\w*\W+(?:\w+\W+){{0,2}}{noun[:_STEM]}", text, re.I) for text in texts
            )
            for ordinal, noun in re.findall(_ORDINAL, self.question)
        )

    def features(self, vectors: Vectors) -> Floats:
        """Return the features of each sentence, shape (sentences, `SENTENCE_FEATURES`)."""
        matrix = np.asarray(vectors.matrix[[vectors.rows[one.text] for one in self.candidates]], np.float64)
        question = np.asarray(vectors.matrix[vectors.rows[self.question]], np.float64)
        stretches = np.array([one.stretch for one in self.candidates])
        goes_on = (stretches[1:] == stretches[:-1])[:, np.newaxis]
        context = 2 * matrix
        context[1:] += matrix[:-1] * goes_on
        context[:-1] += matrix[1:] * goes_on
        cosines = matrix @ question
        in_context = context @ question / np.maximum(np.linalg.norm(context, axis=1), 1e-9)
        asked = _grams(self.question)
        grams = [_grams(one.text) & asked for one in self.candidates]
        terms = _Rarity.of(_terms(self.question), [one.terms for one in self.candidates])
        parts = _Rarity.of(asked, grams)
        times = _Time.of(self.question)
        asks = self.wanted is not None and self.wanted.kind not in {"documents", "yes_no"}
        found = np.zeros((len(self.candidates), len(SENTENCE_FEATURES)))
        for at, one in enumerate(self.candidates):
            beside = self._beside(at)
            near = [one.text, one.around, *(self.candidates[other].text for other in beside)]
            kind = bool(self.wanted and candidates(self.wanted, self.question, one.text))
            found[at] = (
                cosines[at],
                in_context[at],
                terms.share(one.terms),
                parts.share(grams[at].union(_grams(one.around) & asked, *(grams[other] for other in beside))),
                1 / (1 + one.passage),
                asks and kind,
                asks and not kind,
                len(one.terms) < _FEW_TERMS,
                one.text.endswith(":"),
                bool(times) and all(time.holds(one.date) or time.is_written(near) for time in times),
                bool(times) and all(time.holds(one.date) for time in times),
            )
        # Rounded, so that the last bits, which depend on the batch, never break a tie.
        return np.round(found, 6)

    def _beside(self, at: int) -> list[int]:
        """Return the sentences before and after one, in its stretch."""
        near = range(max(at - 1, 0), min(at + 2, len(self.candidates)))
        of = self.candidates[at].stretch
        return [other for other in near if other != at and self.candidates[other].stretch == of]

    def _direct(self, best: Candidate, confidence: float) -> str:
        """Return the short answer that is put first; "" where none stands out."""
        if self.wanted is None or self.wanted.kind == "score" or confidence < _SURE:
            return ""  # the score of whom, only the sentence says
        found = direct_answer(self.wanted, self.question, best.text)
        return _finished(found) if found else ""

    def _listed(self) -> list[tuple[str, int]]:
        """Return title and passage of each document that is asked for: of the time, with all terms."""
        if self.wanted is None or self.wanted.kind != "documents":
            return []
        times, asked = _Time.of(self.question), _terms(topic_of(self.question))
        documents: dict[tuple[str, str], list[Candidate]] = {}
        for one in sorted(self.candidates, key=lambda one: one.passage):
            documents.setdefault((one.title, one.date[:10]), []).append(one)
        return [
            (f"{title} ({date})." if date else _finished(title), held[0].passage)
            for (title, date), held in documents.items()
            if title
            and all(time.holds(date) for time in times)
            and asked <= _terms(title).union(*(one.terms for one in held))
        ][: _LISTED if times or asked else 0]

    def _chosen(
        self, order: Sequence[int], scores: Floats, room: int, counts: Mapping[str, int]
    ) -> list[Candidate]:
        """Return the best sentences that fit, with what completes them; neighbours in reading order."""
        taken: dict[int, Candidate] = {}
        n_chosen = 0
        for at in order:
            one = self.candidates[at]
            close = _CLOSE_BESIDE if one.stretch == self.candidates[order[0]].stretch else _CLOSE
            if n_chosen >= _MOST or at in taken or scores[at] < scores[order[0]] - close:
                continue
            if counts[one.text] > room:
                continue
            n_chosen += 1
            for other in (one, *self._completing(at)):
                if other.place not in taken and counts[other.text] <= room:
                    taken[other.place] = other
                    room -= counts[other.text]
        # What is read without a gap stays together; the best sentence is in what comes first.
        runs: list[list[Candidate]] = []
        for at, one in sorted(taken.items()):
            last = runs[-1] if runs else [one]
            follows = at - 1 == last[-1].place or one.unit.lead in [other.text for other in last]
            if runs and follows and one.stretch == last[-1].stretch:
                last.append(one)
            else:
                runs.append([one])
        ranks = {at: rank for rank, at in enumerate(order)}
        runs.sort(key=lambda run: min(ranks[one.place] for one in run))
        return [one for run in runs for one in run]

    def _completing(self, at: int) -> Iterator[Candidate]:
        """Yield what a sentence needs to be understood: the clause before a list, its items, or a name; for a
        question of yes or no also the sentences after it, which often tell the outcome.
        """
        one = self.candidates[at]
        near = [other for other in self.candidates if other.stretch == one.stretch]
        if one.unit.lead and not _is_sentence(one):
            yield from (other for other in near if other.text == one.unit.lead)
        elif one.text.endswith(":"):
            yield from (other for other in near if other.unit.lead == one.text and other.place > at)
        elif _points_back(one.text) and at > 0:
            before = self.candidates[at - 1]
            if before.stretch == one.stretch and before.unit.paragraph in {
                one.unit.paragraph,
                one.unit.paragraph - 1,
            }:
                yield before
        if self.wanted is not None and self.wanted.kind == "yes_no":
            for other in self.candidates[at + 1 : at + 1 + _FOLLOWING]:
                if other.stretch == one.stretch and other.unit.paragraph <= one.unit.paragraph + 1:
                    yield other


def sentence_scores(features: Floats, is_foreign: bool) -> Floats:
    """Return the log odds of each sentence; rounded, so that the last bits never break a tie.

    is_foreign: the embedder does not know the language, so that only words count
    """
    known = fitted()["foreign"]["sentence"] if is_foreign else fitted()["sentence"]
    weights = np.array([known.get(one, 0.0) for one in SENTENCE_FEATURES])
    return np.asarray(np.round(features @ weights, 6))


class _Time(NamedTuple):
    """Days that a question names: ISO 8601, both included; and how a text writes their year or season."""

    first: str
    last: str
    written: re.Pattern[str]

    @classmethod
    def of(cls, question: str) -> list[_Time]:
        found = []
        for one in find_dates(question):
            if one.first is None or one.last is None:
                continue
            begin, end = one.first.year, one.last.year
            season = "" if begin == end else rf"\s?[/–-]\s?(?:{end}|{end % 100:02})"
            found.append(cls(f"{one.first}", f"{one.last}", re.compile(rf"(?<!\d){begin}{season}(?!\d)")))
        return found

    def holds(self, published: str) -> bool:
        return self.first <= published[:10] <= self.last

    def is_written(self, texts: Sequence[str]) -> bool:
        return any(map(self.written.search, texts))


def _finished(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith(".") else ".")


def _is_sentence(one: Candidate) -> bool:
    """Whether an item of a list says something without the clause before the list, such as a recital."""
    return one.text[:1].isupper() and one.text.endswith(".") and len(one.terms) >= _FEW_TERMS


def _points_back(text: str) -> bool:
    """Whether a sentence begins with a word that stands for something in the one before."""
    found = re.search(_WORD, text)
    return found is not None and found[0].casefold() in _pronouns()


@cache
def _pronouns() -> frozenset[str]:
    return frozenset(entries("extractive", "pronouns"))


def embedded(drafts: Sequence[Draft], embed: Embed) -> Vectors:
    """Embed questions and sentences, each text once.

    All cosines of some embedders are high (0.7 to 0.9 of multilingual-e5-small), so that every sentence looks
    like an answer. Of such an embedder the mean vector of fixed sentences is subtracted from all vectors.
    """
    texts = dict.fromkeys(draft.question for draft in drafts)
    texts.update(dict.fromkeys(draft.standalone for draft in drafts if draft.standalone))
    texts.update(dict.fromkeys(sentences_of(drafts)))
    rows = {text: row for row, text in enumerate(texts)}
    if not texts:
        return Vectors(np.empty((0, 1)), rows, np.empty(0))
    matrix = embed([*texts, *fitted()["probes"]])
    common = matrix[len(texts) :].mean(axis=0)
    if float(common @ common) > _COMMON:
        matrix = matrix - common
        matrix = matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-9)
    matrix, probes = matrix[: len(texts)], matrix[len(texts) :]
    return Vectors(matrix, rows, np.sort(matrix @ probes.T, axis=1)[:, -_NEAREST:].mean(axis=1))


def quoted_documents(passages: Sequence[PlacedText], conversation: Sequence[str]) -> frozenset[str]:
    """Return the documents of the passages that the last answer of a conversation quotes.

    conversation: question and answer by turns, oldest first
    """
    read: dict[str, list[str]] = {}
    for stretch in passage_stretches(passages):
        if document := passages[stretch.places[0]].document:
            read.setdefault(document, []).append(" ".join(stretch.text.split()))
    for answer in reversed(conversation[1::2]):
        quotes = [
            one.text.removesuffix(" …") for one in answer_units(answer) if len(_terms(one.text)) >= _FEW_TERMS
        ]
        found = {
            name for name, texts in read.items() if any(quote in text for quote in quotes for text in texts)
        }
        if found:
            return frozenset(found)
    return frozenset()


def sentences_of(drafts: Sequence[Draft]) -> Iterator[str]:
    return (candidate.text for draft in drafts for candidate in draft.candidates)


def counted(texts: Iterable[str], count_tokens: CountTokens) -> dict[str, int]:
    distinct = list(dict.fromkeys(texts))
    return dict(zip(distinct, count_tokens(distinct), strict=True)) if distinct else {}


def _candidates(passages: Sequence[QuotablePassage]) -> list[Candidate]:
    """Return the distinct sentences in reading order.

    Chunks overlap, so one also begins or ends within a sentence: a part of another candidate is left out, and
    what a chunk's edge cut, where there is anything whole; the beginning of a sentence after another stays.
    """
    distinct: dict[str, tuple[Unit, int, PassageStretch]] = {}
    for number, stretch in enumerate(passage_stretches(passages)):
        for unit in answer_units(stretch.text, stretch.start == 0):
            key = unit.text.casefold()
            known = distinct.get(key)
            if known is None or (known[0].is_broken and not unit.is_broken):
                distinct.pop(key, None)  # what replaces it has the place where it was read
                distinct[key] = (unit, number, stretch)
    whole = {
        key: found for key, found in distinct.items() if not found[0].is_broken or found[0].goes_on
    } or distinct
    together = "\n".join(whole)  # sentences hold no line feed
    kept = [found for key, found in whole.items() if together.count(key) == 1]
    found = []
    for place, (unit, number, stretch) in enumerate(kept):
        passage = holder(stretch.start + unit.start, stretch.start + unit.end, stretch, passages)
        of = passages[passage]
        title = of.title or ""
        around = " ".join([unit.lead, unit.heading, title])
        found.append(
            Candidate(
                unit, place, passage, number, _terms(unit.text), around, of.document, title, of.date or ""
            )
        )
    return found


@cache
def _stop_words() -> frozenset[str]:
    return frozenset(entries("extractive", "stop_words"))


@lru_cache(maxsize=_REMEMBERED)
def _terms(text: str) -> frozenset[str]:
    words = (word.casefold() for word in re.findall(_WORD, text))
    stop_words = _stop_words()
    return frozenset(word if word.isdigit() else word[:_STEM] for word in words if word not in stop_words)


@lru_cache(maxsize=_REMEMBERED)
def _grams(text: str) -> frozenset[str]:
    """Return the groups of four letters of a text's words, with their beginnings and ends.

    >>> sorted(_grams("the fee"))
    ['<fee', 'fee>']
    """
    words = {f"<{word}>" for word in map(str.casefold, re.findall(_WORD, text)) if word not in _stop_words()}
    return frozenset(word[at : at + _GRAM] for word in words for at in range(max(1, len(word) - _GRAM + 1)))


class _Rarity(NamedTuple):
    """What each of a question's terms weighs, by how few of some texts hold it."""

    weights: Mapping[str, float]
    total: float

    @classmethod
    def of(cls, terms: frozenset[str], held: Sequence[frozenset[str]]) -> _Rarity:
        counts = Counter(term for one in held for term in terms & one)
        weights = {term: math.log((len(held) + 1) / (counts[term] + 0.5)) for term in sorted(terms)}
        return cls(weights, sum(weights.values()))

    def share(self, held: frozenset[str]) -> float:
        return sum(weight for term, weight in self.weights.items() if term in held) / (self.total or 1.0)


def _composed(first: str, best: Candidate, chosen: Sequence[Candidate], confidence: float) -> Quoted:
    """Join the short answer, which is of the best sentence's passage, and the sentences."""
    parts = [(first, best.passage), *((one.text, one.passage) for one in chosen)]
    return _joined([part for part in parts if part[0]], confidence)


def _joined(parts: Sequence[tuple[str, int]], confidence: float) -> Quoted:
    ends = list(accumulate((len(text) + 1 for text, _ in parts), initial=0))
    pieces = (
        QuotedPiece(start, start + len(text), passage)
        for start, (text, passage) in zip(ends, parts, strict=False)
    )
    return Quoted(" ".join(text for text, _ in parts), tuple(pieces), confidence)


def _cut(text: str, max_tokens: int, count_tokens: CountTokens) -> str:
    """Return the longest beginning of whole words that fits, marked with an ellipsis; at least one word."""
    words = text.split()
    low, high = 1, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        if count_tokens([" ".join(words[:middle]) + " …"])[0] <= max_tokens:
            low = middle
        else:
            high = middle - 1
    return " ".join(words[:low]) + " …"
