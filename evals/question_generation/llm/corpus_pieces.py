"""The documents of a study's corpus as questions are made from them, cut into pieces."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from rag_assay.assets.chunking.contract import Tools
from rag_assay.assets.chunking.document_chunks import chunk_batches
from rag_assay.assets.chunking.structure import Structure
from rag_assay.assets.cleaning.corpus import corpus_documents, corpus_duplicates
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.assets.tokenization.tokenizer import tokenizer_of
from rag_assay.evals.question_generation.llm.candidates import Document, DocumentPiece
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.errors import InputError

CUT = Structure(limit=256, merge_below=96)
"""How documents are cut: by their sections, whatever the study's chunkings are, for gold favours none."""
TOKENIZER = "all-MiniLM-L6-v2"


def corpus_frame(study: Study, work: BuildContext) -> pl.DataFrame:
    """Return the documents of a study as they are now, without the copies that its corpus leaves out.

    Raises:
        InputError: a source was not crawled or read yet.
    """
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
    """Return documents by their ids."""
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
    """Return the URLs of more than one document: evidence there has to say its source."""
    seen: set[str] = set()
    return {one.url for one in documents if one.url in seen or seen.add(one.url)}  # type: ignore[func-returns-value]
