"""Which questions are to be made from what: chunks sampled by a seed, in turn over the documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Literal

from rag_assay.evals.question_generation.llm.candidates import DocumentPiece, GenerationTask, Kind
from rag_assay.warehouse.identity import digest

LEAST_WORDS = 25  # of a piece: a shorter one is a heading or a caption, and tells too little


def stratify_pieces(pieces: Iterable[DocumentPiece], seed: int) -> list[DocumentPiece]:
    """Return pieces in the order in which questions are made from them: one of each document, then a second.

    Documents and the pieces of each come in the order of seeded digests, so that the first n are a sample and
    a document more in the corpus moves few of them. Pieces of few words, or of few letters, are left out.
    """
    by_document: dict[str, list[tuple[str, DocumentPiece]]] = {}
    for piece in pieces:
        if _tells_something(piece.text):
            drawn = digest([seed, piece.document.doc_id, piece.start])
            by_document.setdefault(piece.document.doc_id, []).append((drawn, piece))
    rounds = [
        (turn, digest([seed, doc_id]), piece)
        for doc_id, own in by_document.items()
        for turn, (_, piece) in enumerate(sorted(own, key=lambda one: one[0]))
    ]
    return [piece for _, _, piece in sorted(rounds, key=lambda one: one[:2])]


def _tells_something(text: str) -> bool:
    letters = sum(sign.isalpha() or sign.isspace() for sign in text)
    return len(text.split()) >= LEAST_WORDS and letters >= 0.7 * len(text)


def plan(
    pieces: Sequence[DocumentPiece],
    kinds: Sequence[Kind],
    n: int,
    partner: Callable[[DocumentPiece], DocumentPiece | None],
) -> list[GenerationTask]:
    """Return the tasks of n questions, the types in turn; those of a smaller n are its beginning.

    Args:
        pieces: as `stratify_pieces` orders them.
        kinds: each once; there are fewer tasks than n where each piece has been used for each of them.
        partner: a piece of another document that goes with one, for `multi_hop`.
    """
    found: list[GenerationTask] = []
    n_yes_no = count()
    for number in range(min(n, len(pieces) * len(kinds))):
        turn, place = divmod(number, len(pieces))
        piece, kind = pieces[place], kinds[(place + turn) % len(kinds)]
        wanted: Literal["yes", "no"] | None = None
        if kind == "yes_no":
            wanted = "no" if next(n_yes_no) % 2 else "yes"
        beside = partner(piece) if kind == "multi_hop" else None
        found.append(GenerationTask(number, kind, (piece, beside) if beside else (piece,), wanted))
    return found
