"""Cleans the pages of a source in batches, in several processes; pages cleaned before are reused."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from rag_assay.assets.cleaning.date_inference import Dating
from rag_assay.assets.cleaning.page_cleaner import Cleaned, clean_page, doc_id, page_key
from rag_assay.assets.engine.stage import Progress
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.pages import media_type
from rag_assay.warehouse.parquet import frame, read_parquet, write_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import DOCUMENTS, DROPPED

BATCH = 512  # pages held at once, a row group of the file
TASK = 32  # pages that a worker cleans at a time
AHEAD = 2  # batches given to the workers before the first is taken back: bounds what waits in memory
POOL_FROM = 400  # parsed pages from which the seconds that workers take to start are worth it
MOST_WORKERS = 4  # about 150 MB each

_PARSED = frozenset({"text/html", "application/xhtml+xml", "application/pdf"})

Page = dict[str, Any]
Clean = Callable[[Sequence[Page]], list[Cleaned]]
Give = Callable[[Sequence[Page]], Callable[[], list[Cleaned]]]


class Batch(NamedTuple):
    """Documents (`schemas.DOCUMENTS`, by id) and drops (`schemas.DROPPED`, by URL) of some pages.

    reused: how many of the pages were known
    """

    documents: pl.DataFrame
    dropped: pl.DataFrame
    reused: int


@dataclass(frozen=True)
class Known:
    """What earlier builds made of pages: their files of documents and of drops."""

    documents: tuple[Path, ...] = ()
    dropped: tuple[Path, ...] = ()

    @staticmethod
    def in_folders(*folders: Path) -> Known:
        """Take the readable files of these folders."""
        found = (
            tuple(path for folder in folders for path in sorted(folder.glob(name)) if _has_keys(path))
            for name in ("*documents.parquet", "*dropped.parquet")
        )
        return Known(*found)

    def keys(self) -> set[str]:
        keys: set[str] = set()
        for path in (*self.documents, *self.dropped):
            with suppress(CorruptFileError):
                keys.update(read_parquet(path, ["page_key"])["page_key"].drop_nulls())
        return keys

    def rows(self, pages: Sequence[Page]) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the known documents and drops of these pages, which are sorted by document id."""
        has_key = pl.col("page_key").is_in([page["page_key"] for page in pages])
        # The range is what lets row groups be skipped unread.
        first, last = pl.lit(pages[0]["doc_id"]), pl.lit(pages[-1]["doc_id"])
        in_range = pl.col("doc_id").is_between(first, last)
        return (_found(self.documents, in_range & has_key, DOCUMENTS), _found(self.dropped, has_key, DROPPED))


def _has_keys(path: Path) -> bool:
    try:
        return "page_key" in pl.read_parquet_schema(path)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return False


def _found(paths: Sequence[Path], which: pl.Expr, schema: dict[str, Any]) -> pl.DataFrame:
    if not paths:
        return pl.DataFrame(schema=schema)
    try:
        found = pl.concat([pl.scan_parquet(path).filter(which).collect() for path in paths])
    except (pl.exceptions.ComputeError, pl.exceptions.PanicException, OSError):
        return pl.DataFrame(schema=schema)  # torn: the pages are cleaned again
    return found.select(list(schema)).unique("page_key", keep="first", maintain_order=True)


# ------------------------------------------------------------------------------------------- cleaning


@dataclass(frozen=True)
class Cleaning:
    """How the pages of one source are cleaned.

    language: of all its pages, if the source names it
    parts: folder of finished batches, from which a killed build resumes
    dating: finds dates for documents without one, in this process
    workers: processes; default: up to MOST_WORKERS, by cores and work
    """

    source: str
    home: Home
    language: str | None
    parts: Path
    workers: int | None = None
    dating: Dating | None = None

    def pages(self, manifest: pl.DataFrame) -> pl.DataFrame:
        stored = manifest.filter(pl.col("sha256").is_not_null()).select(
            "url", "content_type", "sha256", "fields", "fetched_at"
        )
        rows = stored.iter_rows(named=True)
        date_model = self.date_model
        named = [
            (doc_id(self.source, page), page_key(self.source, page, self.language, date_model))
            for page in rows
        ]
        return stored.with_columns(
            doc_id=pl.Series([name for name, _ in named], dtype=pl.String),
            page_key=pl.Series([key for _, key in named], dtype=pl.String),
        ).sort("doc_id", "url")

    @property
    def date_model(self) -> str | None:
        """The identity of the model that is asked for dates; None where none is."""
        return self.dating.identity if self.dating else None

    def run(self, manifest: pl.DataFrame, known: Known, progress: Progress) -> Iterator[Batch]:
        """Clean the pages of a manifest, those aside that are known, in the order of their document ids."""
        pages = self.pages(manifest)
        done = 0
        clean = partial(clean_some, self.source, self.home, self.language, self.date_model)
        with _workers(self._worker_count(pages, known), clean) as give:
            for number, pending in enumerate(_ahead(_pending_batches(pages, known, give))):
                cleaned: list[Cleaned] = []
                for result in pending.results:
                    cleaned += result()
                    progress(f"cleaning {self.source}", done + len(cleaned), len(pages))
                batch = pending.joined(self.dating.dated(cleaned) if self.dating else cleaned)
                done += batch.reused + len(cleaned)
                progress(f"cleaning {self.source}", done, len(pages))
                if cleaned:
                    write_parquet(batch.documents, self.parts / f"{number:06}.documents.parquet")
                    write_parquet(batch.dropped, self.parts / f"{number:06}.dropped.parquet")
                yield batch

    def _worker_count(self, pages: pl.DataFrame, known: Known) -> int:
        if self.workers is not None:
            return self.workers
        keys = known.keys()
        rows = pages.select("content_type", "page_key").iter_rows()
        parsed = sum(media_type(kind) in _PARSED and key not in keys for kind, key in rows)
        return min(os.cpu_count() or 1, MOST_WORKERS) if parsed >= POOL_FROM else 0


def clean_some(
    source: str, home: Home, language: str | None, date_by: str | None, pages: Sequence[Page]
) -> list[Cleaned]:
    return [clean_page(source, page, home, language, date_by) for page in pages]


class _PendingBatch(NamedTuple):
    """A batch on its way: what was known of it, and what the workers will make of the rest."""

    documents: pl.DataFrame
    dropped: pl.DataFrame
    results: list[Callable[[], list[Cleaned]]]

    def joined(self, cleaned: Sequence[Cleaned]) -> Batch:
        documents = frame([one.document for one in cleaned if one.document], DOCUMENTS)
        dropped = frame([one.dropped for one in cleaned if one.dropped], DROPPED)
        return Batch(
            pl.concat([self.documents, documents]).sort("doc_id", "url"),
            pl.concat([self.dropped, dropped]).sort("url"),
            len(self.documents) + len(self.dropped),
        )


def _pending_batches(pages: pl.DataFrame, known: Known, give: Give) -> Iterator[_PendingBatch]:
    for rows in pages.iter_slices(BATCH):
        batch = rows.to_dicts()
        documents, dropped = known.rows(batch)
        there = {*documents["page_key"], *dropped["page_key"]}
        new = [page for page in batch if page["page_key"] not in there]
        tasks = [new[at : at + TASK] for at in range(0, len(new), TASK)]
        yield _PendingBatch(documents, dropped, [give(task) for task in tasks])


def _ahead(batches: Iterator[_PendingBatch]) -> Iterator[_PendingBatch]:
    waiting: deque[_PendingBatch] = deque()
    for one in batches:
        waiting.append(one)
        if len(waiting) > AHEAD:
            yield waiting.popleft()
    yield from waiting


# ------------------------------------------------------------------------------------------- workers


@contextmanager
def _workers(count: int, clean: Clean) -> Iterator[Give]:
    """Yield what hands pages to ``count`` processes, or for 0 cleans them here when a result is asked for."""
    if not count:
        yield lambda task: partial(clean, task)
        return
    # Spawned, not forked: this process has threads (Dagster, polars), whose locks a fork would copy.
    pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_begin_worker)
    try:
        yield lambda task: pool.submit(clean, task).result
    finally:
        pool.shutdown(cancel_futures=True)


def _begin_worker() -> None:
    """Leave Ctrl-C to the parent, which ends its workers, and end with a parent that was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
