"""documents: clean text, one partition a source."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import ClassVar

from assets.cleaning.run import clean_pages
from assets.merging import Build
from assets.stage import Built, Check, Need, Stage, Work
from warehouse.identity import digest
from warehouse.pages import read_manifest
from warehouse.parquet import write_parquet


class Documents(Stage):
    """Turns pages into documents; what is dropped is kept with its reason."""

    name = "documents"
    group = "corpus"
    code_version = "2"
    description = (
        "Clean text with title, date, authors, keywords and language, from HTML (trafilatura), PDF, text and "
        "BEIR passages; acts of EUR-Lex with their recitals, articles and annexes as sections. "
        "Pages that give no document are listed in dropped.parquet with the reason."
    )
    by_source = True
    upstream = ("pages",)
    checks: ClassVar[dict[str, str]] = {
        "few_dropped": "At most a tenth of the stored pages gave no document.",
        "unique_ids": "No document id comes twice.",
    }

    def __init__(self, build: Build) -> None:
        self.sources = build.sources

    def keys(self) -> list[str]:
        """Return the names of the sources."""
        return sorted(self.sources)

    def needs(self, key: str) -> list[Need]:
        """Return the source's pages."""
        return [Need("pages", key)]

    def recipes(self, key: str) -> dict[str, str]:
        """Return the digest of what cleaning takes from the source's recipe: its language."""
        return {f"cleaning.{key}": digest(self.sources[key].language)}

    def build(self, key: str, folder: Path, work: Work) -> Built:
        """Clean every stored page of the source."""
        manifest = read_manifest(work.home, key)
        documents, dropped = clean_pages(key, manifest, work.home, self.sources[key].language, work.progress)
        write_parquet(documents, folder / "documents.parquet")
        write_parquet(dropped, folder / "dropped.parquet")
        reasons = dict(Counter(dropped["reason"].to_list()).most_common(20))
        words = int(documents["text"].str.split(" ").list.len().sum() or 0) if len(documents) else 0
        checks = (
            Check(
                "few_dropped",
                len(dropped) * 10 <= len(documents) + len(dropped),
                f"{len(dropped)} of {len(documents) + len(dropped)} pages gave no document",
                {"reasons": reasons},
                severe=False,
            ),
            Check(
                "unique_ids",
                documents["doc_id"].n_unique() == len(documents),
                f"{documents['doc_id'].n_unique()} ids for {len(documents)} documents",
            ),
        )
        version = digest(
            [documents.select("doc_id", "version").rows(), dropped.select("url", "reason").rows()]
        )
        meta = {
            "documents": len(documents),
            "dropped": len(dropped),
            "dropped_by_reason": reasons,
            "words": words,
        }
        return Built(version, meta, checks)
