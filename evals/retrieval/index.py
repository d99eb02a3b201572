"""An opened index: its data is read, and derived data computed, at first use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, TypeVarTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from rag_assay.assets.indexing import index_table
from rag_assay.assets.indexing.index_recipe import IndexFacts, SearchParameters, read_facts
from rag_assay.assets.indexing.index_rows import QUESTIONS, moment
from rag_assay.assets.indexing.index_table import nearest
from rag_assay.assets.indexing.lexical import (
    RANGE,
    Lexical,
    PostingsWriter,
    open_lexical,
    ranges,
    release_pages,
)
from rag_assay.assets.indexing.row_files import ROWS, VECTORS
from rag_assay.assets.tokenization.stems import LANGUAGES, Language
from rag_assay.evals.retrieval.analyzer import Analyzer, merge_forms, merged, with_titles
from rag_assay.evals.retrieval.chunk_spans import ChunkSpans, MappedChunks, SortedKeyIndex
from rag_assay.evals.retrieval.terms import TermIndex
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.parquet import read_parquet

if TYPE_CHECKING:
    from lancedb.table import Table


MAPPED_ROWS = 65_536  # vectors that are mapped at once: 100 MB of 384 numbers

Vectors: TypeAlias = "npt.NDArray[np.float32]"


def read_vectors(path: Path, shape: tuple[int, int]) -> Vectors:
    """Memory-map the vectors of an index; raises CorruptFileError."""
    try:
        found: Vectors = np.load(path, mmap_mode="r", allow_pickle=False)
        if found.shape == shape and found.dtype == np.float32:
            return found
        reason = f"it holds {found.dtype} of shape {found.shape} instead of float32 of {shape}"
    except (OSError, ValueError, EOFError) as error:
        reason = str(error)
    raise CorruptFileError(
        f"{path}: the vectors of the index are damaged ({reason}). Delete the folder of the index; "
        "`assay run` makes it again."
    )


def products(vectors: Vectors, vector: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return the product of each row and a vector; pages of a mapped file are released as they are read."""
    found = np.empty(len(vectors), np.float64)
    for first in range(0, len(vectors), MAPPED_ROWS):
        # Not `@`: BLAS sums some rows in another order than others, so that equal vectors would not tie.
        block = vectors[first : first + MAPPED_ROWS]
        found[first : first + MAPPED_ROWS] = np.einsum("ij,j->i", block, vector)
        if len(vectors) > MAPPED_ROWS:
            release_pages(vectors)
    return found


def take_rows(vectors: Vectors, rows: npt.NDArray[np.int64]) -> Vectors:
    """Return the vectors of some rows, shape (rows, dimensions), and release the pages that were read."""
    found = vectors[rows]
    if len(vectors) > MAPPED_ROWS:
        release_pages(vectors)
    return found


HELD = 8_000_000
"""Postings that are put together in memory: some 500 MB on the way."""

Places: TypeAlias = "npt.NDArray[np.int64]"


def count_forms(
    texts: Lexical, titles: Lexical | None, times: int, analyzer: Analyzer, held: int = HELD
) -> Lexical:
    """Return postings; titles count ``times`` times, and more than ``held`` are merged into mapped files."""
    if titles is None and analyzer.as_they_stand:
        return texts
    if len(texts.rows) + (0 if titles is None else len(titles.rows)) <= held:
        return merge_forms(texts if titles is None else with_titles(texts, titles, times), analyzer)
    parts = [
        _Part(lexical, analyzer.forms(lexical.words), n)
        for lexical, n in ((texts, 1), (titles, times))
        if lexical is not None
    ]
    with TemporaryDirectory(prefix="assay-words-") as folder:
        _write(parts, Path(folder))
        return open_lexical(Path(folder))  # what is mapped outlives its name


class _Part(NamedTuple):
    """Postings of some texts, and the form of each word; None: it is not counted."""

    lexical: Lexical
    forms: list[str | None]
    times: int


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
    """The counted words of a part in the order of their forms: numbers of words and forms, shape (n,)."""

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
        lexical.release_pages()
        return found


Args = TypeVarTuple("Args")
Derived = TypeVar("Derived")
TEXTS = 20_000_000
"""Characters of documents' texts that an index holds at most; all are dropped when it is reached."""


class OpenIndex:
    """One index, sorted by chunk id; a position in it stands for a chunk. Parts are read when asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._terms: dict[tuple[Analyzer, int], TermIndex] = {}
        self._derived: dict[tuple[object, ...], Any] = {}
        self._columns: dict[str, pl.Series] = {}
        self._texts: dict[str, str] = {}
        self._held = 0  # characters of them

    @cached_property
    def facts(self) -> IndexFacts:
        return read_facts(self.folder)

    @cached_property
    def table(self) -> Table:
        return index_table.open_table(self.folder)

    @cached_property
    def chunks(self) -> pl.DataFrame:
        """The columns of `index_rows.COLUMNS`, and published_on (a date); sorted by chunk_id."""
        return pl.DataFrame([self.column(name) for name in self.stored.names])

    @cached_property
    def stored(self) -> MappedChunks:
        return MappedChunks(self.folder / ROWS, len(self))

    def column(self, name: str) -> pl.Series:
        if name not in self._columns:
            self._columns[name] = self.stored.column(name)
        return self._columns[name]

    @cached_property
    def vectors(self) -> npt.NDArray[np.float32]:
        """Unit vectors, shape (chunks, dimensions); memory-mapped."""
        shape = (len(self), self.facts.dimensions)
        return read_vectors(self.folder / ROWS / VECTORS, shape) if len(self) else np.empty(shape, np.float32)

    @cached_property
    def questions(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Positions of chunks that a model wrote questions for, and their vectors, shape (n, dimensions)."""
        path = self.folder / QUESTIONS
        if not path.exists():
            return np.zeros(0, np.int64), np.zeros((0, self.facts.dimensions), np.float32)
        found = read_parquet(path).filter(pl.col("chunk_id").is_in(self.ids.implode()))
        rows = np.array([self.positions[chunk_id] for chunk_id in found["chunk_id"]], np.int64)
        return rows, np.ascontiguousarray(found["vector"].to_numpy(), dtype=np.float32)

    def cosines(
        self, vector: npt.NDArray[np.float32], rows: npt.NDArray[np.int64] | None = None
    ) -> npt.NDArray[np.float64]:
        """Return the best cosine of each chunk, or a question of it, and a unit vector, shape (chunks,)."""
        scores = products(self.vectors if rows is None else take_rows(self.vectors, rows), vector)
        owners, others = self.questions
        if len(owners):
            best = np.full(len(self), -np.inf)
            np.maximum.at(best, owners, np.einsum("ij,j->i", others, vector).astype(np.float64))
            scores = np.maximum(scores, best if rows is None else best[rows])
        return scores

    @cached_property
    def published(self) -> npt.NDArray[np.datetime64]:
        """datetime64[s] without time zone, shape (chunks,); of a partial date the first day; NaT: unknown."""
        return np.array([moment(text) for text in self.column("published_at")], "datetime64[s]")

    @cached_property
    def moments(self) -> tuple[npt.NDArray[np.datetime64], npt.NDArray[np.int64]]:
        """The distinct values of `published`, rising and NaT last, and each chunk's place among them."""
        moments, places = np.unique(self.published, return_inverse=True)
        return moments, places

    @cached_property
    def days(self) -> pl.Series:
        """The day on which each chunk's document was published; NULL: not known."""
        return self.column("published_on").cast(pl.Date)

    @cached_property
    def lexical(self) -> Lexical:
        return open_lexical(self.folder / "lexical")

    def terms(self, analyzer: Analyzer, title: int = 0) -> TermIndex:
        """Return the words of every chunk as an analyzer counts them, computed once; ``title``: its weight"""
        key = (analyzer, title)
        if key not in self._terms:
            titles = open_lexical(self.folder / index_table.TITLES) if title else None
            self._terms[key] = TermIndex(count_forms(self.lexical, titles, title, analyzer))
        return self._terms[key]

    @cached_property
    def language(self) -> str | None:
        """Two-letter code of the language that most characters of the chunks are in; None: not known."""
        if not len(self):
            return None
        names = ("language", "start", "end")
        known = pl.DataFrame([self.column(name) for name in names]).drop_nulls("language")
        sums = known.group_by(pl.col("language").str.slice(0, 2).str.to_lowercase()).agg(
            size=(pl.col("end") - pl.col("start")).sum()
        )
        found = sums.sort("size", "language", descending=[True, False])["language"].head(1).to_list()
        return str(found[0]) if found else None

    @property
    def stems(self) -> Language | None:
        """The language whose stems fit most chunks, English if it is not known; None: it has none."""
        return LANGUAGES.get(self.language or "en")

    @cached_property
    def spans(self) -> ChunkSpans:
        return ChunkSpans.of(self.stored)

    @cached_property
    def carriers(self) -> dict[str, npt.NDArray[np.int64]]:
        """Keyword, as documents write it -> positions of the chunks whose documents carry it, rising."""
        rows: dict[str, list[int]] = {}
        for row, keywords in enumerate(self.column("keywords")):
            for keyword in dict.fromkeys(keywords if keywords is not None else ()):
                rows.setdefault(keyword, []).append(row)
        return {keyword: np.array(members, np.int64) for keyword, members in rows.items()}

    @cached_property
    def positions(self) -> SortedKeyIndex:
        return SortedKeyIndex(self.ids)

    def places(self, chunk_ids: Sequence[str]) -> npt.NDArray[np.int64]:
        return np.array([self.positions[chunk_id] for chunk_id in chunk_ids], np.int64)

    @property
    def ids(self) -> pl.Series:
        return self.column("chunk_id")

    @property
    def has_ann(self) -> bool:
        return self.facts.search.kind != "exact"

    def search_ann(
        self,
        vector: npt.NDArray[np.float32],
        k: int,
        where: str | None = None,
        allowed: npt.NDArray[np.bool_] | None = None,
        by: SearchParameters | None = None,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Return positions and exact cosines of the nearest chunks, best first, ties by position. where,
        allowed: a LanceDB predicate, and the rows that it allows; by: default: what reached the recall
        """
        if not self.has_ann:
            raise ValueError(f"{self.folder}: this index is searched exactly; it has no approximate index")
        found = nearest(self.table, vector, k, by or self.facts.search, where)["chunk_id"].to_pylist()
        # Further vectors are in no approximate index; the chunks that they point at are looked at as well.
        near = self.places(found)
        rows = np.union1d(near, self.questions[0])
        rows = rows if allowed is None else rows[allowed[rows]]
        scores = self.cosines(vector, rows)
        order = np.lexsort((rows, -scores))[:k]
        return rows[order], scores[order]

    def _text(self, doc_id: str) -> str:
        rows = np.sort(self.spans.rows[doc_id])
        pieces, known = [], 0
        parts = self.stored.at(rows, "start", "end", "text", "gap")
        for start, end, text, gap in sorted(parts, key=lambda part: part[0]):
            if start > known:  # white space before a chunk that no other one's gap holds
                pieces.append(" " * (start - known))
                known = start
            pieces.append((text + gap)[known - start :])
            known = max(known, end + len(gap))
        return "".join(pieces)

    def passage(self, doc_id: str, start: int, end: int) -> str:
        """Return `document.text[start:end]` from the chunks that hold it; raises KeyError."""
        if doc_id not in self._texts:
            text = self._text(doc_id)
            if self._held + len(text) > TEXTS:
                self._texts, self._held = {}, 0
            self._texts[doc_id] = text
            self._held += len(text)
        return self._texts[doc_id][start:end]

    def derived(self, derive: Callable[[OpenIndex, *Args], Derived], *args: *Args) -> Derived:
        """Return what a module-level function and its hashable arguments derive from this index, once."""
        key = (derive, *args)
        if key not in self._derived:
            self._derived[key] = derive(self, *args)
        found: Derived = self._derived[key]
        return found

    def __len__(self) -> int:
        return self.facts.chunks
