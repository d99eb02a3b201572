"""Finds the pieces of a corpus that lie nearest to a question or to another piece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from rag_assay.assets.chunking.contract import Tools
from rag_assay.assets.chunking.document_chunks import chunk_batches
from rag_assay.assets.chunking.structure import Structure
from rag_assay.assets.cleaning.corpus import corpus_documents, corpus_duplicates
from rag_assay.assets.embedding.embedder import Matrix
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.assets.indexing.lexical import lexical_of
from rag_assay.assets.tokenization.tokenizer import tokenizer_of
from rag_assay.evals.question_generation.llm.candidates import Document, DocumentPiece
from rag_assay.evals.retrieval.question_words import content
from rag_assay.evals.retrieval.terms import Bm25Scores, Parameters
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.errors import InputError

CANDIDATES, PARTNERS = 30, 12
"""Pieces with the most words in common whose meaning is looked at, for a question and for a piece."""
COPY = 0.95  # cosine from which on two pieces say the same: they are no two hops
_OKAPI = Parameters("lower_bounded", k1=1.2, b=0.75, epsilon=0.25, delta=1.0)

Embed = Callable[[Sequence[str]], Matrix]


class Nearness:
    """The pieces of a corpus, by shared words and then by meaning: only a few are embedded for each question.

    Args:
        pieces: those that are searched.
        embed: texts -> unit vectors, shape (texts, dimensions).
    """

    def __init__(self, pieces: Sequence[DocumentPiece], embed: Embed) -> None:
        self._pieces = pieces
        self._embed = embed
        self._scores = Bm25Scores.of(lexical_of(piece.text for piece in pieces), _OKAPI)

    def best(self, question: str, k: int) -> list[DocumentPiece]:
        """Return k pieces for a question: by turns the next one by words (BM25), and by meaning.

        Fewer where few share a word with it; meaning is looked at among the CANDIDATES best by words.
        """
        rows = self._by_words(question)
        if not rows:
            return []
        cosines = self._cosines(question, rows)
        by_meaning = [rows[at] for at in np.argsort(-cosines, kind="stable").tolist()]
        turns = [row for pair in zip(rows, by_meaning, strict=True) for row in pair]
        return [self._pieces[row] for row in list(dict.fromkeys(turns))[:k]]

    def partner(self, piece: DocumentPiece) -> DocumentPiece | None:
        """Return the piece of another document that is nearest to one and shares rare words with it.

        None where no other document shares a word. A piece that says the same is left out.
        """
        rows = [
            row
            for row in self._by_words(piece.text)
            if self._pieces[row].document.doc_id != piece.document.doc_id
        ][:PARTNERS]
        if not rows:
            return None
        cosines = self._cosines(piece.text, rows)
        cosines[cosines >= COPY] = -1.0
        at = int(np.argmax(cosines))
        return self._pieces[rows[at]] if cosines[at] > -1.0 else None

    def _by_words(self, text: str) -> list[int]:
        counts = Counter(word.text.casefold() for word in content(text))
        rows, scores = self._scores.score({word: float(n) for word, n in counts.items()})
        order = np.lexsort((rows, -scores))[:CANDIDATES]
        return [int(rows[at]) for at in order.tolist()]

    def _cosines(self, text: str, rows: Sequence[int]) -> Matrix:
        vectors = self._embed([text, *(self._pieces[row].text for row in rows)])
        return np.asarray(vectors[1:] @ vectors[0], np.float32)


CUT = Structure(limit=256, merge_below=96)
"""How documents are cut: by their sections, whatever the study's chunkings are, for gold favours none."""
TOKENIZER = "all-MiniLM-L6-v2"


def corpus_frame(study: Study, work: BuildContext) -> pl.DataFrame:
    """Return the documents of a study as they are now, without the copies that its corpus leaves out."""
    artifacts = []
    for source in study.corpus.sources:
        found = work.store.current("documents", source)
        if found is None:
            raise InputError(
                f"the documents of {source} are not there yet; `assay run {study.path}` brings them"
            )
        artifacts.append(found)
    documents = corpus_documents(artifacts, work)
    threshold = study.corpus.near_duplicates
    if threshold is None:
        return documents
    copies = corpus_duplicates(artifacts, documents, threshold, work)
    return documents.join(copies, on="doc_id", how="anti")


def documents_of(frame: pl.DataFrame) -> list[Document]:
    columns = frame.select(*Document._fields).sort("doc_id")
    return [Document(*row) for row in columns.iter_rows()]


def pieces_of(frame: pl.DataFrame, work: BuildContext) -> list[DocumentPiece]:
    """Cut documents into pieces of a few hundred tokens, in the order of their ids."""
    documents = {one.doc_id: one for one in documents_of(frame)}
    tools = Tools(tokenizer_of(TOKENIZER, work.home, lambda text: work.progress(text, 0, 0)))
    return [
        DocumentPiece(documents[doc_id], start, end)
        for batch in chunk_batches(frame, CUT, tools)
        for doc_id, start, end in batch.select("doc_id", "start", "end").iter_rows()
    ]


def urls_that_repeat(documents: Sequence[Document]) -> set[str]:
    seen: set[str] = set()
    return {one.url for one in documents if one.url in seen or seen.add(one.url)}  # type: ignore[func-returns-value]
