"""Texts in pieces: an answer around its citations, a passage around the evidence in it.

A piece is `{"t": text}`, with `"m": True` where it is evidence, and of a citation with `"c"`, the number of
the passage, and `"v"`, whether there is such a one. The page makes nodes of texts of them: nothing is markup.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

from rag_assay.evals.generation.citations import read_markers
from rag_assay.evals.reporting.display import plain
from rag_assay.warehouse.identity import Json

CITED = 100_000  # characters of an answer in which citations are looked for


def cited_pieces(answer: str, passages: Sequence[str], numbers: Collection[int]) -> list[Json]:
    """Return an answer in pieces, its markers by themselves, each number of a bracket too.

    passages: texts that the answer may have copied brackets from
    numbers: of the passages that there are

    >>> cited_pieces("It stays.[1, 7]", ["It stays in port."], [1])
    [{'t': 'It stays.'}, {'t': '[1]', 'c': 1, 'v': True}, {'t': '[7]', 'c': 7, 'v': False}]
    """
    pieces: list[Json] = []
    at = 0
    for number, start, end in _markers(answer[:CITED], tuple(passages)):
        pieces += _text(answer[at:start])
        pieces.append({"t": f"[{number}]", "c": number, "v": number in numbers})
        at = max(at, end)
    return [*pieces, *_text(answer[at:])]


def marked_pieces(passage: str, spans: Iterable[tuple[int, int]]) -> list[Json]:
    """Return a passage in pieces, those at the spans marked.

    spans: (start, end) in characters, in order and apart

    >>> marked_pieces("It costs twelve pounds.", [(9, 22)])
    [{'t': 'It costs '}, {'t': 'twelve pounds', 'm': True}, {'t': '.'}]
    """
    pieces: list[Json] = []
    at = 0
    for start, end in spans:
        pieces += _text(passage[at:start])
        pieces.append({"t": plain(passage[start:end]), "m": True})
        at = end
    return [*pieces, *_text(passage[at:])]


def _text(text: str) -> list[Json]:
    return [{"t": plain(text)}] if text else []


@lru_cache(maxsize=64)
def _markers(answer: str, passages: tuple[str, ...]) -> list[tuple[int, int, int]]:
    return [(one.number, one.start, one.end) for one in read_markers(answer, passages)]
