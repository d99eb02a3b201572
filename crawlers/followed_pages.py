"""Validators of pages that are followed but not stored, so that the next crawl gets a 304 for them."""

from __future__ import annotations

import gzip
import json
import os
import uuid
import zlib
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from rag_assay.warehouse.identity import sha256_bytes

_FACTS = ("url", "content_type", "etag", "last_modified")


class Followed(NamedTuple):
    """A page as it was last served."""

    url: str
    content_type: str | None
    etag: str | None
    last_modified: str | None
    body: bytes


class FollowedPages:
    """A file a page in one folder: its facts as a line of JSON, then its bytes, packed.

    A page without validators is not kept. A file that is damaged is none; `sweep` removes the files of pages
    that a whole crawl did not meet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, url: str) -> Followed | None:
        """Return the page that was last served under exactly this URL, or None."""
        try:
            line, _, body = gzip.decompress(self._path(url).read_bytes()).partition(b"\n")
            facts = json.loads(line)
            page = Followed(**{name: facts[name] for name in _FACTS}, body=body)
        except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError):
            return None
        return page if page.url == url else None

    def keep(self, page: Followed) -> None:
        """Keep a page in place of what was served under its URL before; whole or not at all."""
        path = self._path(page.url)
        if not (page.etag or page.last_modified):
            path.unlink(missing_ok=True)
            return
        if self.get(page.url) == page:
            os.utime(path)
            return
        facts = json.dumps({name: getattr(page, name) for name in _FACTS}).encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
        temporary.write_bytes(gzip.compress(facts + b"\n" + page.body, compresslevel=6, mtime=0))
        temporary.replace(path)

    def sweep(self, before: datetime) -> None:
        """Remove the pages that were not kept since ``before``."""
        for path in self.folder.glob("*"):
            if path.stat().st_mtime < before.timestamp():
                path.unlink(missing_ok=True)

    def _path(self, url: str) -> Path:
        return self.folder / f"{sha256_bytes(url.encode())}.gz"
