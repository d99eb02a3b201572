"""Makes questions from the documents of a corpus, without a model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rag_assay.assets.indexing.lexical import lexical_of
from rag_assay.evals.question_generation.kinds import KINDS, Sample, Texts, draw_candidates
from rag_assay.evals.question_generation.texts import LISTS, Drop, QuestionCandidate, Quote, Tally
from rag_assay.evals.question_sets.alignment import places_of
from rag_assay.evals.retrieval.analyzer import Analyzer, Tokenizer, merge_forms, question_tokens
from rag_assay.evals.retrieval.question_words import content_forms
from rag_assay.evals.retrieval.terms import Bm25Scores, Parameters
from rag_assay.warehouse.paths import Home

Matrix: TypeAlias = "npt.NDArray[np.float32]"
NEAR = 0.9  # cosine from which on two questions ask the same
SAME_WORDS = 0.8  # share of the words that two questions have in common, from which on they ask the same
CROWDED = 0.5  # mean cosine of unrelated texts from which on a model's cosines are put in relation to it
UNRELATED = (
    "How is bread baked?",
    "The parliament of the island in the seventeenth century",
    "Wann fährt der letzte Bus?",
    "A cure for diseases of apple trees",
    "Neue Schuhe für den Torwart",
    "Error handling in network protocols",
    "Die Bildung von Wolken",
    "Who sold the painting?",
)
"""Texts that have nothing to do with each other."""


def chance_cosine(vectors: Matrix) -> float:
    """Return the mean cosine of UNRELATED texts where that is high (e5: 0.8), else 0."""
    if len(vectors) < 2:
        return 0.0
    cosines = vectors @ vectors.T
    mean = float(cosines[np.triu_indices(len(vectors), 1)].mean())
    return min(mean, 0.99) if mean > CROWDED else 0.0


def beyond_chance(cosines: Matrix, chance: float) -> Matrix:
    """Return cosines on a scale where unrelated texts have 0 and equal ones 1, as Cohen's kappa does.

    >>> beyond_chance(np.array([0.8, 0.9, 1.0], np.float32), 0.8).round(2).tolist()
    [0.0, 0.5, 1.0]
    """
    return np.asarray((cosines - chance) / (1 - chance), np.float32)


class NearDuplicates:
    """Questions that were kept; says of another one which of them it repeats.

    >>> kept = NearDuplicates()
    >>> kept.keep("When does the ferry leave the harbour?", np.array([1, 0], np.float32))
    >>> kept.like("When did the ferry leave the harbour", np.array([0, 1], np.float32))
    'When does the ferry leave the harbour?'
    >>> kept.like("Who is the mayor?", np.array([0, 1], np.float32)) is None
    True
    """

    def __init__(self, chance: float = 0.0) -> None:
        self._chance = chance
        self._kept: list[tuple[str, frozenset[str]]] = []
        self._vectors: list[Matrix] = []

    def like(self, question: str, vector: Matrix) -> str | None:
        """Return the kept question that this one repeats, the nearest one; None where it repeats none."""
        if not self._kept:
            return None
        own = content_forms(question)
        cosines = beyond_chance(np.stack(self._vectors) @ vector, self._chance)
        shared = [_jaccard(own, other) for _, other in self._kept]
        near = [at for at in range(len(self._kept)) if cosines[at] >= NEAR or shared[at] >= SAME_WORDS]
        nearest = max(near, key=lambda at: max(float(cosines[at]), shared[at]), default=None)
        return None if nearest is None else self._kept[nearest][0]

    def keep(self, question: str, vector: Matrix) -> None:
        self._kept.append((question, content_forms(question)))
        self._vectors.append(vector)


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    union = len(one | other)
    return len(one & other) / union if union else 0.0


TOKENIZERS: tuple[Tokenizer, ...] = ("plain", "stemmed", "lemmatised")
PARAMETERS = Parameters("okapi", 1.5, 0.75, 0.25, 0.0)
WORDS = 100  # of a passage
BLOCK = 128  # questions that are embedded together
_WORD = re.compile(r"\S+")

Place = tuple[str, int, int]
"""Document, first character and the one after the last."""


@dataclass(frozen=True)
class TextPassage:
    """A stretch of a document as a search finds it."""

    place: Place
    title: str
    text: str


class FirstPlaces:
    """Tells whether any BM25 (plain, stemmed, lemmatised, with and without title) ranks evidence first."""

    def __init__(self, passages: Sequence[TextPassage]) -> None:
        self._places = [passage.place for passage in passages]
        self._plain = (
            lexical_of(passage.text for passage in passages),
            lexical_of(f"{passage.title} {passage.text}" for passage in passages),
        )
        self._models: dict[tuple[Analyzer, int], Bm25Scores] = {}

    def any_finds(self, question: QuestionCandidate, evidence: Sequence[Place]) -> bool:
        ways = [Analyzer(tokenizer, LISTS[question.language], False) for tokenizer in TOKENIZERS]
        return any(self._finds(question, way, titled, evidence) for way in ways for titled in (0, 1))

    def _finds(
        self, question: QuestionCandidate, way: Analyzer, titled: int, evidence: Sequence[Place]
    ) -> bool:
        if (way, titled) not in self._models:
            self._models[way, titled] = Bm25Scores.of(merge_forms(self._plain[titled], way), PARAMETERS)
        model = self._models[way, titled]
        words = way.counted(question_tokens(question.question))
        return any(
            touches(self._places[row], evidence) for row in model.best(dict.fromkeys(words, 1.0), 1).rows
        )


def touches(place: Place, others: Iterable[Place]) -> bool:
    document, start, end = place
    return any(document == doc and start < last and first < end for doc, first, last in others)


def passages_in(doc_id: str, title: str, text: str, words: int = WORDS) -> list[TextPassage]:
    spans = [found.span() for found in _WORD.finditer(text)]
    ends = [
        (part[0][0], part[-1][1]) for at in range(0, len(spans), words) if (part := spans[at : at + words])
    ]
    return [TextPassage((doc_id, start, end), title, text[start:end]) for start, end in ends]


EASY = 1 / 3
"""Share of a set that a search by words may find at once: about that of sets that people have written."""
FEW = 20  # questions: a corpus that gives no more keeps easy ones too, for a set of none says nothing
# Passages that questions are tried on; of a larger corpus, those of a sample of its documents
CORPUS = 20_000
AGAIN = "the evidence stands more than once in its document"
LOST = "the evidence is not found in its document"


class Near:
    """How like each other questions are; chance: `chance_cosine`."""

    def __init__(
        self, questions: Sequence[str], embed: Callable[[Sequence[str]], Matrix], chance: float = 0.0
    ) -> None:
        self.chance = chance
        self._questions, self._embed = questions, embed
        self._blocks: dict[int, Matrix] = {}

    def vector(self, number: int) -> Matrix:
        block, row = divmod(number, BLOCK)
        if block not in self._blocks:
            self._blocks[block] = self._embed(self._questions[block * BLOCK : (block + 1) * BLOCK])
        return self._blocks[block][row]


def in_turn(kinds: Iterable[Sequence[QuestionCandidate]]) -> list[QuestionCandidate]:
    return [one for one in chain.from_iterable(zip_longest(*kinds)) if one is not None]


class EvidenceIndex:
    """Where the evidence of candidates stands, and the passages that search tells it from."""

    def __init__(self, candidates: Sequence[QuestionCandidate], texts: Texts, seed: int) -> None:
        wanted = _by_document(candidates)
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
        found = [self._places.get(quote, LOST) for quote in candidate.evidence]
        reason = next((one for one in found if isinstance(one, str)), None)
        return reason or [one for one in found if not isinstance(one, str)]


def _by_document(candidates: Sequence[QuestionCandidate]) -> dict[str, set[Quote]]:
    wanted: dict[str, set[Quote]] = {}
    for quote in chain.from_iterable(one.evidence for one in candidates):
        wanted.setdefault(quote.doc_id, set()).add(quote)
    return wanted


def _place(quote: Quote, text: str) -> Place | str:
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
    wanted = _by_document(questions)
    reasons = {
        quote: _why_not(text.text, quote.quote) for text in texts() for quote in wanted.get(text.doc_id, ())
    }
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
    allowed = round(len(hard) * EASY / (1 - EASY))
    n_easy = min(len(easy), round(n * EASY), max(allowed, FEW - len(hard)))
    n_easy = max(n_easy, min(len(easy), n, FEW) - len(hard))
    kept = {*easy[: max(0, n_easy)], *hard[: n - max(0, n_easy)]}
    for number in easy:
        if number not in kept:
            tally.drop(Drop(candidates[number].kind, "search by words finds it at once"))
    return [candidates[number] for number in sorted(kept)]


def _usable(
    candidates: Sequence[QuestionCandidate], near: Near, evidence: EvidenceIndex, most: int, tally: Tally
) -> Iterator[int]:
    kept = NearDuplicates(near.chance)
    of_document: Counter[str] = Counter()
    for number, one in enumerate(candidates):
        places = evidence.places(one)
        if isinstance(places, str):
            tally.drop(Drop(one.kind, places))
        elif of_document[one.evidence[0].doc_id] >= most:
            tally.drop(Drop(one.kind, f"its document has {most} questions already"))
        elif kept.like(one.question, near.vector(number)):
            tally.drop(Drop(one.kind, "repeats another question"))
        else:
            kept.keep(one.question, near.vector(number))
            of_document[one.evidence[0].doc_id] += 1
            yield number


def by_kind(questions: Sequence[QuestionCandidate]) -> Mapping[str, int]:
    return Counter(one.kind for one in questions)


ALIKE = 0.8  # cosine above which titles form a group
MOST = 10  # documents of a group; of more, the titles tell none apart


def group_titles(
    titles: Sequence[QuestionCandidate], vectors: Matrix, tally: Tally, chance: float = 0.0
) -> Iterator[QuestionCandidate]:
    """Yield the first title of each group (cosine above ALIKE), with the evidence of the whole group."""
    free = np.ones(len(titles), np.bool_)
    for number, title in enumerate(titles):
        if not free[number]:
            continue
        near = beyond_chance(vectors @ vectors[number], chance) > ALIKE
        near[number] = True
        group = [titles[at] for at in np.flatnonzero(near & free).tolist()]
        free &= ~near
        joined = title.with_evidence_of(group)
        if len(group) > 1:
            tally.drop(Drop("title", "in a group with another title"), len(group) - 1)
        if len({quote.doc_id for quote in joined.evidence}) > MOST:
            tally.drop(Drop("title", f"more than {MOST} documents have one like it"))
        else:
            yield joined


POOL = 5  # candidates that are drawn of a kind, for each question that is wanted
DEFAULT = ("titles", "headings", "definitions", "dates")


@dataclass(frozen=True)
class GenerationPlan:
    """Kinds, number and seed of generated questions.
    Left out, and counted: empty titles and headings ("Introduction", "Article 1"), the same words in more
    than three documents, more than ten documents with a similar title, evidence that occurs twice in its
    document, duplicates (cosine 0.9, or four of five words), more than three times a document's share, and
    most questions that word search ranks first. Six BM25 variants (plain, stemmed, lemmatised; with and
    without the title) try each question on passages of a hundred words; at most a third of the set may be
    that easy, about the share of human-written questions. A corpus that gives fewer than twenty questions
    keeps easy ones. Above 20,000 passages, questions are tried on a sample, and 10,000 titles are compared.
    """

    kinds: tuple[str, ...] = DEFAULT
    n: int = 100
    seed: int = 7


@dataclass(frozen=True)
class GeneratedQuestions:
    """Questions, and what was none."""

    questions: list[QuestionCandidate]
    tally: Tally
    documents: int


def made(
    texts: Texts, plan: GenerationPlan, embed: Callable[[Sequence[str]], Matrix], home: Home | None = None
) -> GeneratedQuestions:
    tally = Tally()
    size = max(200, POOL * plan.n)
    kinds = draw_candidates(
        texts, [kind for kind in KINDS if kind in plan.kinds], size, plan.seed, tally, home
    )
    chance = chance_cosine(embed(UNRELATED))
    if titles := kinds.get("titles"):
        kinds["titles"] = list(group_titles(titles, embed([one.question for one in titles]), tally, chance))
    candidates = in_turn([one[:size] for one in kinds.values()])
    documents = sum(1 for _ in texts())
    if not candidates:
        return GeneratedQuestions([], tally, documents)
    near = Near([one.question for one in candidates], embed, chance)
    evidence = EvidenceIndex(candidates, texts, plan.seed)
    questions = chosen(candidates, near, evidence, plan.n, documents, tally)
    return GeneratedQuestions(verify_questions(questions, texts, tally), tally, documents)
