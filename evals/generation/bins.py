"""Cuts a context that is too long for one prompt into bins: contiguous sentences, in the order of documents.

The passages of a document are put together by their offsets, so that what two of them share is read once and
a sentence that a chunk's end has cut is whole again. Documents come in the order of their first passage.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from typing import NamedTuple

from rag_assay.assets.chunking.sentence_splitter import sentence_places
from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.generation.token_sizes import Count

_WORDS = re.compile(r".*\s", re.DOTALL)  # up to the last white space


class Sentence(NamedTuple):
    """A sentence of the context, with the white space behind it.

    place: of the passage that holds most of it, among those of the request, from 0
    start, end: characters of its document
    """

    place: int
    start: int
    end: int
    text: str


def context_sentences(passages: Sequence[Passage]) -> list[Sentence]:
    """Return the sentences of passages, each once, in the order of the documents.

    What lies between two passages is not there, so a sentence ends with a passage that no other continues. A
    passage without a document, or whose text is not as long as its offsets say, stands for itself.

    >>> first, second = "It leaves at noon. It calls", "It calls at the island. Then"
    >>> found = context_sentences([Passage(second, document="a", start=19, end=47),
    ...                            Passage(first, document="a", start=0, end=27)])
    >>> [(one.place, one.text) for one in found]
    [(1, 'It leaves at noon. '), (0, 'It calls at the island. '), (0, 'Then')]
    """
    documents: dict[object, list[int]] = {}
    for place, passage in enumerate(passages):
        documents.setdefault(passage.document if is_placed(passage) else place, []).append(place)
    return [
        sentence
        for places in documents.values()
        for stretch in _stretches(passages, places)
        for sentence in _sentences(stretch, passages)
    ]


def is_placed(passage: Passage) -> bool:
    """Return whether it is known where in which document a passage stands."""
    return bool(passage.document) and passage.end - passage.start == len(passage.text)


@dataclass(frozen=True)
class _Stretch:
    """Text of a document that some passages hold without a gap.

    places: of the passages, by where they begin
    """

    start: int
    text: str
    places: tuple[int, ...]

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def _stretches(passages: Sequence[Passage], places: Sequence[int]) -> Iterator[_Stretch]:
    """Put passages of one document together by their offsets.

    Between neighbouring chunks one blank may lie that belongs to neither.
    """
    ordered = sorted(places, key=lambda place: (passages[place].start, place))
    current: _Stretch | None = None
    for place in ordered:
        passage = passages[place]
        if current is not None and passage.start <= current.end + 1:
            blank = " " * (passage.start - current.end)
            rest = passage.text[max(0, current.end - passage.start) :]
            current = _Stretch(current.start, current.text + blank + rest, (*current.places, place))
            continue
        if current is not None:
            yield current
        current = _Stretch(passage.start, passage.text, (place,))
    if current is not None:
        yield current


def _sentences(stretch: _Stretch, passages: Sequence[Passage]) -> Iterator[Sentence]:
    """Yield the sentences of a stretch: joined, they are its text; of white space alone there is none."""
    found = sentence_places(stretch.text)
    starts = [0, *(start for start, _ in found[1:])]
    for start, end in zip(starts, [*starts[1:], len(stretch.text)], strict=True) if found else ():
        begin, stop = stretch.start + start, stretch.start + end
        place = _holder(begin, stop, stretch, passages)
        yield Sentence(place, begin, stop, stretch.text[start:end])


def _holder(start: int, end: int, stretch: _Stretch, passages: Sequence[Passage]) -> int:
    """Return the passage that holds most of a sentence; of equals, the one that was ranked first."""
    if len(stretch.places) == 1:
        return stretch.places[0]

    def held(place: int) -> int:
        return min(end, passages[place].end) - max(start, passages[place].start)

    return max(stretch.places, key=lambda place: (held(place), -place))


def bins(passages: Sequence[Passage], limit: int, count: Count, frames: Sequence[int]) -> list[list[Passage]]:
    """Return the fewest bins of at most ``limit`` tokens that hold all sentences, about equally full.

    A bin is made of pieces of passages, each with the text and offsets of its sentences alone, and with the
    number by which the whole passage is cited: its place in the request.

    A sentence is whole unless it is longer than a bin alone: then it is cut between words, or within one that
    is longer still.

    count: tokens of texts; those of a bin are counted as the sum of its sentences'
    frames: tokens of what a prompt puts around each passage
    """
    sentences = context_sentences(passages)
    whole = count([sentence.text for sentence in sentences])
    fitted: list[Sentence] = []
    tokens: list[int] = []
    for sentence, n_tokens in zip(sentences, whole, strict=True):
        room = max(1, limit - frames[sentence.place])
        parts = [sentence] if n_tokens <= room else list(_cut(sentence, room, count))
        fitted += parts
        tokens += [n_tokens] if len(parts) == 1 else count([part.text for part in parts])
    leads = [frames[one.place] for one in fitted]
    return [
        [_piece(list(run), passages) for _, run in groupby(fitted[first:after], lambda one: one.place)]
        for first, after in balance_bins(tokens, leads, [one.place for one in fitted], limit)
    ]


def _piece(run: Sequence[Sentence], passages: Sequence[Passage]) -> Passage:
    place = run[0].place
    piece = replace(passages[place], text="".join(one.text for one in run), number=place + 1)
    if not is_placed(passages[place]):
        return piece
    return replace(piece, start=run[0].start, end=run[-1].end)


def _cut(sentence: Sentence, room: int, count: Count) -> Iterator[Sentence]:
    """Cut a sentence into parts of at most ``room`` tokens, of at least one character each."""
    rest = sentence
    while rest.text:
        size = _longest_beginning(rest.text, room, count)
        if size < len(rest.text):
            words = _WORDS.match(rest.text, 0, size)
            size = words.end() if words else size
        yield Sentence(rest.place, rest.start, rest.start + size, rest.text[:size])
        rest = Sentence(rest.place, rest.start + size, rest.end, rest.text[size:])


def _longest_beginning(text: str, room: int, count: Count) -> int:
    """Return how many characters of a text have at most ``room`` tokens; at least 1."""
    size = min(len(text), 4 * room)
    while size < len(text) and count([text[:size]])[0] <= room:
        size = min(len(text), 2 * size)
    low, high = 1, size
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count([text[:middle]])[0] <= room else (low, middle - 1)
    return low


def balance_bins(
    tokens: Sequence[int], leads: Sequence[int], places: Sequence[int], limit: int
) -> list[tuple[int, int]]:
    """Return (first, after) of as few bins as can be, each as near as can be to the mean of those to come.

    tokens: of each sentence
    leads: tokens of the frame of its passage, which stands anew wherever a bin or another passage begins
    places: its passage
    limit: tokens of a bin; only a sentence that is longer than that alone passes it

    >>> balance_bins([5, 5, 5, 5, 1], [0] * 5, [0] * 5, limit=15)
    [(0, 2), (2, 5)]
    """
    n = len(tokens)
    opens = [at == 0 or places[at] != places[at - 1] for at in range(n)]
    sums = [
        0,
        *accumulate(one + lead * opened for one, lead, opened in zip(tokens, leads, opens, strict=True)),
    ]
    # What a bin costs that begins at a sentence: sums[after] - base[first].
    base = [sums[at] - (0 if opens[at] else leads[at]) for at in range(n)]
    furthest = [max(at + 1, bisect_right(sums, base[at] + limit) - 1) for at in range(n)]
    needed = [0] * (n + 1)  # bins that the sentences from here on take at least
    for at in reversed(range(n)):
        needed[at] = 1 + needed[furthest[at]]
    found: list[tuple[int, int]] = []
    at = 0
    while at < n:
        left = needed[at]
        goal = base[at] + (sums[n] - base[at]) / left
        possible = [after for after in range(at + 1, furthest[at] + 1) if needed[after] <= left - 1]
        after = min(possible, key=lambda place: (abs(sums[place] - goal), place))
        found.append((at, after))
        at = after
    return found
