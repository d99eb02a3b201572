"""pages: what the crawlers fetched, one partition a source."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import polars as pl

from rag_assay.assets.engine.crawl_process import run_crawler
from rag_assay.assets.engine.row_checks import FIRST
from rag_assay.assets.engine.stage import BuildContext, BuildResult, Check, PartitionRef, Stage
from rag_assay.assets.engine.table import StageTable, distribution
from rag_assay.assets.recipes.build_half import Build
from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.errors import AssayError, CorruptFileError
from rag_assay.warehouse.eurlex_notice import EURLEX
from rag_assay.warehouse.identity import digest, sha256_file
from rag_assay.warehouse.pages import (
    NOT_BEGUN,
    PASSING,
    bring_pages,
    is_whole,
    manifest_digest,
    manifest_file,
    read_manifest,
    share_pages,
)
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import PAGES
from rag_assay.warehouse.source import Source

REFUSED = "read, not stored"  # the reason of a text that the spider does not store begins so
WITHOUT_EFFECT = {"schedule", "delay", "contact", "language", "date_by"}  # on what is stored


class Pages(Stage):
    """Fetches the pages of a source by a crawler in a process of its own."""

    name = "pages"
    group = "corpus"
    description = (
        "Pages as fetched, by a Scrapy spider or a file reader in a child process. Stored: bodies by SHA-256 "
        "and a Parquet manifest (URL, status, headers, time, SHA-256, what the spider read from the page). "
        "Materializing it crawls again: unchanged pages are not stored twice."
    )
    table = StageTable(
        "manifest.parquet",
        PAGES,
        ("url", "status", "content_type", "size", "reason"),
        (distribution("bytes of a page", "size"),),
    )
    family = "sources"
    kinds: ClassVar[frozenset[str]] = frozenset({"python", "scrapy", "parquet"})
    checks: ClassVar[dict[str, str]] = {
        "has_pages": "At least as many pages were stored as failed.",
        "spider_fits": "The spider stored at least half of the texts that it read.",
        "not_cut": "No limit cut the source off.",
    }
    blocking: ClassVar[frozenset[str]] = frozenset({"spider_fits"})
    crawls = True
    in_place = True
    by_source = True

    def __init__(self, build: Build) -> None:
        self.sources = build.sources

    def keys(self) -> list[str]:
        return sorted(self.sources)

    def needs(self, key: str) -> list[PartitionRef]:
        return []

    def recipes(self, key: str) -> dict[str, str]:
        """Return the digest of where the pages come from; when and how politely does not change them."""
        source = self.sources[key]
        spec = source.model_dump(mode="json", exclude=WITHOUT_EFFECT)
        return {f"source.{key}": digest([spec, source.state(), *source.versions()])}

    def is_of_now(self, key: str, artifact: Artifact) -> bool:
        """Return whether a study's source is the one that was crawled, perhaps under another path."""
        path, before = self.sources[key].path, artifact.meta.get("path")
        moved = path is None or before is None or path == before or not Path(before).exists()
        return moved and artifact.meta.get("source") in {None, self._recipe(key)}

    def _recipe(self, key: str) -> str:
        source = self.sources[key]
        spec = source.model_dump(mode="json", exclude={*WITHOUT_EFFECT, "path"})
        return digest([spec, *source.versions()] if source.versions() else spec)

    def fresh(self, key: str, store: ArtifactStore) -> Artifact | None:
        """Return the artifact of a key, unless its pages were changed by a later crawl or are damaged."""
        artifact = super().fresh(key, store)
        if artifact is None or not _holds(artifact, store.home) or _damaged_bodies(key, store):
            return None
        return artifact

    def table_path(self, artifact: Artifact, store: ArtifactStore) -> Path:
        return manifest_file(store.home, artifact.key)

    def waits_for_servers(self, key: str) -> bool:
        """Return whether a source is crawled beside others: only if no other one asks its hosts, since each
        crawl keeps the delay between requests by itself.
        """
        mine = _hosts(self.sources[key])
        others = {host for name, one in self.sources.items() if name != key for host in _hosts(one)}
        return bool(mine) and not any(
            f".{a}".endswith(f".{b}") or f".{b}".endswith(f".{a}") for a in mine for b in others
        )

    def build(self, key: str, folder: Path, work: BuildContext) -> BuildResult:
        if damaged := _damaged_bodies(key, work.store):
            work.progress(f"{key}: {len(damaged)} stored pages are damaged, and are fetched again", 0, 0)
        bring_pages(work.home, key)
        try:
            crawl = run_crawler(key, self.sources[key], work)
        finally:
            share_pages(work.home, key)
        manifest = read_manifest(work.home, key)
        is_stored = manifest["sha256"].is_not_null()
        stored = manifest.filter(is_stored)
        reasons = Counter(manifest.filter(~is_stored)["reason"].to_list())
        main_reasons = "; ".join(f"{n} x {reason}" for reason, n in reasons.most_common(3))
        if not len(stored):
            raise AssayError(
                f"source {key}: not one page could be stored ({main_reasons or 'nothing was found there'})"
            )
        if str(crawl["outcome"]).startswith(NOT_BEGUN):
            raise AssayError(
                f"source {key}: nothing could be fetched ({crawl['outcome']}); "
                f"the {len(stored)} pages that are stored stay as they were"
            )
        failed = sum(reasons.values())
        first = [
            f"{url}: {why}"
            for url, why in manifest.filter(~is_stored).select("url", "reason").head(FIRST).rows()
        ]
        check = Check(
            "has_pages",
            failed <= len(stored),
            f"{len(stored)} pages stored, {failed} failed" + (f" ({main_reasons})" if main_reasons else ""),
            {"stored": len(stored), "failed": failed, "reasons": dict(reasons), "first": first},
            severe=False,
        )
        fits = _spider_fits(self.sources[key], manifest)
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
            "crawl": crawl,
            "manifest_sha256": sha256_file(manifest_file(work.home, key)),
            "stored": manifest_digest(stored),
            "source": self._recipe(key),
            "path": self.sources[key].path,
        }
        meta |= _passing(reasons)
        complete = "incomplete" not in meta
        return BuildResult(manifest_digest(manifest), meta, (check, fits, cut), complete=complete)


def _hosts(source: Source) -> set[str]:
    """Return the hosts that a crawl asks; a start that is no URL is an act of EUR-Lex."""
    started = {urlsplit(start).hostname or EURLEX for start in source.start}
    return {*source.domains, *started} if source.spider else set()


def _spider_fits(source: Source, manifest: pl.DataFrame) -> Check:
    """Compare the number of texts that a spider stored with those that it only read."""
    texts = manifest.filter(pl.col("gone_at").is_null())
    stored = int(texts["sha256"].is_not_null().sum())
    refused = texts.filter(pl.col("reason").str.starts_with(REFUSED).fill_null(value=False))
    spiders = Counter(json.loads(fields or "{}").get("stored_by") for fields in refused["fields"])
    found = f"{stored} pages stored, {len(refused)} read and not stored"
    others = [f"`spider: {name}` would have stored {n} of them" for name, n in spiders.items() if name]
    if spiders["blog"] and spiders["site"]:
        others = [f"`spider: blog` would have stored {spiders['blog']} of them, `spider: site` all"]
    if source.content:
        others = ["check the selector `content`"]
    return Check(
        "spider_fits",
        len(refused) <= stored,
        f"{found}: {others[0]}" if len(refused) > stored and others else found,
        {"stored": stored, "refused": len(refused), "first": refused["url"].head(FIRST).to_list()},
        severe=not source.content,
    )


def _holds(artifact: Artifact, home: Home) -> bool:
    path = manifest_file(home, artifact.key)
    if not path.exists() or sha256_file(path) != artifact.meta.get("manifest_sha256"):
        bring_pages(home, artifact.key)
    if not path.exists():
        return False
    if "stored" not in artifact.meta or sha256_file(path) == artifact.meta["manifest_sha256"]:
        return True
    try:
        manifest = read_manifest(home, artifact.key)
    except CorruptFileError:
        return False
    return manifest_digest(manifest.filter(manifest["sha256"].is_not_null())) == artifact.meta["stored"]


def _damaged_bodies(key: str, store: ArtifactStore) -> list[str]:
    documents = store.current("documents", key)
    found = documents.meta.get("damaged", ()) if documents else ()
    return [sha256 for sha256 in found if not is_whole(store.home, sha256)]


def _passing(reasons: Mapping[str, int]) -> dict[str, str]:
    passing = {reason: number for reason, number in reasons.items() if reason.startswith(PASSING)}
    if not passing:
        return {}
    reason_counts = "; ".join(f"{number} x {reason}" for reason, number in passing.items())
    return {"incomplete": f"{reason_counts}; the next run reads again"}
