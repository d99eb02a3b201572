"""An opened index: its data is read, and derived data computed, at first use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from rag_assay.assets.indexing import index_table
from rag_assay.assets.indexing.approximate import nearest
from rag_assay.assets.indexing.index_recipe import IndexFacts, SearchParameters, read_facts
from rag_assay.assets.indexing.index_rows import COLUMNS, QUESTIONS
from rag_assay.assets.indexing.lexical import Lexical, lexical_of, open_lexical
from rag_assay.assets.indexing.publication_days import moment
from rag_assay.assets.indexing.row_files import CHUNKS, ROWS, VECTORS
from rag_assay.evals.retrieval.analyzed_terms import count_forms
from rag_assay.evals.retrieval.analyzer import Analyzer
from rag_assay.evals.retrieval.chunk_spans import ChunkSpans
from rag_assay.evals.retrieval.mapped_vectors import products, read_vectors, take_rows
from rag_assay.evals.retrieval.stored_chunks import HeldChunks, MappedChunks, SortedKeyIndex, StoredChunks
from rag_assay.evals.retrieval.terms import TermIndex
from rag_assay.warehouse.parquet import read_parquet

if TYPE_CHECKING:
    from lancedb.table import Table

Args = TypeVarTuple("Args")
Derived = TypeVar("Derived")
TEXTS = 20_000_000
"""Characters of documents' texts that an index holds at most; all are dropped when it is reached."""


class OpenIndex:
    """One index, sorted by chunk id; a position in it stands for a chunk.

    Whatever is not asked for is not read: a search by words leaves the vectors on disk.

    Args:
        folder: the index's folder (`assets.indexing.index_table.build` wrote it).
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._terms: dict[tuple[Analyzer, int], TermIndex] = {}
        self._derived: dict[tuple[object, ...], Any] = {}
        self._columns: dict[str, pl.Series] = {}
        self._texts: dict[str, str] = {}
        self._held = 0  # characters of them

    @cached_property
    def facts(self) -> IndexFacts:
        """How the index was made and is searched."""
        return read_facts(self.folder)

    @cached_property
    def table(self) -> Table:
        """The LanceDB table, at its finished version."""
        return index_table.open_table(self.folder)

    @cached_property
    def chunks(self) -> pl.DataFrame:
        """The columns of `index_rows.COLUMNS`, and published_on (a date); sorted by chunk_id.

        The texts of all chunks are among them. `column` reads one, and `at` what some chunks hold.
        """
        return pl.DataFrame([self.column(name) for name in self.stored.names])

    @cached_property
    def stored(self) -> StoredChunks:
        """The same where they lie; in memory where an earlier version built the index."""
        folder = self.folder / ROWS
        if (folder / CHUNKS).exists():
            return MappedChunks(folder, len(self))
        found = pl.from_arrow(self.table.search().select([*COLUMNS, "published_on"]).to_arrow())
        return HeldChunks(pl.DataFrame(found).sort("chunk_id"))

    def column(self, name: str) -> pl.Series:
        """Return one of the columns of `chunks`, read once."""
        if name not in self._columns:
            self._columns[name] = self.stored.column(name)
        return self._columns[name]

    @cached_property
    def vectors(self) -> npt.NDArray[np.float32]:
        """Unit vectors, shape (chunks, dimensions); memory-mapped, but for an index of an earlier version."""
        path = self.folder / ROWS / VECTORS
        if len(self) and path.exists():
            return read_vectors(path, (len(self), self.facts.dimensions))
        found = np.empty((len(self), self.facts.dimensions), np.float32)
        positions = {chunk_id: position for position, chunk_id in enumerate(self.ids)}
        for batch in self.table.search().select(["chunk_id", "vector"]).to_batches():
            rows = [positions[chunk_id] for chunk_id in batch["chunk_id"].to_pylist()]
            flat = batch["vector"].flatten().to_numpy(zero_copy_only=False)
            found[rows] = flat.reshape(len(rows), -1)
        return found

    @cached_property
    def questions(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Further vectors that point at chunks: those of questions that a model wrote for them.

        Positions of the chunks, shape (n,), and the vectors, shape (n, dimensions); chunks of an earlier
        state of the corpus are left out.
        """
        path = self.folder / QUESTIONS
        if not path.exists():
            return np.zeros(0, np.int64), np.zeros((0, self.facts.dimensions), np.float32)
        found = read_parquet(path).filter(pl.col("chunk_id").is_in(self.ids.implode()))
        rows = np.array([self.positions[chunk_id] for chunk_id in found["chunk_id"]], np.int64)
        return rows, np.ascontiguousarray(found["vector"].to_numpy(), dtype=np.float32)

    def cosines(
        self, vector: npt.NDArray[np.float32], rows: npt.NDArray[np.int64] | None = None
    ) -> npt.NDArray[np.float64]:
        """Return the cosine of each chunk (of ``rows``, or all) and a unit vector, shape (chunks,).

        A chunk that further vectors point at has the best of its own and theirs.
        """
        scores = products(self.vectors if rows is None else take_rows(self.vectors, rows), vector)
        owners, others = self.questions
        if len(owners):
            best = np.full(len(self), -np.inf)
            np.maximum.at(best, owners, np.einsum("ij,j->i", others, vector).astype(np.float64))
            scores = np.maximum(scores, best if rows is None else best[rows])
        return scores

    @cached_property
    def published(self) -> npt.NDArray[np.datetime64]:
        """When each chunk's document was published, shape (chunks,), datetime64[s] without a time zone.

        A partial date is its first day; NaT where nothing is known. Its day is the column `published_on`.
        """
        return np.array([moment(text) for text in self.column("published_at")], "datetime64[s]")

    @cached_property
    def moments(self) -> tuple[npt.NDArray[np.datetime64], npt.NDArray[np.int64]]:
        """The distinct values of `published`, rising and NaT last, and the place of each chunk's among them.

        They are far fewer than the chunks.
        """
        moments, places = np.unique(self.published, return_inverse=True)
        return moments, places

    @cached_property
    def days(self) -> pl.Series:
        """The day on which each chunk's document was published, NULL where it is not known."""
        return self.column("published_on").cast(pl.Date)

    @cached_property
    def lexical(self) -> Lexical:
        """The words of every chunk, in the order of the index."""
        return open_lexical(self.folder / "lexical")

    def terms(self, analyzer: Analyzer, title: int = 0) -> TermIndex:
        """Return the words of every chunk as an analyzer counts them: counted once, for all that search them.

        title: how often the words of the document's title are counted beside those of the chunk
        """
        key = (analyzer, title)
        if key not in self._terms:
            titles = self.title_words if title else None
            self._terms[key] = TermIndex(count_forms(self.lexical, titles, title, analyzer))
        return self._terms[key]

    @cached_property
    def title_words(self) -> Lexical:
        """The words of the title of every chunk's document, in the order of the index."""
        folder = self.folder / index_table.TITLES
        return open_lexical(folder) if folder.exists() else lexical_of(self.titles)

    @cached_property
    def titles(self) -> list[str]:
        """The title of each chunk's document; empty where it has none."""
        return self.column("title").fill_null("").to_list()

    @cached_property
    def spans(self) -> ChunkSpans:
        """Where the passage of each chunk lies."""
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
        """Chunk id -> position."""
        return SortedKeyIndex(self.ids)

    def places(self, chunk_ids: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the positions of some chunks, all of which the index holds."""
        return np.array([self.positions[chunk_id] for chunk_id in chunk_ids], np.int64)

    @property
    def ids(self) -> pl.Series:
        """The chunk ids, rising."""
        return self.column("chunk_id")

    @property
    def has_ann(self) -> bool:
        """Whether there is an approximate index of the vectors."""
        return self.facts.search.kind != "exact"

    def search_ann(
        self,
        vector: npt.NDArray[np.float32],
        k: int,
        where: str | None = None,
        allowed: npt.NDArray[np.bool_] | None = None,
        by: SearchParameters | None = None,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Return the positions and cosines of the nearest chunks by the approximate index, best first.

        Cosines are computed from `vectors`, as an exact search does, so that both give a chunk the same
        score; ties go by position.

        Args:
            vector: a unit vector, shape (dimensions,).
            k: how many at most.
            where: a LanceDB predicate over the columns of the table; None: all chunks.
            allowed: the chunks that it lets through, shape (chunks,); None: all.
            by: the parameters of the search; None: those that reached the recall when it was built.

        Raises:
            ValueError: there is no approximate index.
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
        """Return a document's text as far as chunks hold it, with the white space between them."""
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
        """Return `document.text[start:end]`, put together from the chunks that hold it.

        Raises:
            KeyError: no chunk is of this document.
        """
        if doc_id not in self._texts:
            text = self._text(doc_id)
            if self._held + len(text) > TEXTS:
                self._texts, self._held = {}, 0
            self._texts[doc_id] = text
            self._held += len(text)
        return self._texts[doc_id][start:end]

    def derived(self, derive: Callable[[OpenIndex, *Args], Derived], *args: *Args) -> Derived:
        """Return what a function derives from this index, computed once for each function and its arguments.

        What retrievers and steps share of an index and this class does not know, as the names that a corpus
        teaches. The function is one of a module, and its arguments can be hashed.
        """
        key = (derive, *args)
        if key not in self._derived:
            self._derived[key] = derive(self, *args)
        found: Derived = self._derived[key]
        return found

    def __len__(self) -> int:
        return self.facts.chunks
