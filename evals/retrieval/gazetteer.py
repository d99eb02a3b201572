"""A gazetteer: finds the names that a corpus carries as keywords in a question.

Longest first, at word borders, whatever their case, umlauts in either spelling, German endings. Single words
that mean a longer name in this corpus count, and near misses by edit distance.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from rag_assay.evals.retrieval.query import Entity
from rag_assay.evals.retrieval.question_words import MAX_READ, fold_text, stop_words, words
from rag_assay.evals.word_lists import alternation, entries

if TYPE_CHECKING:
    from rag_assay.evals.retrieval.index import OpenIndex

SPECIFIC = 0.2  # of the documents that hold a word: the share that must carry the keyword it stands for
LONG_ENOUGH = 6  # letters of a name for a near miss of it to count
MOST_FUZZY = 60  # words of a question that are compared with all names


@cache
def club_pattern() -> re.Pattern[str]:
    return re.compile(rf"\b(?:1\. )?(?:{alternation('names', 'clubs')})\b(?!-)")


@cache
def name_endings() -> tuple[str, ...]:
    return ("", *entries("names", "name_endings"))


@dataclass(frozen=True)
class NameMatch:
    """A name in a text: where it stands, and what the corpus calls it (several, where it cannot be told)."""

    start: int
    end: int
    values: tuple[str, ...]


class _Hit(NamedTuple):
    start: int  # in the folded text
    end: int
    alias: str


@dataclass
class Gazetteer:
    """aliases: folded name -> the keywords that it may mean; kinds: keyword -> its type"""

    aliases: dict[str, tuple[str, ...]]
    kinds: dict[str, str]
    _automaton: Any = field(default=None, repr=False)
    _by_length: dict[tuple[int, float], list[str]] = field(default_factory=dict, repr=False)

    def find(self, text: str, typos: float) -> list[NameMatch]:
        """Return the names in a text, the longest of overlapping ones; typos: least likeness, 1: exact."""
        plain, places = fold_text(text[:MAX_READ])
        hits = self._exact(plain)
        if typos < 1:
            hits += self._fuzzy(plain, hits, typos)
        taken = [False] * len(plain)
        found: list[NameMatch] = []
        for hit in sorted(hits, key=lambda hit: (hit.start - hit.end, hit.start, hit.alias)):
            if not any(taken[hit.start : hit.end]):
                taken[hit.start : hit.end] = [True] * (hit.end - hit.start)
                start, end = places[hit.start], places[hit.end - 1] + 1
                found.append(NameMatch(start, end, self.aliases[hit.alias]))
        return sorted(found, key=lambda one: one.start)

    def _exact(self, plain: str) -> list[_Hit]:
        if not self.aliases:
            return []
        if self._automaton is None:
            self._automaton = _automaton(self.aliases)
        hits = []
        for last, alias in self._automaton.iter(plain):
            start = last + 1 - len(alias)
            if start and plain[start - 1].isalnum():
                continue
            rest = re.match(r"[^\W_]*", plain[last + 1 : last + 8])
            ending = rest.group() if rest else ""
            if ending in name_endings() and (not ending or len(alias) >= 4):
                hits.append(_Hit(start, last + 1 + len(ending), alias))
        return hits

    def _fuzzy(self, plain: str, hits: list[_Hit], typos: float) -> list[_Hit]:
        from rapidfuzz import fuzz, process

        free = [
            word
            for word in words(plain)
            if not any(hit.start < word.end and word.start < hit.end for hit in hits)
        ]
        every = stop_words()
        found = []
        for position in range(min(len(free), MOST_FUZZY)):
            for length in (3, 2, 1):
                part = free[position : position + length]
                piece = plain[part[0].start : part[-1].end]
                if len(part) < length or not LONG_ENOUGH - 1 <= len(piece) <= 80 or piece in every:
                    continue
                names = self._as_long(len(piece), typos)
                best = process.extractOne(piece, names, scorer=fuzz.ratio, score_cutoff=100 * typos)
                if best:
                    found.append(_Hit(part[0].start, part[-1].end, best[0]))
                    break
        return found

    def _as_long(self, length: int, typos: float) -> list[str]:
        """Return the names that may be so alike by their length: a ratio is 2m / (a + b), m equal letters."""
        key = (length, typos)
        if key not in self._by_length:
            low, high = length * typos / (2 - typos) - 1e-9, length * (2 - typos) / typos + 1e-9
            self._by_length[key] = [
                alias for alias in self.aliases if len(alias) >= LONG_ENOUGH and low <= len(alias) <= high
            ]
        return self._by_length[key]


def _automaton(aliases: Iterable[str]) -> Any:
    import ahocorasick

    automaton = ahocorasick.Automaton()
    for alias in aliases:
        automaton.add_word(alias, alias)
    automaton.make_automaton()
    return automaton


def learnt(index: OpenIndex, names: Mapping[str, tuple[str, ...]], specific: float) -> Gazetteer:
    """Learn the names of keywords and of a study; specific: share of a word's documents with the keyword."""
    return index.derived(_learn, tuple(names.items()), specific)


def _learn(index: OpenIndex, names: tuple[tuple[str, tuple[str, ...]], ...], specific: float) -> Gazetteer:
    carriers = _carriers(index)
    kinds = {keyword: "club" if club_pattern().search(keyword) else "keyword" for keyword in carriers}
    kinds |= {name: kind for kind, those in names for name in those}
    aliases: dict[str, set[str]] = defaultdict(set)
    for keyword in kinds:
        aliases[_plain(keyword)].add(keyword)
    single: dict[str, set[str]] = defaultdict(set)
    for keyword in kinds:
        parts = words(keyword)
        for part in parts if len(parts) > 1 else []:
            if len(part.text) >= 4 and not part.text.isdecimal():
                single[_plain(part.text)].add(keyword)
    holders = _holders(index, single)
    for part_text, keywords in single.items():
        carrying = set().union(*(carriers.get(keyword, set()) for keyword in keywords))
        holding = holders[part_text]
        if not holding or len(carrying & holding) / len(holding) >= specific:
            aliases[part_text] |= keywords
    return Gazetteer({name: tuple(sorted(those)) for name, those in aliases.items() if name}, kinds)


def _plain(name: str) -> str:
    return " ".join(fold_text(name)[0].split())


def _carriers(index: OpenIndex) -> dict[str, set[str]]:
    docs = index.spans.docs
    return {keyword: set(docs.gather(rows)) for keyword, rows in sorted(index.carriers.items())}


def _holders(index: OpenIndex, wanted: Mapping[str, object]) -> dict[str, set[str]]:
    holders: dict[str, set[str]] = {word: set() for word in wanted}
    docs = index.spans.docs
    for word in index.lexical.words:
        plain = fold_text(word)[0]
        stem = next((plain.removesuffix(e) for e in name_endings() if plain.removesuffix(e) in holders), None)
        if stem is not None:
            holders[stem] |= set(docs.gather(index.lexical.postings(word)[0]))
    return holders


def entity(found: NameMatch, text: str, value: str, gazetteer: Gazetteer) -> Entity:
    return Entity(gazetteer.kinds.get(value, "keyword"), text[found.start : found.end], value)
