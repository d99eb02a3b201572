"""Lists the documents of a study or corpus: what each keeps of its page, date, language, scanned pages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from rag_assay.assets.cleaning.fidelity import KINDS, add
from rag_assay.assets.cleaning.page_source import PageSource, page_source
from rag_assay.evals.reporting.display import plain, truncate
from rag_assay.evals.study.run_studies import find_known
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.corpora.records import Corpora
from rag_assay.orchestration.terminal.cli_errors import console, width
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.errors import CorruptFileError, InputError
from rag_assay.warehouse.pages import read_body, read_manifest
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.paths import Home


@dataclass(frozen=True)
class OpenedDocument:
    """A document beside its page; page: None where its body cannot be read, and `why` says why not."""

    listed: ListedDocument
    text: str
    sections: Sequence[Mapping[str, Any]]
    authors: Sequence[str]
    page: PageSource | None
    why: str = ""


def open_document(listed: ListedDocument, home: Home) -> OpenedDocument:
    text, sections, authors, sha256 = "", [], [], None
    store = ArtifactStore(home)
    artifact = store.current("documents", listed.source)
    if artifact is not None and not listed.reason:
        columns = ["text", "sections", "authors", "page_sha256"]
        path = store.files_of(artifact) / "documents.parquet"
        for row in read_parquet(path, columns, pl.col("doc_id") == listed.doc_id).rows():
            text, sections, authors, sha256 = row
    pages = read_manifest(home, listed.source, gone=True).filter(pl.col("url") == listed.url)
    whole = (listed, text, sections or (), authors or ())
    if pages.is_empty() or (sha256 or pages["sha256"][0]) is None:
        return OpenedDocument(*whole, None, f"{listed.url}: no page is stored")
    page = pages.row(0, named=True)
    try:
        return OpenedDocument(*whole, page_source(page, read_body(home, sha256 or page["sha256"]), text))
    except CorruptFileError as damage:
        return OpenedDocument(*whole, None, str(damage))


_COLUMNS = ["doc_id", "url", "title", "language", "published_at", "text", "sections", "metadata"]
_GUESSED_DATES = frozenset({"text", "url", "llm"})
URL = 55  # last characters of an address that the table shows


@dataclass(frozen=True)
class ListedDocument:
    """A document, or a page that gave none (`reason`).

    doc_id: of a page without a document, that of the document that it would give
    fidelity: kind -> how many the page holds, and how many of these the document keeps
    date_source, language_source: where these are from, as in `metadata` of documents
    scanned_pages: of a PDF, from 1, whose words are missing
    """

    source: str
    url: str
    doc_id: str
    title: str | None = None
    characters: int = 0
    sections: int = 0
    fidelity: dict[str, list[int]] = field(default_factory=dict)
    published_at: str | None = None
    date_source: str | None = None
    language: str | None = None
    language_source: str | None = None
    scanned_pages: list[int] = field(default_factory=list)
    reason: str | None = None

    @property
    def lost(self) -> dict[str, int]:
        return {kind: came - kept for kind, (came, kept) in self.fidelity.items() if kept < came}

    @property
    def has_losses(self) -> bool:
        return bool(self.reason or self.scanned_pages or self.lost)

    @property
    def is_date_guessed(self) -> bool:
        return self.published_at is not None and self.date_source in _GUESSED_DATES

    @property
    def is_language_guessed(self) -> bool:
        return self.language_source == "detected"


def document_rows(name: str, home: Home) -> list[ListedDocument]:
    """Return the documents of a study or corpus, by source and address; InputError: there are none."""
    corpus = Corpora(home).named(name)
    study = read_study(corpus.study) if corpus is not None and corpus.is_there else find_known(name, home)
    found = [row for source in study.corpus.sources for row in _rows(study, source, home)]
    return sorted(found, key=lambda row: (row.source, row.url))


def _rows(study: Study, source: str, home: Home) -> Iterator[ListedDocument]:
    store = ArtifactStore(home)
    artifact = store.current("documents", source)
    if artifact is None:
        raise InputError(
            f"the documents of {source} are not built; `assay run {study.study} --only documents` builds them"
        )
    from rag_assay.assets.cleaning.page_cleaner import doc_id

    folder = store.files_of(artifact)
    for row in read_parquet(folder / "documents.parquet", _COLUMNS).iter_rows(named=True):
        metadata = json.loads(row["metadata"])
        yield ListedDocument(
            source,
            row["url"],
            row["doc_id"],
            row["title"],
            len(row["text"]),
            len(row["sections"] or ()),
            metadata.get("fidelity") or {},
            row["published_at"],
            metadata.get("date_source"),
            row["language"],
            metadata.get("language_source"),
            metadata.get("scanned_pages") or [],
        )
    for row in read_parquet(folder / "dropped.parquet").iter_rows(named=True):
        key = doc_id(source, {"url": row["url"], "fields": None})
        yield ListedDocument(source, row["url"], key, reason=row["reason"])


def worst_first(rows: Iterable[ListedDocument]) -> list[ListedDocument]:
    return sorted(
        rows, key=lambda row: (not row.reason, -sum(row.lost.values()) - len(row.scanned_pages), row.url)
    )


def totals(rows: Iterable[ListedDocument]) -> dict[str, list[int]]:
    total: dict[str, list[int]] = {}
    for row in rows:
        add(total, row.fidelity)
    return {kind: total[kind] for kind in KINDS if kind in total}


def show_documents(rows: Sequence[ListedDocument]) -> None:
    from rich.table import Table
    from rich.text import Text

    total = totals(rows)
    table = Table(box=None, pad_edge=False)
    table.add_column("document", overflow="fold", ratio=1)
    for head in ("language", "date", "sections", *total):
        table.add_column(head, no_wrap=True)
    for row in rows:
        scans = f"pages {', '.join(map(str, row.scanned_pages))} are images" if row.scanned_pages else ""
        date = f"{(row.published_at or '')[:10]} ({row.date_source})" if row.published_at else "none"
        address = row.url.partition("://")[2] or row.url
        shown = address if len(address) <= URL else f"…{address[-URL:]}"
        cells = [shown, row.language or "", "" if row.reason else date, str(row.sections)]
        cells += ["{1}/{0}".format(*row.fidelity[kind]) if kind in row.fidelity else "" for kind in total]
        document, *others = (Text(plain(cell)) for cell in cells)
        if note := truncate(row.reason or scans, 80):
            document.append(f"\n{plain(note)}", "dim")
        table.add_row(document, *others)
    if len(rows) > 1:
        sums = ("{1}/{0}".format(*counts) for counts in total.values())
        table.add_row(f"{len(rows)} in all", "", "", str(sum(row.sections for row in rows)), *sums)
    console(width=width()).print(table)
