"""documents: clean text, one partition a source."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from rag_assay.assets.cleaning.draft import CODE_VERSION, DAMAGED
from rag_assay.assets.cleaning.language import detector
from rag_assay.assets.cleaning.versions import changes, update_versions
from rag_assay.assets.engine.row_checks import at_most
from rag_assay.assets.engine.stage import BuildContext, BuildResult, Check, PartitionRef, Stage
from rag_assay.assets.engine.table import Plot, StageTable, histogram
from rag_assay.assets.recipes.build_half import Build, may_cost
from rag_assay.warehouse.artifact_records import file_damage
from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.identity import digest, sha256_text
from rag_assay.warehouse.inference.call_tags import Purpose
from rag_assay.warehouse.pages import bring_bodies, bring_pages, read_manifest
from rag_assay.warehouse.parquet import read_parquet, write_batches, write_parquet
from rag_assay.warehouse.schemas import DOCUMENTS, DROPPED, VERSIONS, Schema
from rag_assay.warehouse.source import DateBy

if TYPE_CHECKING:
    from rag_assay.assets.cleaning.batches import Batch, Dating

FIRST = 10  # dropped pages that are told by name
DROPPED_AT_MOST = 0.1  # of the stored pages, without a warning


def _lengths(rows: pl.DataFrame) -> str | None:
    return histogram(rows["text"].str.len_chars())


class Documents(Stage):
    """Turns pages into documents; what is dropped is kept with its reason."""

    name = "documents"
    group = "corpus"
    code_version = CODE_VERSION
    description = (
        "Clean text with title, date, authors, keywords and language, from HTML (trafilatura), PDF, text and "
        "passages; headings as sections, of acts of EUR-Lex the recitals, articles and annexes. "
        "Pages that give no document are listed in dropped.parquet with the reason; versions.parquet says "
        "which version of each document held when. Only pages that changed are cleaned again. "
        "`assay ui STUDY --page documents` shows each beside its page."
    )
    table = StageTable(
        "documents.parquet",
        DOCUMENTS,
        ("title", "url", "language", "published_at", "text"),
        (Plot("characters of a document", ("text",), _lengths, most=500),),
    )
    kinds: ClassVar[frozenset[str]] = frozenset({"python", "parquet"})
    by_source = True
    resumes = True
    upstream = ("pages",)
    family = "cleaning"
    blocking: ClassVar[frozenset[str]] = frozenset({"has_documents", "unique_ids"})
    checks: ClassVar[dict[str, str]] = {
        "has_documents": "At least one page gave a document: else the source is missing in its corpora.",
        "few_dropped": f"At most {DROPPED_AT_MOST:.0%} of the stored pages gave no document.",
        "unique_ids": "No document id occurs twice: rankings could not distinguish such documents.",
        "no_scans": "No page of a PDF is an image, whose words are missing.",
        "keeps_headings": "Each web page with three headings or more keeps at least half of them.",
    }

    def __init__(self, build: Build) -> None:
        self.sources = build.sources

    def keys(self) -> list[str]:
        return sorted(self.sources)

    def needs(self, key: str) -> list[PartitionRef]:
        return [PartitionRef("pages", key)]

    def recipes(self, key: str) -> dict[str, str]:
        """Return the digest of what cleaning takes from outside the pages."""
        source, further = self.sources[key], []
        if source.date_by:
            from rag_assay.assets.cleaning.batches import identity_of

            further = [identity_of(source.date_by)]
        further += ["links"] if source.links == "keep" else []
        further += [f"ocr {source.ocr}"] if source.ocr else []
        return {f"cleaning.{key}": digest([key, source.language, detector(), *further])}

    def identity(self, key: str, store: ArtifactStore) -> str:
        """Return the digest of the inputs, and of the previous build whose versions it carries on."""
        inputs = super().identity(key, store)
        current = store.current(self.name, key)
        if current is None:
            return inputs
        return (
            current.identity if current.meta.get("inputs") == inputs else digest([inputs, current.identity])
        )

    def spends(self, key: str) -> bool:
        return may_cost(self.sources[key].date_by)

    def build(self, key: str, folder: Path, work: BuildContext) -> BuildResult:
        from rag_assay.assets.cleaning.batches import Cleaning, Known

        before = self._before(key, folder, work)
        parts = folder / "parts"
        known = Known.in_folders(parts, *([before] if before else self._incomplete(key, folder, work)))
        tally = _Tally()
        bring_pages(work.home, key)
        bring_bodies(work.home, read_manifest(work.home, key))
        with _dating(key, self.sources[key].date_by, work) as dating:
            source = self.sources[key]
            cleaning = Cleaning(
                *(key, work.home, source.language, parts),
                dating=dating,
                links=source.links == "keep",
                ocr=source.ocr,
            )
            batches = cleaning.run(read_manifest(work.home, key), known, work.progress)
            write_batches(tally.documents_of(batches), DOCUMENTS, folder / "documents.parquet")
        dropped = pl.concat([pl.DataFrame(schema=DROPPED), *tally.dropped]).sort("url")
        manifest = read_manifest(work.home, key, gone=True)
        write_parquet(dropped, folder / "dropped.parquet")
        seen = pl.DataFrame(tally.seen, schema=_SEEN, orient="row")
        versions = update_versions(_history(self.name, key, folder, work), seen, manifest)
        write_parquet(versions, folder / "versions.parquet")
        shutil.rmtree(parts, ignore_errors=True)
        reasons = dict(Counter(dropped["reason"].to_list()).most_common(20))
        meta = {
            "documents": len(seen),
            "dropped": len(dropped),
            "dropped_by_reason": reasons,
            "dropped_first": [list(row) for row in dropped.select("url", "reason").head(FIRST).rows()],
            "words": tally.words,
            "pages_cleaned": len(seen) + len(dropped) - tally.reused,
            "pages_reused": tally.reused,
            "date_sources": dict(tally.date_sources.most_common()),
            "languages": dict(tally.languages.most_common(20)),
            "fidelity": tally.fidelity,
            "versions": len(versions),
            "changes": _changes(before, folder),
            "inputs": super().identity(key, work.store),
        }
        meta |= _gaps(dropped, manifest, dating.metadata() if dating else {})
        checks = (*_checks(seen, dropped, reasons), tally.scans(), tally.vanished())
        version = digest([seen.select("doc_id", "version").rows(), dropped.select("url", "reason").rows()])
        return BuildResult(version, meta, checks, complete="incomplete" not in meta)

    def _before(self, key: str, folder: Path, work: BuildContext) -> Path | None:
        artifact = work.store.current(self.name, key)
        if artifact is None or artifact.identity == folder.parent.name:
            return None
        return work.store.folder(self.name, artifact.identity)

    def _incomplete(self, key: str, folder: Path, work: BuildContext) -> list[Path]:
        artifact = work.store.current(self.name, key)
        return [folder] if artifact and not artifact.complete else []


def _gaps(dropped: pl.DataFrame, manifest: pl.DataFrame, dating_metadata: dict[str, Any]) -> dict[str, Any]:
    """Add the drops that the next build may fix; ``damaged``: SHA-256 of pages to fetch again."""
    passing = dropped.filter(pl.col("page_key").is_null())
    if not len(passing):
        return dating_metadata
    reasons = Counter(passing["reason"].to_list()).most_common()
    first = ", ".join(passing["url"].head(FIRST))
    reason_counts = "; ".join(f"{number} x {reason}" for reason, number in reasons)
    why = f"{reason_counts} ({first}{' …' if len(passing) > FIRST else ''}); the next run tries again"
    damaged = passing.filter(pl.col("reason") == DAMAGED).select("url")
    bodies = manifest.filter(pl.col("gone_at").is_null()).join(damaged, on="url", how="semi")["sha256"]
    return {
        **dating_metadata,
        "incomplete": "; ".join([*filter(None, [dating_metadata.get("incomplete")]), why]),
        "damaged": sorted(set(bodies.drop_nulls())),
    }


_SEEN: Schema = dict.fromkeys(("doc_id", "version", "url", "title", "text_sha256"), pl.String)


@dataclass
class _Tally:
    seen: list[tuple[Any, ...]] = field(default_factory=list)
    dropped: list[pl.DataFrame] = field(default_factory=list)
    languages: Counter[str] = field(default_factory=Counter)
    date_sources: Counter[str] = field(default_factory=Counter)
    scanned: list[str] = field(default_factory=list)
    fidelity: dict[str, list[int]] = field(default_factory=dict)
    headless: list[str] = field(default_factory=list)
    words: int = 0
    reused: int = 0

    def documents_of(self, batches: Iterator[Batch]) -> Iterator[pl.DataFrame]:
        from rag_assay.assets.cleaning.fidelity import add, has_lost_headings

        for batch in batches:
            rows = batch.documents.select("doc_id", "version", "url", "title", "text").iter_rows()
            self.seen += [(*facts, sha256_text(text)) for *facts, text in rows]
            self.dropped.append(batch.dropped)
            self.languages.update(language or "unknown" for language in batch.documents["language"])
            sources = batch.documents["metadata"].str.json_path_match("$.date_source")
            self.date_sources.update(source or "none" for source in sources)
            scanned = batch.documents["metadata"].str.json_path_match("$.scanned_pages")
            found = zip(batch.documents["url"], scanned, strict=True)
            self.scanned += [f"{url} (pages {pages.strip('[]')})" for url, pages in found if pages]
            counted = batch.documents["metadata"].str.json_path_match("$.fidelity")
            for url, counts in zip(batch.documents["url"], counted, strict=True):
                kept = json.loads(counts) if counts else {}
                add(self.fidelity, kept)
                if has_lost_headings(kept):
                    self.headless.append("{0} ({2} of {1})".format(url, *kept["headings"]))
            self.words += int(batch.documents["text"].str.split(" ").list.len().sum() or 0)
            self.reused += batch.reused
            yield batch.documents

    def scans(self) -> Check:
        lost = "pages that are images, whose words are missing (`ocr` of the source reads them)"
        return _none("no_scans", self.scanned, f"PDFs have {lost}")

    def vanished(self) -> Check:
        return _none("keeps_headings", self.headless, "pages lost more than half of their headings")


def _none(name: str, found: list[str], what: str) -> Check:
    first = f": {'; '.join(found[:FIRST])}" if found else ""
    return Check(name, not found, f"{len(found)} {what}{first}", {"first": found[:50]}, severe=False)


@contextmanager
def _dating(source: str, date_by: DateBy | None, work: BuildContext) -> Iterator[Dating | None]:
    if date_by is None:
        yield None
        return
    from rag_assay.assets.cleaning.batches import Dating
    from rag_assay.warehouse.inference.gateway import Gateway

    with Gateway(work.home, budget=work.budgets.of(f"dates of {source}", date_by.budget_usd)) as gateway:
        yield Dating(date_by, gateway, Purpose("date_by", cell=source))


def _checks(seen: pl.DataFrame, dropped: pl.DataFrame, reasons: dict[str, int]) -> tuple[Check, ...]:
    pages, ids = len(seen) + len(dropped), seen["doc_id"].n_unique()
    lost = [f"{url}: {reason}" for url, reason in dropped.select("url", "reason").rows()]
    again = seen.filter(seen["doc_id"].is_duplicated())["url"].head(FIRST).to_list()
    few = at_most(
        "few_dropped", DROPPED_AT_MOST, lost, pages, "pages gave no document", numbers={"reasons": reasons}
    )
    none = f"; {'; '.join(f'{n} x {reason}' for reason, n in list(reasons.items())[:3])}" if reasons else ""
    return (
        Check(
            "has_documents",
            len(seen) > 0,
            f"{len(seen)} documents of {pages} page{'' if pages == 1 else 's'}{'' if len(seen) else none}",
            {"documents": len(seen), "pages": pages, "reasons": reasons},
        ),
        few,
        Check(
            "unique_ids",
            ids == len(seen),
            f"{ids} ids for {len(seen)} documents{f', first {again[0]}' if again else ''}",
            {"ids": ids, "documents": len(seen), "first": again},
        ),
    )


def _history(stage: str, key: str, folder: Path, work: BuildContext) -> pl.DataFrame:
    store = work.store
    built = [artifact for artifact in store.all(stage) if artifact.key == key]
    damaged = [a for a in store.damaged(stage) if a.key == key and _is_good(a, "versions.parquet", store)]
    folders = [store.files_of(a) for a in (*built, *damaged)]
    files = [path for path in {*folders, folder} if (path / "versions.parquet").exists()]
    for found in sorted(files, key=lambda path: (path / "versions.parquet").stat().st_mtime_ns, reverse=True):
        with suppress(CorruptFileError):
            return read_parquet(found / "versions.parquet", list(VERSIONS))
    return pl.DataFrame(schema=VERSIONS)


def _is_good(artifact: Artifact, name: str, store: ArtifactStore) -> bool:
    folder = store.files_of(artifact)
    return name in artifact.files and file_damage(folder, artifact, name) is None


def _changes(before: Path | None, folder: Path) -> dict[str, Any] | None:
    if before is None or not (before / "documents.parquet").exists():
        return None
    try:
        return changes(before / "documents.parquet", folder / "documents.parquet")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return None  # the last build's file is torn
