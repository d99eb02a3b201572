"""Chooses questions among candidates: found in the documents, no repetitions, not too many that are easy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import NamedTuple

from rag_assay.evals.question_generation.candidate import QuestionCandidate, Quote
from rag_assay.evals.question_generation.drop_reasons import Drop, Tally
from rag_assay.evals.question_generation.kinds import Texts
from rag_assay.evals.question_generation.near_duplicates import Matrix, NearDuplicates
from rag_assay.evals.question_generation.sampling import Sample
from rag_assay.evals.question_generation.too_easy import FirstPlaces, Place, TextPassage, passages_in
from rag_assay.evals.question_sets.exact_matches import places_of

EASY = 1 / 3
"""Share of a set that a search by words may find at once: about that of sets that people have written."""
FEW = 20  # questions: a corpus that gives no more keeps easy ones too, for a set of none says nothing
CORPUS = (
    20_000  # passages that questions are tried on; of a larger corpus, those of a sample of its documents
)
AGAIN = "the evidence stands more than once in its document"
LOST = "the evidence is not found in its document"


class Near(NamedTuple):
    """How like each other questions are.

    vectors: of the questions, unit length, shape (questions, dimensions)
    chance: `chance_cosine` of the embedder
    """

    vectors: Matrix
    chance: float = 0.0


def in_turn(kinds: Iterable[Sequence[QuestionCandidate]]) -> list[QuestionCandidate]:
    """Return the candidates of several kinds, one of each kind by turns.

    >>> [str(one) for one in in_turn(["ab", "x"])]  # type: ignore[list-item]
    ['a', 'x', 'b']
    """
    return [one for one in chain.from_iterable(zip_longest(*kinds)) if one is not None]


class EvidenceIndex:
    """Where the evidence of candidates stands, and the passages that search tells it from.

    Args:
        candidates: whose evidence is looked up.
        texts: the documents, which are read once.
        seed: of the sample of documents, where the corpus has more passages than CORPUS.
    """

    def __init__(self, candidates: Sequence[QuestionCandidate], texts: Texts, seed: int) -> None:
        wanted: dict[str, set[Quote]] = {}
        for quote in chain.from_iterable(one.evidence for one in candidates):
            wanted.setdefault(quote.doc_id, set()).add(quote)
        self._places: dict[Quote, Place | str] = {}
        own: list[TextPassage] = []
        others: Sample[list[TextPassage]] = Sample(CORPUS // 4, seed)
        for text in texts():
            found = passages_in(text.doc_id, text.title, text.text)
            for quote in wanted.get(text.doc_id, ()):
                self._places[quote] = _place(quote, text.text)
            if text.doc_id in wanted:
                own += found
            else:
                others.add(text.doc_id, found[: CORPUS // 10])
        rest = chain.from_iterable(thing for one in others.drawn() for thing in one.things)
        room = max(CORPUS - len(own), CORPUS // 2)
        self.passages = own + [passage for _, passage in zip(range(room), rest, strict=False)]

    def places(self, candidate: QuestionCandidate) -> list[Place] | str:
        """Return where all evidence of a candidate stands; or why it cannot be used."""
        found = [self._places.get(quote, LOST) for quote in candidate.evidence]
        reason = next((one for one in found if isinstance(one, str)), None)
        return reason or [one for one in found if not isinstance(one, str)]


def _place(quote: Quote, text: str) -> Place | str:
    """Return the place of a quote, which was cut out of the text as it stands."""
    if quote.quote is None:
        return quote.doc_id, 0, len(text)
    start = text.find(quote.quote)
    if start < 0:
        return LOST
    end = start + len(quote.quote)
    return AGAIN if text.find(quote.quote, start + 1) >= 0 else (quote.doc_id, start, end)


def verify_questions(
    questions: Sequence[QuestionCandidate], texts: Texts, tally: Tally
) -> list[QuestionCandidate]:
    """Return the questions whose evidence a run will find, each at one place of its document alone."""
    wanted: dict[str, set[Quote]] = {}
    for quote in chain.from_iterable(one.evidence for one in questions):
        wanted.setdefault(quote.doc_id, set()).add(quote)
    reasons: dict[Quote, str | None] = {}
    for text in texts():
        for quote in wanted.get(text.doc_id, ()):
            reasons[quote] = _why_not(text.text, quote.quote)
    kept = []
    for one in questions:
        found = (reasons.get(quote, LOST) for quote in one.evidence)
        reason = next((reason for reason in found if reason), None)
        if reason:
            tally.drop(Drop(one.kind, reason))
        else:
            kept.append(one)
    return kept


def _why_not(text: str, quote: str | None) -> str | None:
    if quote is None:
        return None
    found = places_of(text, quote)
    if next(found, None) is None:
        return LOST
    return AGAIN if next(found, None) is not None else None


def chosen(
    candidates: Sequence[QuestionCandidate],
    near: Near,
    evidence: EvidenceIndex,
    n: int,
    documents: int,
    tally: Tally,
) -> list[QuestionCandidate]:
    """Return the questions to be asked, at most ``n``, in the order of the candidates.

    Args:
        candidates: of all kinds, by turns; the first ones are taken.
        near: how like each other they are.
        evidence: of these candidates.
        n: questions at most.
        documents: of the corpus; of one, no more than a few times its share are asked.
        tally: counts what is dropped.
    """
    most = max(3, -(-3 * n // max(1, documents)))
    firsts = FirstPlaces(evidence.passages)
    hard: list[int] = []
    easy: list[int] = []
    for number in _usable(candidates, near, evidence, most, tally):
        places = evidence.places(candidates[number])
        assert not isinstance(places, str)  # noqa: S101 -- those are not usable
        (easy if firsts.any_finds(candidates[number], places) else hard).append(number)
        if len(hard) >= n:
            break
    kept = _mixed(hard, easy, n)
    for number in easy:
        if number not in kept:
            tally.drop(Drop(candidates[number].kind, "search by words finds it at once"))
    return [candidates[number] for number in sorted(kept)]


def _mixed(hard: Sequence[int], easy: Sequence[int], n: int) -> set[int]:
    """Return the first of both, so that the easy ones are EASY of all, or FEW questions come together."""
    allowed = round(len(hard) * EASY / (1 - EASY))
    n_easy = min(len(easy), round(n * EASY), max(allowed, FEW - len(hard)))
    n_easy = max(n_easy, min(len(easy), n, FEW) - len(hard))
    return {*easy[: max(0, n_easy)], *hard[: n - max(0, n_easy)]}


def _usable(
    candidates: Sequence[QuestionCandidate], near: Near, evidence: EvidenceIndex, most: int, tally: Tally
) -> Iterator[int]:
    """Yield the numbers of candidates that have their evidence and repeat none before them."""
    kept = NearDuplicates(near.chance)
    of_document: Counter[str] = Counter()
    for number, one in enumerate(candidates):
        places = evidence.places(one)
        if isinstance(places, str):
            tally.drop(Drop(one.kind, places))
        elif of_document[one.evidence[0].doc_id] >= most:
            tally.drop(Drop(one.kind, f"its document has {most} questions already"))
        elif kept.like(one.question, near.vectors[number]):
            tally.drop(Drop(one.kind, "repeats another question"))
        else:
            kept.keep(one.question, near.vectors[number])
            of_document[one.evidence[0].doc_id] += 1
            yield number


def by_kind(questions: Sequence[QuestionCandidate]) -> Mapping[str, int]:
    """Return how many questions there are of each kind."""
    return Counter(one.kind for one in questions)
