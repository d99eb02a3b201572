"""BEIR: a folder with `corpus.jsonl`, one passage a line (Thakur et al. 2021, arXiv:2104.08663)."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

from crawlers.items import Page
from warehouse.errors import InputError
from warehouse.identity import canonical
from warehouse.source import Source

CONTENT_TYPE = "application/x-beir+json"
NAMES = ("corpus.jsonl", "corpus.jsonl.gz")


def read(source: Source) -> Iterator[Page]:
    """Yield one page a passage: URL `beir:<_id>`, body the canonical JSON of title and text.

    A line that is no passage, or repeats an id, is a failed page that names the line.

    Raises:
        InputError: the folder has no corpus, or its corpus has no passage at all.
    """
    path = corpus_file(Path(source.path or "").expanduser())
    seen: set[str] = set()
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        page = _page(line, number, source.limits.page_bytes)
        if page.url in seen:
            url = f"{page.url}#line-{number}"
            page = Page(url, url, content_type=CONTENT_TYPE, reason="repeated _id")
        seen.add(page.url)
        yield page
    if not seen:
        raise InputError(f"path: {path} holds no passage.")


def corpus_file(path: Path) -> Path:
    """Return the corpus file in a BEIR folder, or the file itself; raise `InputError` where there is none."""
    if path.is_file():
        return path
    found = [path / name for name in NAMES if (path / name).is_file()]
    if not found:
        what = f"has no {' or '.join(NAMES)}" if path.is_dir() else "does not exist"
        raise InputError(f"path: the BEIR folder {path} {what}.")
    return found[0]


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield from file
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"path: {path} cannot be read to its end ({error}). Is the file whole?") from error


def _page(line: bytes, number: int, limit: int) -> Page:
    try:
        entry = json.loads(line)
        key = str(entry["_id"])
        title, text = str(entry.get("title") or ""), str(entry.get("text") or "")
        body = canonical({"title": title, "text": text}).encode()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        url = f"beir:line-{number}"
        return Page(url, url, content_type=CONTENT_TYPE, reason=f"not a passage: {type(error).__name__}")
    url = f"beir:{key}"
    reason = None if title.strip() or text.strip() else "empty passage"
    if len(body) > limit:
        reason = f"larger than {limit} bytes"
    return Page(
        url,
        url,
        content_type=CONTENT_TYPE,
        body=None if reason else body,
        fields={"id": key},
        reason=reason,
    )
