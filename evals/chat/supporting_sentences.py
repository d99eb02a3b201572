"""Where in a passage stands what an answer rests on: the sentences that its cited sentences are most like."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from rag_assay.assets.chunking.sentence_splitter import sentence_places
from rag_assay.evals.generation.citations import claims, without_markers
from rag_assay.evals.retrieval.question_words import stop_words

LIKE = 0.3  # share of a claim's words, each by its rarity, from which on a sentence holds it
AS_GOOD = 0.8  # share of the best sentence's likeness from which on another one is marked, too
MOST_READ = 20_000  # characters of a passage
_WORD = re.compile(r"\w+")
_STEM = 6  # letters, as of `evals.generation.extractive`
Places = tuple[tuple[int, int], ...]


def find_supporting(answer: str, sentences: Sequence[int | None], passage: str) -> Places:
    """Return (start, end) in a passage of what an answer's sentences rest on, in order and apart.

    A sentence that stands in the passage word for word is marked as such. Of one in other words, the
    passage's sentences count that hold most of its words. Where none holds enough, nothing is marked.

    sentences: of the answer, from 0, those that cite the passage; None: a list of sources does

    >>> text = "The ferry is old. It sails at noon from the pier. Tickets cost two pounds."
    >>> [text[start:end] for start, end in find_supporting("It leaves the pier at noon [1].", [0], text)]
    ['It sails at noon from the pier.']
    """
    places = claims(answer)
    wanted = [
        answer[slice(*places[one])]
        for one in dict.fromkeys(sentences)
        if one is not None and one < len(places)
    ]
    text = passage[:MOST_READ]
    inside = sentence_places(text)
    terms = [_terms(text[start:end]) for start, end in inside]
    rarity = Counter(term for one in terms for term in one)
    found: list[tuple[int, int]] = []
    for claim in wanted:
        plain = without_markers(claim).strip()
        at = text.find(plain) if plain else -1
        if at >= 0:
            found.append((at, at + len(plain)))
            continue
        found += [inside[place] for place in _likest(_terms(plain), terms, rarity)]
    return _apart(found)


def _likest(claim: frozenset[str], sentences: Sequence[frozenset[str]], rarity: Counter[str]) -> list[int]:
    weights = {term: math.log((len(sentences) + 1) / (rarity[term] + 0.5)) + 0.1 for term in claim}
    whole = sum(weights.values())
    if not whole:
        return []
    shares = [sum(weights[term] for term in claim & one) / whole for one in sentences]
    best = max(shares, default=0.0)
    return [at for at, share in enumerate(shares) if share >= max(LIKE, AS_GOOD * best)]


def _terms(text: str) -> frozenset[str]:
    found = (word.casefold() for word in _WORD.findall(text))
    return frozenset(word[:_STEM] for word in found if word not in stop_words())


def _apart(places: Sequence[tuple[int, int]]) -> Places:
    """Join places that overlap.

    >>> _apart([(5, 9), (0, 6), (20, 30)])
    ((0, 9), (20, 30))
    """
    joined: list[tuple[int, int]] = []
    for start, end in sorted(places):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return tuple(joined)
