"""Tables, CSV and Parquet: a passage a row, streamed."""

from __future__ import annotations

import codecs
import csv
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from crawlers.items import Page
from crawlers.reading.files import UNREADABLE, failed, files_of, opened, unreadable
from crawlers.reading.passages import Passages
from warehouse.pages import decode
from warehouse.source import Column, Source

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
NAMES: tuple[Column, ...] = ("text", "title", "url", "id", "date")
HEAD = 1 << 16  # bytes from which charset and delimiter are told
ROWS = 256  # of Parquet, at once

Cells = Mapping[str, Any]


def read(source: Source) -> Iterator[Page]:
    """Yield one page a row. A file that lacks the text's column, or cannot be read on, is a failed page.

    Raises:
        InputError: the path is missing, or holds no such file.
    """
    passages = Passages(source)
    for name, path in files_of(source, SUFFIXES):
        number = 0
        try:
            rows = _parquet(path, source) if path.suffix.lower() == ".parquet" else _csv(path, source)
            for number, row in enumerate(rows, start=1):
                yield passages.page(name, number, row)
        except _NoColumnError as error:
            yield failed(name, str(error))
        except csv.Error as error:
            yield passages.broken(name, number + 1, str(error))
        except UNREADABLE as error:
            yield unreadable(name, error)


class _NoColumnError(Exception):
    """A table has no column of a name that the source gives."""


def _check(columns: list[str], source: Source) -> None:
    """Raise where the text's column is missing, or another one that the source names."""
    wanted = [name for name in NAMES if name == "text" or source.column(name) != name]
    for missing in (source.column(name) for name in wanted if source.column(name) not in columns):
        raise _NoColumnError(f"no column {missing!r}; there are {', '.join(columns[:20]) or 'none'}")


def _csv(path: Path, source: Source) -> Iterator[Cells]:
    csv.field_size_limit(min(source.limits.page_bytes, sys.maxsize))
    with opened(path) as file:
        head = file.read(HEAD)
        file.seek(0)
        head = head[: head.rfind(b"\n") + 1] or head  # no character is cut in two
        sample, encoding = decode(head)
        encoding = "utf-8-sig" if encoding == "utf-8" else encoding
        with codecs.getreader(encoding)(file) as text:
            rows = csv.DictReader(text, delimiter=_delimiter(path, sample))
            _check(list(rows.fieldnames or ()), source)
            yield from rows


def _delimiter(path: Path, sample: str) -> str:
    if path.name.lower().endswith((".tsv", ".tsv.gz")):
        return "\t"
    first = sample.partition("\n")[0]
    return max(",;\t|", key=first.count)


def _parquet(path: Path, source: Source) -> Iterator[Cells]:
    from pyarrow import parquet

    with opened(path) as file, parquet.ParquetFile(file) as table:
        known = table.schema_arrow.names
        _check(known, source)
        columns = [source.column(name) for name in NAMES if source.column(name) in known]
        for batch in table.iter_batches(batch_size=ROWS, columns=columns):
            yield from batch.to_pylist()
