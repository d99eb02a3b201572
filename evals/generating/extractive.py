"""Answers made of the passages' own sentences: no model invents anything, and the same input gives the same.

A sentence's score is ``(1 - w) * cosine(question, sentence) + w * overlap(question, sentence)``. The overlap
is the share of the question's terms that the sentence holds, each weighted by its rarity among the sentences,
``log((N + 1) / (df + 0.5))`` with N sentences, df of them holding the term.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Embed = Callable[[list[str]], npt.NDArray[np.floating]]
"""Texts -> their embeddings: (n, d), each row of length 1."""

OVERLAP_WEIGHT = 0.3


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ABBREVIATIONS = _words("""
    abk allg aufl bd begr bes betr bspw bzgl bzw ca chr dgl dipl dr ebd ehem eigtl einschl engl entspr evtl
    exkl frz geb gegr ggf ggü gem gez hrsg inkl insb insbes jh jhdt jr kath lfd ltd mio mrd mtl nachm prof sog
    st std str tel ugs verf vgl vors vorm zit zzgl
    al approx appt assn ave cf corp dept esq est excl gov hon inc incl messrs mr mrs ms mt pres regs rev sgt
    sr univ viz vs
    jan feb mär apr jun jul aug sep sept okt oct nov dez dec
""")
"""Words that a dot follows inside a sentence; those that are plain words too ("red", "mind") are left out."""

BEFORE_NUMBER = _words("""
    abb abs abschn anh anm art arts ch eq eqs fig figs kap no nos nr nrn op p par para paras pp ref refs rn s
    sec secs sect vol vols ziff
""")
"""Words that a dot follows within a sentence when a number comes next: "Art. 5", "No. 3"."""

MONTHS = _words("""
    januar jänner februar märz april mai juni juli august september oktober november dezember
    january february march may june july october december
    jan feb mär mar apr jun jul aug sep sept okt oct nov dez dec
""")

BEFORE_ORDINAL = _words("""
    ab am an auf bis das dem den der des deren die diesem dieser im in jede jedem jeden jeder jedes nach seit
    seinem seinen seiner ihrem ihren ihrer unserem unserer und vom von vor zum zur
""")

STOPWORDS = _words("""
    a an and are as at be been being by can could did do does for from had has have how i if in into is it its
    may me must my of on or our shall should so than that the their them then there these they this those to
    was we were what when where which who whom whose why will with would you your
    aber als am an auch auf aus bei bin bis da damit dann das dass dem den der des die dies diese diesem
    diesen dieser dieses durch ein eine einem einen einer eines er es für gibt hat haben hatte ich ihr ihre
    im in ist
    kann können man mit muss müssen nach nicht noch nur ob oder sein seine sich sie sind soll sollen sollte
    über um und uns unser unter vom von vor war waren warum was welche welchem welchen welcher welches wem wen
    wenn wer werden weshalb wessen wie wieso wieviel wird wo wofür woher wohin wodurch womit worauf wurde
    wurden zu zum zur zwischen
""")
"""Words of a question that say nothing of its subject; they may be rare among the passages all the same."""

_END = re.compile(r"[.!?…]+[\"'”“’‘»«›‹)\]]*(?=\s)")
_BREAK = re.compile(r"\n\s*\n|(?<=[.!?:;])\s*\n\s*|\n\s*(?=(?:[-–•*·]|\(?\w{1,3}\)|\d{1,3}\.)\s)")
_OPENING = "\"'„“‚‘»«›‹([–—-"
_WORD = re.compile(r"\w+")
_STEM = 6  # letters: a crude stem that serves German and English alike ("directive", "directives")


@dataclass(frozen=True)
class _Candidate:
    text: str
    place: int  # in reading order


def sentences(text: str) -> list[str]:
    """Split ``text`` into sentences, with white space inside them made single spaces.

    Knows German and English abbreviations, initials, ordinals and dates, and leaves a quotation with the
    words that follow it in the same sentence. Blank lines, list items and lines
    after an end mark or a colon begin anew.

    >>> sentences("Laut Art. 5 gilt das ab dem 3. Mai 2024. Dr. Meier sagte: „Gut!“ und ging.")
    ['Laut Art. 5 gilt das ab dem 3. Mai 2024.', 'Dr. Meier sagte: „Gut!“ und ging.']
    """
    found = []
    for block in _BREAK.split(text):
        start = 0
        for match in _END.finditer(block):
            if _is_end(block[start : match.start()], match.group(), block[match.end() :]):
                found.append(block[start : match.end()])
                start = match.end()
        found.append(block[start:])
    plain = (" ".join(sentence.split()) for sentence in found)
    return [sentence for sentence in plain if _WORD.search(sentence)]


def _is_end(before: str, mark: str, after: str) -> bool:
    """Whether an end mark between ``before`` (the sentence so far) and ``after`` ends the sentence."""
    following = after.lstrip().lstrip(_OPENING).lstrip()
    if following[:1].islower():
        return False
    return (
        not mark.startswith(".") or len(mark.rstrip("\"'”“’‘»«›‹)]")) > 1 or _is_full_stop(before, following)
    )


def _is_full_stop(before: str, following: str) -> bool:
    words = before.split()
    last = words[-1].lstrip(_OPENING) if words else ""
    if re.fullmatch(r"\d{1,2}", last):
        return not _is_ordinal([word.lower() for word in words[:-1]], following)
    if re.fullmatch(r"[^\W\d_]", last) or re.fullmatch(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}", last):
        return False  # an initial, or letters with dots between: "J.", "z.B.", "U.S."
    if last.lower() in BEFORE_NUMBER:
        return not following[:1].isdigit()
    return last.lower() not in ABBREVIATIONS


def _is_ordinal(previous: list[str], following: str) -> bool:
    """Whether a number with a dot is an ordinal: in a date, after an article, or before a list item."""
    next_word = _WORD.match(following)
    if not previous or (next_word and (next_word.group().lower() in MONTHS or next_word.group().isdigit())):
        return True
    return previous[-1] in BEFORE_ORDINAL


def extract(
    question: str,
    passages: Sequence[str],
    embed: Embed,
    max_tokens: int,
    count_tokens: Callable[[str], int],
    minimum: float | None = None,
) -> str:
    """Answer ``question`` with the best sentences of ``passages``, in reading order, each once.

    passages: most relevant first; equal scores go to the sentence that is read first
    max_tokens: bound of the answer by ``count_tokens``; a best sentence that is longer is cut at a word
    minimum: abstain (return "") when no sentence scores this much (scores lie within -0.7 … 1); None: never

    Returns "" when the passages hold no sentence.
    """
    return extract_many([(question, passages)], embed, max_tokens, count_tokens, minimum)[0]


def extract_many(
    requests: Sequence[tuple[str, Sequence[str]]],
    embed: Embed,
    max_tokens: int,
    count_tokens: Callable[[str], int],
    minimum: float | None = None,
) -> list[str]:
    """Answer many (question, passages) as `extract` does, embedding each distinct text once, in one batch."""
    candidates = [_candidates(passages) for _, passages in requests]
    texts = dict.fromkeys(question for question, _ in requests)
    texts.update(dict.fromkeys(candidate.text for found in candidates for candidate in found))
    rows = {text: row for row, text in enumerate(texts)}
    vectors = embed(list(texts)) if texts else np.empty((0, 1))
    answers = []
    for (question, _), found in zip(requests, candidates, strict=True):
        cosines = vectors[[rows[candidate.text] for candidate in found]] @ vectors[rows[question]]
        scores = _scores(question, found, cosines)
        answers.append(_compose(found, scores, max_tokens, count_tokens, minimum))
    return answers


def _candidates(passages: Sequence[str]) -> list[_Candidate]:
    """Return the distinct sentences in reading order.

    Chunks overlap, so one also begins or ends within a sentence: a part of another candidate is left out.
    """
    distinct: dict[str, str] = {}
    for passage in passages:
        for sentence in sentences(passage):
            distinct.setdefault(sentence.casefold(), sentence)
    kept = [text for key, text in distinct.items() if not any(key in o and key != o for o in distinct)]
    return [_Candidate(text, place) for place, text in enumerate(kept)]


def _terms(text: str) -> set[str]:
    words = (word.casefold() for word in _WORD.findall(text))
    return {word if word.isdigit() else word[:_STEM] for word in words if word not in STOPWORDS}


def _scores(question: str, found: list[_Candidate], cosines: npt.NDArray[np.floating]) -> list[float]:
    asked = sorted(_terms(question))
    held = [_terms(candidate.text) for candidate in found]
    weights = {
        term: math.log((len(held) + 1) / (sum(term in terms for terms in held) + 0.5)) for term in asked
    }
    whole = sum(weights.values())
    scores = []
    for cosine, terms in zip(cosines, held, strict=True):
        overlap = sum(weights[term] for term in asked if term in terms) / whole if whole else 0.0
        # Rounded, so that the last bits, which depend on the batch, never break a tie.
        scores.append(round((1 - OVERLAP_WEIGHT) * float(cosine) + OVERLAP_WEIGHT * overlap, 6))
    return scores


def _compose(
    found: list[_Candidate],
    scores: list[float],
    max_tokens: int,
    count_tokens: Callable[[str], int],
    minimum: float | None,
) -> str:
    """Join the best sentences that fit; the best one of all is always among them."""
    best_first = sorted(found, key=lambda candidate: (-scores[candidate.place], candidate.place))
    if not best_first or (minimum is not None and scores[best_first[0].place] < minimum):
        return ""
    best = best_first[0]
    if count_tokens(best.text) > max_tokens:
        return _cut(best.text, max_tokens, count_tokens)
    taken = [best]
    for candidate in best_first[1:]:
        longer = sorted([*taken, candidate], key=lambda one: one.place)
        if count_tokens(" ".join(one.text for one in longer)) <= max_tokens:
            taken = longer
    return " ".join(one.text for one in taken)


def _cut(text: str, max_tokens: int, count_tokens: Callable[[str], int]) -> str:
    """Return the longest beginning of whole words that fits, marked with an ellipsis; at least one word."""
    words = text.split()
    low, high = 1, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        if count_tokens(" ".join(words[:middle]) + " …") <= max_tokens:
            low = middle
        else:
            high = middle - 1
    return " ".join(words[:low]) + " …"
