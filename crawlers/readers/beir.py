"""BEIR: a folder with `corpus.jsonl`, one passage a line (Thakur et al. 2021, arXiv:2104.08663)."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from rag_assay.crawlers.items import Page
from rag_assay.crawlers.readers.contract import Reader
from rag_assay.crawlers.readers.files import failed_page, open_file, root_of
from rag_assay.crawlers.readers.passages import CONTENT_TYPE, text_of
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.files import bounded_lines
from rag_assay.warehouse.identity import canonical
from rag_assay.warehouse.source import Source

NAMES = ("corpus.jsonl", "corpus.jsonl.gz")


class Beir(Reader):
    """Passages of a BEIR folder (Thakur et al. 2021, arXiv:2104.08663): a page a line of `corpus.jsonl`."""

    kind: ClassVar[str] = "beir"

    def read(self, source: Source) -> Iterator[Page]:
        """A page a passage: URL `beir:<_id>`, body the canonical JSON of title and text."""
        path, limit = corpus_file(root_of(source)), source.limits.page_bytes
        seen: set[str] = set()
        for number, line in _lines(path, source):
            if line is not None and not line.strip():
                continue
            place = f"{path.name}:{number}"  # no `_id` makes such a URL
            page = _page(line, place, limit) if line is not None else _too_large(place, limit)
            if page.url in seen:
                page = failed_page(place, "repeated _id", CONTENT_TYPE)
            seen.add(page.url)
            yield page
        if not seen:
            raise InputError(f"path: {path} holds no passage.")


def corpus_file(path: Path) -> Path:
    if path.is_file():
        return path
    found = [path / name for name in NAMES if (path / name).is_file()]
    if not found:
        what = f"has no {' or '.join(NAMES)}" if path.is_dir() else "does not exist"
        raise InputError(f"path: the BEIR folder {path} {what}.")
    return found[0]


def _lines(path: Path, source: Source) -> Iterator[tuple[int, bytes | None]]:
    try:
        with open_file(path, source) as file:
            yield from bounded_lines(file, source.limits.page_bytes, b"\r\n")
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise InputError(f"path: {path} cannot be read to its end ({error}). Is the file whole?") from error


def _page(line: bytes, place: str, limit: int) -> Page:
    try:
        entry = json.loads(line)
        key = text_of(entry["_id"])
        title, text = text_of(entry.get("title")), text_of(entry.get("text"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return failed_page(place, f"not a passage: {type(error).__name__}", CONTENT_TYPE)
    if not key.strip():
        return failed_page(place, "not a passage: its '_id' is empty", CONTENT_TYPE)
    url, body = f"beir:{key}", canonical({"title": title, "text": text}).encode()
    if not (title.strip() or text.strip()):
        return failed_page(url, "empty passage", CONTENT_TYPE)
    if len(body) > limit:
        return _too_large(url, limit)
    return Page(url, url, content_type=CONTENT_TYPE, body=body, fields={"id": key})


def _too_large(url: str, limit: int) -> Page:
    return failed_page(url, f"larger than {limit} bytes", CONTENT_TYPE)
