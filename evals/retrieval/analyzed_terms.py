"""The words of an index as an analyzer counts them: in memory where they are few, else in files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from rag_assay.assets.indexing.lexical import RANGE, Lexical, PostingsWriter, open_lexical, ranges
from rag_assay.evals.retrieval.analyzer import Analyzer, merge_forms, merged, with_titles

HELD = 8_000_000
"""Postings that are put together in memory: some 500 MB on the way."""

Places = npt.NDArray[np.int64]


def count_forms(
    texts: Lexical, titles: Lexical | None, times: int, analyzer: Analyzer, held: int = HELD
) -> Lexical:
    """Return the postings of the forms of words; those of titles are counted ``times`` times.

    Where there are more than ``held`` postings, they are merged a range of forms after another into files
    that are memory-mapped, and go when nobody looks at them any longer.
    """
    if titles is None and analyzer.as_they_stand:
        return texts
    if len(texts.rows) + (0 if titles is None else len(titles.rows)) <= held:
        return merge_forms(texts if titles is None else with_titles(texts, titles, times), analyzer)
    parts = [
        _part(lexical, analyzer, n) for lexical, n in ((texts, 1), (titles, times)) if lexical is not None
    ]
    with TemporaryDirectory(prefix="assay-words-") as folder:
        _write(parts, Path(folder))
        return open_lexical(Path(folder))  # what is mapped outlives its name


class _Part(NamedTuple):
    """Postings of some texts, and the form of each word; None: it is not counted."""

    lexical: Lexical
    forms: list[str | None]
    times: int


def _part(lexical: Lexical, analyzer: Analyzer, times: int) -> _Part:
    return _Part(lexical, analyzer.forms(lexical.words), times)


def _write(parts: Sequence[_Part], folder: Path) -> None:
    words = sorted({form for part in parts for form in part.forms if form is not None})
    numbers = {word: number for number, word in enumerate(words)}
    taken = [_Ordered.of(part, numbers) for part in parts]
    chunks = len(parts[0].lexical.lengths)
    sizes = np.sum([one.sizes(len(words)) for one in taken], axis=0)
    lengths = np.zeros(chunks, np.int32)
    with PostingsWriter(folder) as writer:
        for first, last in ranges(sizes, RANGE):
            found = [one.postings(first, last) for one in taken]
            owner, rows, counts = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
            some = merged(words[first:last], owner, rows, counts, chunks)
            writer.add(np.diff(some.begins), some.rows, some.counts)
            lengths += some.lengths
        writer.finish(pl.Series(words, dtype=pl.String), lengths)


class _Ordered(NamedTuple):
    """The words of a part that are counted, in the order of their forms.

    words: numbers of words, shape (n,)
    forms: numbers of their forms, rising, shape (n,)
    """

    part: _Part
    words: Places
    forms: Places

    @classmethod
    def of(cls, part: _Part, numbers: dict[str, int]) -> _Ordered:
        forms = np.array([-1 if form is None else numbers[form] for form in part.forms], np.int64)
        words = np.argsort(forms, kind="stable")
        words = words[forms[words] >= 0]
        return cls(part, words, forms[words])

    def sizes(self, forms: int) -> Places:
        """Return how many postings the words of each form have."""
        begins = self.part.lexical.begins
        found = np.zeros(forms, np.int64)
        np.add.at(found, self.forms, begins[self.words + 1] - begins[self.words])
        return found

    def postings(self, first: int, last: int) -> tuple[Places, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Return the forms (counted from ``first``), rows and counts of the postings of a range of forms."""
        lexical, times = self.part.lexical, self.part.times
        low, high = np.searchsorted(self.forms, [first, last])
        words = self.words[low:high]
        begins = np.asarray(lexical.begins[words])
        sizes = lexical.begins[words + 1] - begins
        before = np.cumsum(sizes) - sizes
        at = np.repeat(begins - before, sizes) + np.arange(int(sizes.sum()))
        owner = np.repeat(self.forms[low:high] - first, sizes)
        found = owner, lexical.rows[at], times * lexical.counts[at]
        lexical.let_go()
        return found
