"""Which readers fit a folder that `assay init` is given, and which of their columns are what."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from rag_assay.crawlers.readers import jsonl, table, warc
from rag_assay.crawlers.readers.beir import NAMES as BEIR_CORPUS
from rag_assay.crawlers.readers.files import UNREADABLE, as_text, open_file
from rag_assay.crawlers.readers.folder import TYPES
from rag_assay.warehouse.files import bounded_lines, walk
from rag_assay.warehouse.source import Column, Source
from rag_assay.warehouse.source_kinds import READERS

SAMPLE = 20  # rows or items of a file that are looked at
MOST = 10  # sources of one folder
LONGEST = 1_000_000  # bytes of one line
# What people call their columns; the first of the names that is there is taken.
CALLED: dict[Column, tuple[str, ...]] = {
    "text": (
        "text",
        "body",
        "content",
        "contents",
        "passage",
        "article",
        "document",
        "abstract",
        "description",
    ),
    "title": ("title", "headline", "heading", "subject", "name"),
    "url": ("url", "link", "href", "source_url"),
    "id": ("id", "_id", "doc_id", "docid", "document_id", "uid", "key"),
    "date": ("date", "published_at", "published", "created_at", "created", "day", "timestamp"),
}
_PROSE = 20  # characters that a text has at least on average, where no column is called one
_READERS = {".html": "html", ".htm": "html", ".txt": "text", ".md": "text"}  # else as the suffix says


FoundSource = tuple[str, Path, dict[Column, str]]
"""Reader, path and columns."""


@dataclass
class FolderContents:
    """What a folder holds.

    sources: those that read a part of it
    url: what evidence in one of its documents is called, as an example
    left_out: files that no reader fits, and why
    """

    sources: list[FoundSource] = field(default_factory=list)
    url: str = "a-file.html"
    left_out: list[str] = field(default_factory=list)


def beir_splits(folder: Path) -> list[str] | None:
    if not any((folder / name).is_file() for name in BEIR_CORPUS):
        return None
    has_questions = any((folder / f"queries.jsonl{end}").is_file() for end in ("", ".gz"))
    return sorted(path.stem for path in (folder / "qrels").glob("*.tsv")) if has_questions else []


def graded_split(splits: Sequence[str]) -> str:
    return next((name for name in ("test", "dev") if name in splits), splits[0])


def sources_in(target: Path) -> FolderContents:
    """Return the sources that read a folder or file: `folder` for documents alone, else a reader a kind."""
    folder = target if target.is_dir() else target.parent
    documents: dict[str, Path] = {}
    passages: list[FoundSource] = []
    found = FolderContents()
    others: Counter[str] = Counter()
    for path in walk(folder) if folder == target else [target]:
        name, kind = path.name.lower(), path.suffix.lower()
        if name.endswith(jsonl.LINES + jsonl.WHOLE + table.SUFFIXES):
            reader = "table" if name.endswith(table.SUFFIXES) else "jsonl"
            columns = columns_of(path, reader)
            if columns is not None:
                passages.append((reader, path, columns))
            else:
                found.left_out.append(f"{path.relative_to(folder)}: no column looks like a text")
        elif name.endswith(warc.SUFFIXES):
            documents.setdefault("warc", path)
        elif kind in TYPES:
            documents.setdefault(_READERS.get(kind, kind[1:]), path)
        else:
            others[kind or "no suffix"] += 1
    if others:
        found.left_out.insert(0, f"{_listed(others)}: no reader reads these kinds of files")
    found.sources = _sources_of(target, documents, passages)
    found.left_out += [f"{path}: one source more than {MOST}" for _, path, _ in found.sources[MOST:]]
    del found.sources[MOST:]
    first = next(iter(documents.values()), None)
    if first is not None:
        found.url = first.relative_to(folder).as_posix()
    elif passages:
        found.url = f"{passages[0][1].relative_to(folder).as_posix()}#1"
    return found


def _sources_of(
    target: Path, documents: Mapping[str, Path], passages: Sequence[FoundSource]
) -> list[FoundSource]:
    if not target.is_dir():
        return [*((one if one in READERS else "folder", target, {}) for one in documents), *passages]
    if documents and not passages and "warc" not in documents:
        return [("folder", target, {})]
    merged = _merged(passages, target)
    if not documents.keys() <= READERS.keys():  # kinds that `folder` alone reads
        columns = merged[0][2] if merged else {}
        same = [columns == others for _, _, others in merged]
        warc = [("warc", target, columns)] if "warc" in documents else []
        return [("folder", target, columns if all(same) else {}), *warc]
    return [*((reader, target, {}) for reader in sorted(documents)), *merged]


def _listed(kinds: Counter[str]) -> str:
    shown = kinds.most_common(MOST)
    rest = kinds.total() - sum(number for _, number in shown)
    named = [f"{number} x {kind}" for kind, number in shown]
    return ", ".join([*named, *([f"{rest} others"] if rest else [])])


def _merged(passages: Sequence[FoundSource], folder: Path) -> list[FoundSource]:
    merged = []
    for reader, suffixes in (("jsonl", jsonl.LINES + jsonl.WHOLE), ("table", table.SUFFIXES)):
        of_reader = [(path, columns) for kind, path, columns in passages if kind == reader]
        others = [path for path in walk(folder) if path.name.lower().endswith(suffixes)]
        is_whole = len(of_reader) == len(others) > 0
        if is_whole and all(columns == of_reader[0][1] for _, columns in of_reader):
            merged.append((reader, folder, of_reader[0][1]))
        else:
            merged += [(reader, path, columns) for path, columns in of_reader]
    return merged


def columns_of(path: Path, reader: str) -> dict[Column, str] | None:
    try:
        rows = list(islice(_rows(path, Source(reader=reader, path=str(path))), SAMPLE))
    except (*UNREADABLE, Exception):
        return None
    if any(isinstance(row, str) for row in rows):
        return {}
    objects = [row for row in rows if isinstance(row, Mapping)]
    names = list(dict.fromkeys(str(name) for row in objects for name in row))
    known = {name.lower(): name for name in reversed(names)}
    columns = {
        column: known[called[0]]
        for column, spellings in CALLED.items()
        if (called := [one for one in spellings if one in known])
    }
    if "text" not in columns:
        longest = max(names, key=lambda name: _length(objects, name), default=None)
        if longest is None or _length(objects, longest) < _PROSE:
            return None
        columns = {column: name for column, name in columns.items() if name != longest} | {"text": longest}
    return {column: name for column, name in columns.items() if name != column}


def _length(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    texts = [row.get(name) for row in rows]
    return sum(len(text) for text in texts if isinstance(text, str)) / max(1, len(texts))


def _rows(path: Path, source: Source) -> Iterator[Any]:
    name = path.name.lower()
    if name.endswith(".parquet"):
        from pyarrow import parquet

        with open_file(path, source) as file, parquet.ParquetFile(file) as rows:
            for batch in rows.iter_batches(batch_size=SAMPLE):
                yield from batch.to_pylist()
    elif name.endswith(table.SUFFIXES):
        with open_file(path, source) as file, as_text(file, newline="") as text:
            head = text.readline(LONGEST)
            text.seek(0)
            yield from csv.DictReader(text, delimiter=table.delimiter(path, head))
    else:
        with open_file(path, source) as file:
            if name.endswith(jsonl.WHOLE):
                yield from jsonl.values(file, LONGEST)
            else:
                lines = bounded_lines(file, LONGEST, b"\r\n")
                yield from (row for _, line in lines if line and line.strip() for row in _parsed(line))


def _parsed(line: bytes) -> list[Any]:
    try:
        return [json.loads(line)]
    except (ValueError, RecursionError):
        return []
