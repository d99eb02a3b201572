"""Makes the record of a turn, which every surface shows or sends, of what a cell made of a question."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from rag_assay.assets.chunking.sentence_splitter import sentence_places
from rag_assay.evals.chat.open_questions import DECLINED, LONGEST_PARTIAL
from rag_assay.evals.generation.citations import claims, public_url, without_markers
from rag_assay.evals.generation.contract import Answer, Citation, Passage
from rag_assay.evals.pipeline.pipeline import PipelineResult
from rag_assay.evals.question_sets.no_answer_sentence import unanswered
from rag_assay.evals.retrieval.question_words import stop_words
from rag_assay.warehouse.conversations import ShownPassage, StoredCitation, StoredInterpretation, Turn
from rag_assay.warehouse.inference.redaction import one_line
from rag_assay.warehouse.status import Status

LIKE = 0.3  # share of a claim's words, each by its rarity, from which on a sentence holds it
AS_GOOD = 0.8  # share of the best sentence's likeness from which on another one is marked, too
MOST_READ = 20_000  # characters of a passage
_WORD = re.compile(r"\w+")
_STEM = 6  # letters, as of `evals.generation.quotation`
SentencePlaces = tuple[tuple[int, int], ...]


def find_supporting(answer: str, sentences: Sequence[int | None], passage: str) -> SentencePlaces:
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


def _apart(places: Sequence[tuple[int, int]]) -> SentencePlaces:
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


_SAME = ("model", "confidence", "turns_left_out", "prompt_tokens", "completion_tokens", "usd", "cached")


class ChunkPlace(NamedTuple):
    """Where a chunk stands in its document.

    page: of a file with pages, from 1
    """

    section: tuple[str, ...] = ()
    page: int | None = None


Places = Mapping[str, ChunkPlace]
"""Chunk id -> where it stands."""


def complete_turn(turn: Turn, result: PipelineResult, places: Places) -> Turn:
    """Return a turn with what a cell made of its question; `turn` says what was asked."""
    found, answer = result.found, result.answer
    spent = found.spent.seconds if found.spent else None
    said = {"understood": understood_of(result), "search_seconds": spent}
    if found.status is not Status.OK:
        reason = one_line(found.reason or "the search failed")
        return turn.model_copy(update={**said, "status": Status.ERROR, "reason": reason})
    if answer is None:
        answer = Answer(
            Status.OK, "this cell has no generator: it finds passages, and answers nothing", confidence=None
        )
    failed = answer.status not in DECLINED | {Status.OK, Status.TRUNCATED}
    text = answer.text or (unanswered(turn.language) if answer.status in DECLINED else None)
    return turn.model_copy(
        update={
            **said,
            "status": answer.status,
            "reason": one_line(answer.reason) if answer.reason else None,
            "answer": text,
            "declined": result.declined,
            "partial": (answer.raw or "")[:LONGEST_PARTIAL] or None if failed and text is None else None,
            **{name: getattr(answer, name) for name in _SAME},
            "citations": tuple(_citation(one) for one in answer.citations),
            "chunk_ids": tuple(one.chunk for one in read_passages(result, answer)),
            "passages": shown_passages(result, answer, places, turn.language),
            "answer_seconds": None if failed else answer.seconds,
        }
    )


def understood_of(result: PipelineResult) -> tuple[StoredInterpretation, ...]:
    return tuple(
        StoredInterpretation(
            kind=one.step,
            type=one.kind,
            text=one.text,
            value=one.value,
            status=one.status,
            removed=one.status == "removed",
            removable=one.is_removable,
        )
        for one in result.understood
    )


def _citation(one: Citation) -> StoredCitation:
    return StoredCitation(
        marker=one.marker,
        sentence=one.sentence,
        chunk_id=one.chunk,
        doc_id=one.document,
        start=one.start,
        end=one.end,
    )


def read_passages(result: PipelineResult, answer: Answer) -> tuple[Passage, ...]:
    """Return the passages that the generator was given; of a cell without a generator all that was found."""
    if answer.passages is not None:
        return answer.passages
    return result.passages[: result.read] if result.answer is not None else result.passages


def shown_passages(
    result: PipelineResult, answer: Answer, places: Places, language: str | None
) -> tuple[ShownPassage, ...]:
    """Return the passages that the generator read, by the numbers that its markers have."""
    cited: dict[str, list[int | None]] = defaultdict(list)
    for one in answer.citations:
        if one.chunk is not None:
            cited[one.chunk].append(one.sentence)
    kept = {one.chunk: one.kept for one in answer.cuts}
    return tuple(
        _shown(passage, passage.number or at, cited.get(passage.chunk), answer.text or "", places, language)
        for at, passage in enumerate((_as_read(one, kept) for one in read_passages(result, answer)), 1)
        if passage.text
    )


def _as_read(passage: Passage, kept: Mapping[str, int]) -> Passage:
    """Return a passage as the generator was given it: cut, or empty, where there was no room."""
    text = passage.text[: kept.get(passage.chunk, len(passage.text))].rstrip()
    return passage if len(text) == len(passage.text.rstrip()) else replace(passage, text=text)


def _shown(
    passage: Passage,
    number: int,
    sentences: list[int | None] | None,
    answer: str,
    places: Places,
    language: str | None,
) -> ShownPassage:
    place = places.get(passage.chunk, ChunkPlace())
    return ShownPassage(
        number=number,
        chunk_id=passage.chunk,
        doc_id=passage.document,
        text=passage.text,
        title=passage.title,
        url=public_url(passage.url, language),
        date=passage.date,
        section=passage.section or place.section,
        page=place.page,
        start=passage.start,
        end=passage.end,
        score=passage.score,
        cited=sentences is not None,
        evidence=find_supporting(answer, sentences, passage.text) if sentences else (),
    )
