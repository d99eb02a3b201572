"""pages: what the crawlers fetched, one partition a source."""

from __future__ import annotations

import stat
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from assets.crawler import run_crawler
from assets.merging import Build
from assets.stage import Built, Check, Need, Stage, Work
from warehouse.errors import AssayError
from warehouse.files import walk
from warehouse.identity import digest
from warehouse.pages import manifest_digest, read_manifest


class Pages(Stage):
    """Fetches the pages of a source by a crawler in a process of its own."""

    name = "pages"
    group = "corpus"
    description = (
        "Pages as fetched, by a Scrapy spider or a file reader in a child process. Stored: bodies by SHA-256 "
        "and a Parquet manifest (URL, status, headers, time, SHA-256, what the spider read from the page). "
        "Materializing it crawls again: unchanged pages are not stored twice."
    )
    checks: ClassVar[dict[str, str]] = {
        "has_pages": "At least one page was stored, and fewer pages failed than were stored.",
        "not_cut": "No limit cut off what the source holds more.",
    }
    crawls = True
    by_source = True

    def __init__(self, build: Build) -> None:
        self.sources = build.sources

    def keys(self) -> list[str]:
        """Return the names of the sources."""
        return sorted(self.sources)

    def needs(self, key: str) -> list[Need]:
        """Return nothing: here the data come in."""
        return []

    def recipes(self, key: str) -> dict[str, str]:
        """Return the digest of where the pages come from; when and how politely does not change them."""
        source = self.sources[key]
        spec = source.model_dump(mode="json", exclude={"schedule", "delay", "contact", "language", "date_by"})
        return {f"source.{key}": digest([spec, fingerprint(Path(source.path)) if source.path else None])}

    def build(self, key: str, folder: Path, work: Work) -> Built:
        """Crawl the source, and look at what there is now."""
        crawl = run_crawler(key, self.sources[key], work)
        manifest = read_manifest(work.home, key)
        stored = manifest.filter(manifest["sha256"].is_not_null())
        reasons = Counter(manifest.filter(manifest["sha256"].is_null())["reason"].to_list())
        if not len(stored):
            why = (
                "; ".join(f"{n} x {reason}" for reason, n in reasons.most_common(3))
                or "nothing was found there"
            )
            raise AssayError(f"source {key}: not one page could be stored ({why})")
        failed = sum(reasons.values())
        check = Check(
            "has_pages",
            failed <= len(stored),
            f"{len(stored)} pages stored, {failed} failed",
            {"failed": dict(reasons)},
        )
        limit = str(crawl["outcome"])
        cut = Check(
            "not_cut",
            not limit.startswith("limit: "),
            f"{limit} cut the source off: it holds more than the {len(stored)} pages that are stored",
            {"outcome": limit},
            severe=False,
        )
        meta = {
            "pages": len(stored),
            "bytes": int(stored["size"].sum() or 0),
            "failed": dict(reasons),
            "crawl": {name: crawl[name] for name in crawl if name != "failed"},
        }
        return Built(manifest_digest(manifest), meta, (check, cut))


def fingerprint(path: Path) -> str:
    """Digest the names, sizes and times of a file, or of all files under a folder that a reader looks at."""
    if not path.exists():
        raise AssayError(f"there is no {path}")
    files = [path] if path.is_file() else list(walk(path))
    facts = []
    for file in files:
        with suppress(OSError):  # a circle of links, or a file that has just been removed
            found = file.stat()
            if stat.S_ISREG(found.st_mode):
                facts.append([str(file.relative_to(path.parent)), found.st_size, found.st_mtime_ns])
    return digest(facts)
