"""Questions whose evidence a search by words has on the first place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rag_assay.assets.indexing.lexical import lexical_of
from rag_assay.evals.question_generation.candidate import QuestionCandidate
from rag_assay.evals.question_generation.text_rules import LISTS
from rag_assay.evals.retrieval.analyzer import Analyzer, Tokenizer, merge_forms, question_tokens
from rag_assay.evals.retrieval.bm25_scores import Bm25Scores, Parameters

TOKENIZERS: tuple[Tokenizer, ...] = ("plain", "stemmed", "lemmatised")
PARAMETERS = Parameters("okapi", 1.5, 0.75, 0.25, 0.0)
WORDS = 100  # of a passage
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
    """Tells whether any BM25 has a question's evidence on its first place.

    The words are told apart in three ways (plain, stemmed, lemmatised), and those of the document's title are
    counted with each passage, or are not: six searches.

    Args:
        passages: of the corpus, or of a part of it with the evidence of all questions.
    """

    def __init__(self, passages: Sequence[TextPassage]) -> None:
        self._places = [passage.place for passage in passages]
        self._plain = (
            lexical_of(passage.text for passage in passages),
            lexical_of(f"{passage.title} {passage.text}" for passage in passages),
        )
        self._models: dict[tuple[Analyzer, int], Bm25Scores] = {}

    def any_finds(self, question: QuestionCandidate, evidence: Sequence[Place]) -> bool:
        """Return whether one of the searches has a passage with evidence before all others."""
        ways = [Analyzer(tokenizer, LISTS[question.language], False) for tokenizer in TOKENIZERS]
        return any(self._finds(question, way, titled, evidence) for way in ways for titled in (0, 1))

    def _finds(
        self, question: QuestionCandidate, way: Analyzer, titled: int, evidence: Sequence[Place]
    ) -> bool:
        model = self._model(way, titled)
        words = way.counted(question_tokens(question.question))
        rows, scores = model.score(dict.fromkeys(words, 1.0))
        return len(rows) > 0 and touches(self._places[int(rows[int(np.argmax(scores))])], evidence)

    def _model(self, way: Analyzer, titled: int) -> Bm25Scores:
        if (way, titled) not in self._models:
            self._models[way, titled] = Bm25Scores.of(merge_forms(self._plain[titled], way), PARAMETERS)
        return self._models[way, titled]


def touches(place: Place, others: Iterable[Place]) -> bool:
    """Return whether a stretch shares a character with one of others.

    >>> touches(("a", 0, 10), [("a", 9, 20)]), touches(("a", 0, 10), [("a", 10, 20), ("b", 0, 5)])
    (True, False)
    """
    document, start, end = place
    return any(document == doc and start < last and first < end for doc, first, last in others)


def passages_in(doc_id: str, title: str, text: str, words: int = WORDS) -> list[TextPassage]:
    """Cut a text into passages of so many words, none shared.

    >>> [passage.text for passage in passages_in("a", "", "one two three four five", words=2)]
    ['one two', 'three four', 'five']
    """
    spans = [found.span() for found in _WORD.finditer(text)]
    ends = [
        (part[0][0], part[-1][1]) for at in range(0, len(spans), words) if (part := spans[at : at + words])
    ]
    return [TextPassage((doc_id, start, end), title, text[start:end]) for start, end in ends]
